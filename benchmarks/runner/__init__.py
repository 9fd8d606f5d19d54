"""Runs benchmark scripts that a YAML file lists, each in a process of its own, and writes one results file.

``configuration`` reads YAML into ``settings``; ``templating`` and ``selection`` fill in and choose entries;
``processes`` runs one script and measures it from outside; ``requirements`` judges its metrics; ``machine``
describes where it ran; ``session`` puts these together and hands the results to ``sinks``.
"""
