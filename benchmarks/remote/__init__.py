"""The benchmark of remote storage: an S3 server on loopback behind a proxy that makes it as slow as one that is far away.

``sets`` names the data sets and ``data`` writes them. ``store`` starts server and proxy for one entry, ``options`` reads its
command line, ``clock`` times passes. ``reading``, ``opening``, ``cached``, ``ranks``, ``beside`` and ``faults`` are the scenarios;
``ceiling`` is what the server itself gives. ``shardmill_entry`` is our side, the peers' is in ``benchmarks.peers``. ``curation``
moves interleaved shards from bucket to bucket. ``report`` makes a page of a session, ``goals`` its table of goals.
"""
