"""S3 on this machine: a server, and a proxy that spoils its answers.

Only the tests and their fixtures need pytest. Tests import it as ``remote``, and benchmarks, which
run in the root of the checkout, as ``tests.remote``::

    with serving() as server, proxying(server.endpoint) as proxy:
        server.publish("data", "shards", directory)
        proxy.faults(
            *network(round_trip_s=0.02, bytes_per_s=80e6),
            throttled(503, probability=0.01, seed=1),
        )
        options = server.storage_options(endpoint=proxy.endpoint)
"""
