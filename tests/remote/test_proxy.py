"""Each fault is seen by a client that hides nothing."""

import http.client
import os
import threading
import time

import pytest
from promptness import HANGS_S

from .fault_proxy import Fault, access_denied, expired_token, mix, network, throttled, time_skewed

CONTENT = os.urandom(300_000)


@pytest.fixture
def path(bucket):
    bucket.publish("object", CONTENT)
    return f"/{bucket.name}/object"


def wait_until(condition):
    end = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.01)


def test_without_faults_answers_are_the_servers(s3, spoiled, bucket, path):
    for arguments in (
        ("GET", path),
        ("HEAD", path),
        ("GET", f"/{bucket.name}/missing"),
        ("GET", f"/{bucket.name}"),
        ("DELETE", f"/{bucket.name}/missing"),
    ):
        direct, through = s3.request(*arguments), spoiled.request(*arguments)
        changing = {"date", "x-amz-request-id", "x-amz-id-2"}
        assert through.status == direct.status
        assert {*through.headers} == {*direct.headers}
        assert {name: value for name, value in through.headers.items() if name not in changing} == {
            name: value for name, value in direct.headers.items() if name not in changing
        }
        if direct.status == 200:
            assert through.body == direct.body


def test_odd_keys_keep_their_signature(spoiled, bucket):
    for key in (
        "sp ace",
        "a+b",
        "per%25cent",
        "ü/ö",
        "semi;colon&and=is",
        "quo'te(x)!*",
        "tilde~",
        "a:b@c,d",
    ):
        path = f"/{bucket.name}/{key}"
        assert spoiled.request("PUT", path, body=key.encode()).status == 200, key
        assert spoiled.request("GET", path).body == key.encode()
        assert (bucket.directory / key).read_bytes() == key.encode()


def test_upload_waits_for_100_continue_through_the_proxy(spoiled, bucket):
    path, body = f"/{bucket.name}/expected", os.urandom(100_000)
    signed = spoiled.sign(
        "PUT", path, "", {"Expect": "100-continue", "Content-Length": str(len(body))}, body
    )
    connection = http.client.HTTPConnection(spoiled.endpoint.removeprefix("http://"), timeout=5)
    connection.putrequest("PUT", path, skip_host=True, skip_accept_encoding=True)
    for name, value in signed.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.sock.recv(100).startswith(b"HTTP/1.1 100 ")
    connection.send(body)
    assert connection.getresponse().status == 200
    connection.close()
    assert (bucket.directory / "expected").read_bytes() == body


@pytest.mark.parametrize("status", [429, 500, 503])
def test_burst_of_refusals_ends_after_its_count(spoiled, proxy, path, status):
    proxy.faults(throttled(status, count=3, retry_after_s=2))
    answers = [spoiled.request("GET", path) for _ in range(5)]
    assert [answer.status for answer in answers] == [status, status, status, 200, 200]
    assert answers[0].headers["retry-after"] == "2"
    assert answers[0].code in {"TooManyRequests", "InternalError", "SlowDown"}
    assert proxy.given() == [3]
    assert proxy.counters()["faults"] == {"error": 3}


def test_refusal_without_retry_after_has_no_such_header(spoiled, proxy, path):
    proxy.faults(throttled(count=1))
    assert "retry-after" not in spoiled.request("GET", path).headers


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (expired_token, 400, "ExpiredToken"),
        (time_skewed, 403, "RequestTimeTooSkewed"),
        (access_denied, 403, "AccessDenied"),
    ],
)
def test_credentials_are_refused_until_faults_are_cleared(
    spoiled, proxy, path, fault, status, code
):
    proxy.faults(fault())
    for _ in range(3):
        answer = spoiled.request("GET", path)
        assert (answer.status, answer.code) == (status, code)
    proxy.faults()
    assert spoiled.request("GET", path).body == CONTENT


def test_refused_put_did_nothing_and_applied_one_did(spoiled, proxy, bucket):
    proxy.faults(throttled(500, count=1), throttled(500, count=1, applied=True))
    assert spoiled.request("PUT", f"/{bucket.name}/refused", body=b"1").status == 500
    assert spoiled.request("PUT", f"/{bucket.name}/applied", body=b"1").status == 500
    assert not (bucket.directory / "refused").exists()
    assert (bucket.directory / "applied").read_bytes() == b"1"


@pytest.mark.parametrize("reset", [False, True])
def test_lost_answer_of_a_put_that_was_applied(spoiled, proxy, bucket, reset):
    proxy.faults(Fault(kind="lost", applied=True, reset=reset, count=1))
    with pytest.raises(ConnectionResetError if reset else http.client.RemoteDisconnected):
        spoiled.request("PUT", f"/{bucket.name}/x", body=b"1", headers={"If-None-Match": "*"})
    assert (
        spoiled.request(
            "PUT", f"/{bucket.name}/x", body=b"1", headers={"If-None-Match": "*"}
        ).status
        == 412
    )


def test_latency_holds_back_the_first_byte(spoiled, proxy, path):
    proxy.faults(Fault(kind="latency", delay_s=0.15))
    started = time.monotonic()
    response = spoiled.open("GET", path)
    assert time.monotonic() - started >= 0.15
    assert response.read() == CONTENT


def test_slow_body_takes_its_time(spoiled, proxy, path):
    proxy.faults(*network(round_trip_s=0.05, bytes_per_s=1_000_000))
    started = time.monotonic()
    assert spoiled.request("GET", path).body == CONTENT
    assert time.monotonic() - started >= 0.3


def test_cut_body_is_a_beginning(spoiled, proxy, path):
    proxy.faults(Fault(kind="cut", after_bytes=1000, count=1))
    with pytest.raises(http.client.IncompleteRead) as cut:
        spoiled.request("GET", path)
    assert cut.value.partial == CONTENT[:1000]
    assert spoiled.request("GET", path).body == CONTENT


def test_cut_by_reset_is_an_error_of_the_connection(spoiled, proxy, path):
    proxy.faults(Fault(kind="cut", after_bytes=1000, count=1, reset=True))
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        spoiled.request("GET", path)
    assert spoiled.request("GET", path).body == CONTENT


def test_cut_behind_the_end_waits_for_a_longer_body(spoiled, proxy, path):
    proxy.faults(Fault(kind="cut", after_bytes=1000, count=1))
    assert len(spoiled.request("GET", path, headers={"Range": "bytes=0-99"}).body) == 100
    assert spoiled.request("HEAD", path).status == 200
    assert proxy.given() == [0]
    with pytest.raises(http.client.IncompleteRead):
        spoiled.request("GET", path)


def test_length_may_say_too_much_or_too_little(spoiled, proxy, path):
    proxy.faults(
        Fault(kind="length", difference=10, count=1), Fault(kind="length", difference=-10, count=1)
    )
    with pytest.raises(http.client.IncompleteRead) as missing:
        spoiled.request("GET", path)
    assert missing.value.partial == CONTENT
    assert spoiled.request("GET", path).body == CONTENT[:-10]
    assert spoiled.request("GET", path).body == CONTENT


def test_flipped_byte_is_the_only_change(spoiled, proxy, path):
    proxy.faults(Fault(kind="flip", position=262_144, count=1))
    body = spoiled.request("GET", path).body
    assert [at for at in range(len(CONTENT)) if body[at] != CONTENT[at]] == [262_144]


def test_drawn_places_come_again_with_their_seed(spoiled, proxy, path):
    def flipped(seed):
        proxy.faults(Fault(kind="flip", seed=seed))
        bodies = [spoiled.request("GET", path).body for _ in range(3)]
        return [
            next(at for at in range(len(CONTENT)) if body[at] != CONTENT[at]) for body in bodies
        ]

    assert flipped(1) == flipped(1) != flipped(2)


def test_silence_lasts_until_the_client_goes(connect, proxy, path):
    impatient = connect(proxy.endpoint, timeout_s=0.2)
    proxy.faults(Fault(kind="silent"))
    with pytest.raises(TimeoutError):
        impatient.request("GET", path)
    # The proxy holds nothing without a waiting client.
    wait_until(lambda: proxy.counters()["in_flight"] == 0)
    proxy.faults()
    assert connect(proxy.endpoint).request("GET", path).body == CONTENT


def test_stalled_body_stays_open_until_its_time_is_over(connect, spoiled, proxy, path):
    proxy.faults(Fault(kind="stall", after_bytes=1000, count=1))
    impatient = connect(proxy.endpoint)
    response = impatient.open("GET", path)
    assert response.read(1000) == CONTENT[:1000]
    impatient.be_patient_for(0.2)
    with pytest.raises(TimeoutError):
        response.read(1)
    impatient.close()
    proxy.faults(Fault(kind="stall", after_bytes=1000, count=1, duration_s=0.1))
    with pytest.raises(http.client.IncompleteRead):
        spoiled.request("GET", path)


def test_cleared_faults_end_what_is_held(spoiled, proxy, path):
    proxy.faults(Fault(kind="silent"))

    def clear():
        wait_until(lambda: proxy.given() == [1])
        proxy.faults()

    clearing = threading.Thread(target=clear)
    clearing.start()
    with pytest.raises(http.client.RemoteDisconnected):
        spoiled.request("GET", path)
    clearing.join()


def test_lagging_listing_lacks_what_is_new(spoiled, proxy, bucket):
    spoiled.request("PUT", f"/{bucket.name}/old", body=b"1")
    proxy.faults(Fault(kind="lag", lag_s=3600))
    spoiled.request("PUT", f"/{bucket.name}/new & odd", body=b"1")

    def listing():
        body = spoiled.request("GET", f"/{bucket.name}", query={"list-type": "2"}).body
        return (
            b"<Key>old<" in body,
            b"<Key>new &amp; odd<" in body,
            body.partition(b"<KeyCount>")[2][:1],
        )

    assert listing() == (True, False, b"1")
    assert spoiled.request("GET", f"/{bucket.name}/new & odd").body == b"1"
    proxy.faults(Fault(kind="lag", lag_s=0.1))
    time.sleep(0.1)
    assert listing() == (True, True, b"2")


def test_faults_keep_to_their_methods_targets_and_operations(spoiled, proxy, bucket, path):
    proxy.faults(
        throttled(503, methods=("HEAD",)),
        throttled(500, target=r"/deep/.*\.tar$"),
        throttled(429, operations=("ListObjectsV2",)),
    )
    assert spoiled.request("GET", path).status == 200
    assert spoiled.request("HEAD", path).status == 503
    assert spoiled.request("GET", f"/{bucket.name}/deep/a.tar").status == 500
    assert spoiled.request("GET", f"/{bucket.name}/deep/a.tar.gz").status == 404
    assert spoiled.request("GET", f"/{bucket.name}", query={"list-type": "2"}).status == 429


def test_fault_may_wait_for_its_turn(spoiled, proxy, path):
    proxy.faults(throttled(skip=2, count=1))
    assert [spoiled.request("HEAD", path).status for _ in range(4)] == [200, 200, 503, 200]


def test_probability_is_about_kept_and_comes_again_with_its_seed(spoiled, proxy, path):
    def statuses():
        proxy.faults(throttled(probability=0.3, seed=5))
        return [spoiled.request("HEAD", path).status for _ in range(200)]

    first = statuses()
    assert 30 < first.count(503) < 90
    assert first == statuses()


def test_mix_gives_its_count_of_several_kinds(spoiled, proxy, path):
    proxy.faults(mix(probability=0.5, count=40, seed=3, hold_s=0.01))
    seen = set()
    for _ in range(400):
        try:
            answer = spoiled.request("GET", path)
            seen.add(answer.status)
            assert answer.status != 200 or answer.body == CONTENT
        except (OSError, http.client.HTTPException) as error:
            seen.add(type(error))
        if proxy.given() == [40]:
            break
    assert {200, 429, 500, 503} < seen
    counted = proxy.counters()["faults"]
    assert sum(counted.values()) == 40
    assert {"error", "lost", "cut", "stall", "silent"} == {*counted}
    assert spoiled.request("GET", path).body == CONTENT


def test_wrong_faults_are_refused(proxy):
    for fault, message in (
        (Fault(kind="slow"), "bytes_per_s"),
        (Fault(kind="error", status=200), "status"),
        (Fault(kind="cut", target="("), "target"),
        (Fault(kind="mix"), "faults"),
        (Fault(kind="nonsense"), "nonsense"),
        (Fault(kind="cut", probability=2), "probability"),
    ):
        with pytest.raises(ValueError, match=message):
            proxy.faults(fault)


def test_counters_and_log_say_what_passed(spoiled, proxy, bucket, path):
    spoiled.request("GET", path, headers={"Range": "bytes=5-104"})
    spoiled.request("PUT", f"/{bucket.name}/put", body=b"12345")
    proxy.faults(throttled(count=1))
    spoiled.request("HEAD", path)
    counters = proxy.counters()
    assert counters["requests"] == {"GET": 1, "PUT": 1, "HEAD": 1}
    assert counters["operations"] == {"GetObject": 1, "PutObject": 1, "HeadObject": 1}
    assert counters["bytes_sent"]["GET"] == 100
    assert counters["bytes_received"]["PUT"] == 5
    keys = ("method", "target", "range", "status", "fault")
    assert [tuple(entry[key] for key in keys) for entry in proxy.requests()] == [
        ("GET", path, "bytes=5-104", 206, ""),
        ("PUT", f"/{bucket.name}/put", "", 200, ""),
        ("HEAD", path, "", 503, "error"),
    ]
    proxy.forget()
    assert proxy.requests() == []
    assert proxy.counters()["requests"] == {}


def test_in_flight_counts_each_client_once(connect, proxy, path):
    clients, rounds = 6, 5
    bodies = []

    def ask():
        client = connect(proxy.endpoint)
        bodies.extend(client.request("GET", path).body for _ in range(rounds))

    # Ends when it is set anew, so that each waits for the others.
    held = Fault(kind="latency", delay_s=3600, methods=("GET",))
    proxy.faults(held)
    threads = [threading.Thread(target=ask, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        wait_until(lambda: proxy.given() == [clients])
        proxy.faults(held)
    for thread in threads:
        thread.join()
    assert bodies == [CONTENT] * clients * rounds
    assert proxy.counters()["in_flight_max"] == clients
    assert proxy.counters()["in_flight"] == 0


def test_a_pool_of_one_is_never_two_in_flight(connect, proxy, path):
    for _ in range(100):
        # A connection each, so nothing but the client's own order keeps them apart.
        client = connect(proxy.endpoint)
        client.request("GET", path)
        client.close()
    assert proxy.counters()["in_flight_max"] == 1
