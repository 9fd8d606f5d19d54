"""The benchmark of remote storage.

An S3 server runs on loopback, and a proxy before it makes it as slow as a far store. ``store``
starts both for one entry, ``ceiling`` is what the server gives to plain requests, ``scenarios`` are
the entries but ``curation``. Everything runs on the cores of one machine.
"""
