"""The streaming benchmark: the rows of the streaming report, by MosaicML Streaming, ChiniDataset and shardmill.

``sets`` says what the rows are and ``data`` writes them. ``shardmill_entry`` is our side, the others are in
``benchmarks.peers``; ``verbatim`` and ``fair`` are the two protocols, run by ``measure`` with the same lines for all.
``plan`` measures what only we state beforehand. ``report`` makes a page of a session, ``goals`` its table of goals.
"""
