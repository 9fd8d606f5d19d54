"""What the tests of remote storage take for granted of their server."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .server import serving

TESTS = Path(__file__).resolve().parents[1]


def policy(bucket: str, access_key: str, *actions: str) -> bytes:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": [access_key]},
        "Action": list(actions),
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()


def complete(s3, path: str, parts: list[bytes], **headers: str):
    created = s3.request("POST", path, query={"uploads": ""})
    upload = created.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
    listed = ""
    for number, part in enumerate(parts, start=1):
        answer = s3.request(
            "PUT", path, query={"partNumber": str(number), "uploadId": upload}, body=part
        )
        listed += (
            f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['etag']}</ETag></Part>"
        )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return s3.request("POST", path, query={"uploadId": upload}, headers=headers, body=body)


def test_what_was_put_is_a_file_and_what_was_published_is_an_object(s3, bucket):
    assert s3.request("PUT", f"/{bucket.name}/a/put", body=b"one").status == 200
    assert (bucket.directory / "a/put").read_bytes() == b"one"
    bucket.publish("a/published", b"two")
    answer = s3.request("GET", f"/{bucket.name}/a/published")
    assert answer.body == b"two"
    assert answer.headers["etag"] == f'"{hashlib.md5(b"two").hexdigest()}"'


def test_published_directory_has_its_files_as_objects(s3, bucket, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/one").write_bytes(b"1")
    (tmp_path / "two").write_bytes(b"2")
    bucket.publish("under", tmp_path)
    assert s3.request("GET", f"/{bucket.name}/under/deep/one").body == b"1"
    assert s3.request("GET", f"/{bucket.name}/under/two").body == b"2"


def test_ranges_are_cut_and_one_behind_the_end_is_refused(s3, bucket):
    content = os.urandom(1000)
    bucket.publish("x", content)

    def ranged(text):
        return s3.request("GET", f"/{bucket.name}/x", headers={"Range": f"bytes={text}"})

    assert (ranged("10-19").status, ranged("10-19").body) == (206, content[10:20])
    assert ranged("990-5000").body == content[990:]
    assert ranged("-7").body == content[-7:]
    assert ranged("990-5000").headers["content-range"] == "bytes 990-999/1000"
    assert (ranged("1000-").status, ranged("1000-").code) == (416, "InvalidRange")


def test_conditional_put_makes_an_object_once(s3, bucket):
    path = f"/{bucket.name}/once"
    assert s3.request("PUT", path, body=b"first", headers={"If-None-Match": "*"}).status == 200
    second = s3.request("PUT", path, body=b"second", headers={"If-None-Match": "*"})
    assert (second.status, second.code) == (412, "PreconditionFailed")
    bucket.publish("published", b"here already")
    assert (
        s3.request("PUT", f"/{bucket.name}/published", headers={"If-None-Match": "*"}).status == 412
    )


def test_conditional_put_replaces_only_what_was_seen(s3, bucket):
    path = f"/{bucket.name}/state"
    seen = s3.request("PUT", path, body=b"1").headers["etag"]
    assert s3.request("PUT", path, body=b"2", headers={"If-Match": seen}).status == 200
    assert s3.request("PUT", path, body=b"3", headers={"If-Match": seen}).status == 412
    assert s3.request("GET", path, headers={"If-Match": seen}).status == 412
    assert s3.request("GET", path).body == b"2"


def test_conditional_multipart_put_makes_an_object_once(s3, bucket):
    path, parts = f"/{bucket.name}/big", [os.urandom(5 << 20), b"tail"]
    first = complete(s3, path, parts, **{"If-None-Match": "*"})
    digest = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).hexdigest()
    assert first.status == 200
    assert s3.request("HEAD", path).headers["etag"] == f'"{digest}-2"'
    assert complete(s3, path, [b"other"], **{"If-None-Match": "*"}).code == "PreconditionFailed"
    assert s3.request("GET", path).body == b"".join(parts)


def test_wrong_credentials_are_told_apart(s3, bucket, connect):
    def code(**fields):
        answer = connect(**fields).request("GET", f"/{bucket.name}/x")
        return answer.status, answer.code

    assert code() == (404, "NoSuchKey")
    assert code(access_key="nobody") == (403, "InvalidAccessKeyId")
    assert code(secret_key="bad") == (403, "SignatureDoesNotMatch")
    assert code(region="eu-west-1") == (400, "AuthorizationHeaderMalformed")
    assert code(skew_s=-3600) == (403, "RequestTimeTooSkewed")
    assert s3.request("GET", "/no-such-bucket/x").code == "NoSuchBucket"


def test_user_may_do_what_a_policy_allows(s3, bucket, server, connect):
    keys = server.users["reader"]
    reader = connect(access_key=keys.access_key, secret_key=keys.secret_key)
    bucket.publish("x", b"1")
    assert reader.request("GET", f"/{bucket.name}/x").code == "AccessDenied"
    allowed = policy(bucket.name, keys.access_key, "s3:GetObject")
    # An action and a resource must be of one kind.
    allowed = allowed.replace(f'"arn:aws:s3:::{bucket.name}", '.encode(), b"")
    assert s3.request("PUT", f"/{bucket.name}", query={"policy": ""}, body=allowed).status == 204
    assert reader.request("GET", f"/{bucket.name}/x").body == b"1"
    assert reader.request("PUT", f"/{bucket.name}/x", body=b"2").code == "AccessDenied"


def test_two_servers_know_nothing_of_each_other(server, bucket, connect):
    bucket.publish("x", b"1")
    with serving() as other:
        answer = connect(other.endpoint).request("GET", f"/{bucket.name}/x")
        assert answer.code == "InvalidAccessKeyId"
        directory = other.directory
    assert not directory.exists()


def test_killed_tests_leave_no_server(server, tmp_path):
    code = (
        "import time; from remote.server import serving; from remote.fault_proxy import proxying\n"
        "with serving() as server, proxying(server.endpoint) as proxy:\n"
        "    print(server.process.id, proxy.process.id, flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=TESTS, env=environment, stdout=subprocess.PIPE, text=True
    ) as killed:
        server_id, proxy_id = killed.stdout.readline().split()
        killed.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while any(is_alive(int(id)) for id in (server_id, proxy_id)):
        assert time.monotonic() < end, "the server or the proxy outlived its starter"
        time.sleep(0.02)


def is_alive(id: int) -> bool:
    try:
        return Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_bucket_that_s3_would_refuse_is_not_made(server):
    for name in ("ab", "Upper", "under_score", "a" * 64, "../up"):
        with pytest.raises(ValueError, match="bucket"):
            server.bucket(name)
