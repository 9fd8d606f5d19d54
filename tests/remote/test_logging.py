"""Events of native code are records of Python's `logging`, without keys."""

import logging

import shardmill as sm

from .fault_proxy import throttled


def test_retried_request_is_a_record_without_keys(bucket, proxy, server, caplog):
    bucket.publish("rows.jsonl", b'{"x": 1}\n')
    options = server.storage_options(endpoint=proxy.endpoint)
    proxy.faults(throttled(503, count=1))
    with caplog.at_level(logging.INFO, logger="shardmill.storage"):
        assert list(sm.Dataset(f"s3://{bucket.name}/rows.jsonl", storage_options=options)) == [
            {"x": 1}
        ]
    (record,) = [record for record in caplog.records if "retrying" in record.message]
    assert (record.name, record.levelname) == ("shardmill.storage", "INFO")
    assert "SlowDown" in record.message and server.keys.secret_key not in caplog.text
