"""The loader benchmark: tables of 66 columns into training batches, scenarios S1 to S8.

``sets`` names the data sets and ``data`` writes them. ``options`` reads an entry's command line, ``measure`` times one
loader and ``ranks`` several, with ``proc`` for what the kernel counts; ``shardmill_entry`` is our side, the peers' is in
``benchmarks.peers``. ``report`` makes a page of a session, ``goals`` its table of goals, ``gate`` compares two sessions.
"""
