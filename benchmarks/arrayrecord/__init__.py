"""The ArrayRecord benchmark: the same files read and written by shardmill and by array_record, figure by figure.

``sets`` names the files and ``data`` writes them, with array_record's writer. ``options`` reads an entry's command line.
``measure`` runs one scenario of ``reading``, ``writing``, ``opening`` or ``pipeline`` on a ``System``: one code times both
sides. ``shardmill_entry`` is our side, the other is in ``benchmarks.peers``. ``report`` makes a page of a session,
``goals`` its table of goals.
"""
