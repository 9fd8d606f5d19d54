"""The checkpoint benchmark: a job whose rows are partly done already, by shardmill and by Ray Data.

``sets`` names the data sets and ``data`` writes them. ``shardmill_entry`` is our side, Ray Data's is in
``benchmarks.peers``, and ``index`` times the set of ids alone. ``check`` holds the ids of an output against those that had
to be there. ``report`` makes a page of a session, ``goals`` its table of goals.
"""
