"""A proxy before a server, and the faults that it can be told to give."""

import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from .binary import proxy_path
from .process import Process

Kind = Literal[
    "latency",
    "slow",
    "lag",
    "error",
    "lost",
    "silent",
    "cut",
    "stall",
    "length",
    "flip",
    "forget",
    "mix",
]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What shall happen to requests.

    ``proxy/fault.go`` says what each kind does, and which fields it reads. All faults of the kinds
    latency, slow and lag that fit a request hold at once; of the others,
    the first that fits and is drawn.
    """

    kind: Kind
    #: Which requests: all that are given must fit. The target is a regular expression over path and
    #: query as they were sent.
    methods: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    target: str = ""
    #: How often: after ``skip`` fitting requests, each with a probability, until ``count`` were
    #: spoiled. 0 has no end.
    skip: int = 0
    count: int = 0
    probability: float = 1.0
    seed: int = 0

    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    lag_s: float = 0.0
    status: int = 0
    code: str = ""
    message: str = ""
    retry_after_s: int | None = None
    #: Whether the server does what was asked, and only the answer is another, or none.
    applied: bool = False
    #: Ends connections by RST.
    reset: bool = False
    #: For how long a connection is held; 0: until its client goes, or other faults are set.
    duration_s: float = 0.0
    #: None: drawn, anywhere in the body.
    after_bytes: int | None = None
    position: int | None = None
    difference: int = 0
    #: Of the user who signs the requests.
    secret_key: str = field(default="", repr=False)
    faults: tuple["Fault", ...] = ()


def throttled(status: int = 503, **fields: Any) -> Fault:
    """Too many requests, in the words of S3."""
    code = {429: "TooManyRequests", 500: "InternalError", 503: "SlowDown"}[status]
    return Fault(
        kind="error", status=status, code=code, message="Please reduce your request rate.", **fields
    )


def expired_token(**fields: Any) -> Fault:
    """Credentials that were good until now."""
    return Fault(
        kind="error",
        status=400,
        code="ExpiredToken",
        message="The provided token has expired.",
        **fields,
    )


def time_skewed(**fields: Any) -> Fault:
    """A clock that is wrong."""
    message = "The difference between the request time and the server's time is too large."
    return Fault(kind="error", status=403, code="RequestTimeTooSkewed", message=message, **fields)


def access_denied(**fields: Any) -> Fault:
    """Keys without the right."""
    return Fault(kind="error", status=403, code="AccessDenied", message="Access Denied", **fields)


def network(*, round_trip_s: float, bytes_per_s: float = 0.0) -> tuple[Fault, ...]:
    """The conditions of a store that is far away; the speed is that of one connection."""
    conditions = [Fault(kind="latency", delay_s=round_trip_s)]
    if bytes_per_s:
        conditions.append(Fault(kind="slow", bytes_per_s=bytes_per_s))
    return tuple(conditions)


def mix(*, probability: float, count: int, seed: int, hold_s: float = 0.2) -> Fault:
    """Everything that a reader must live through, for long runs.

    What is held ends by itself after ``hold_s``.
    """
    kinds = (
        throttled(503),
        throttled(503, retry_after_s=0),
        throttled(429),
        throttled(500),
        Fault(kind="lost"),
        Fault(kind="lost", reset=True),
        Fault(kind="cut"),
        Fault(kind="cut", reset=True),
        Fault(kind="stall", duration_s=hold_s),
        Fault(kind="silent", duration_s=hold_s),
    )
    return Fault(kind="mix", probability=probability, count=count, seed=seed, faults=kinds)


class Proxy:
    """Made by `proxying`."""

    def __init__(self, process: Process, *, endpoint: str, control: str) -> None:
        self.process = process
        self.endpoint = endpoint
        self._control = control

    def faults(self, *faults: Fault) -> None:
        """Sets these in place of those before.

        With none, all is well again, and what was held ends.
        """
        self._ask("PUT", "/faults", [asdict(fault) for fault in faults])

    def given(self) -> list[int]:
        """How often each of the faults was given, as they were set."""
        return self._ask("GET", "/faults")

    def counters(self) -> dict[str, Any]:
        """Counts since the last reset.

        They are requests, operations, bytes_sent, bytes_received, faults and in_flight_max. What a
        client has seen is counted. Bytes sent are those of bodies.
        """
        return self._ask("GET", "/counters")

    def requests(self) -> list[dict[str, Any]]:
        """In the order in which they came.

        Each has number, at_s, method, target, operation, range, status, bytes_sent and fault.
        """
        return self._ask("GET", "/requests")

    def forget(self) -> None:
        """Starts counters and requests anew."""
        self._ask("DELETE", "/counters")
        self._ask("DELETE", "/requests")

    def reset(self) -> None:
        """No faults, no counters, no requests."""
        self.faults()
        self.forget()

    def _ask(self, method: str, path: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"http://{self._control}{path}", data=data, method=method)
        try:
            with _DIRECT.open(request, timeout=30) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode().strip()) from None
        return json.loads(body) if body else None


# Whatever proxy the environment names, it is not between us and loopback.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def proxying(endpoint: str) -> Iterator[Proxy]:
    """A proxy before the server at an endpoint, until the block or this process ends."""
    program = proxy_path()
    with tempfile.TemporaryDirectory(prefix="shardmill-proxy-") as work:
        process = Process(
            [str(program), "-upstream", endpoint.removeprefix("http://")], log=Path(work) / "log"
        )
        addresses = process.until(lambda: _addresses(process), "the fault proxy")
        try:
            yield Proxy(
                process, endpoint=f"http://{addresses['data']}", control=addresses["control"]
            )
        finally:
            process.stop()


def _addresses(process: Process) -> dict[str, str] | None:
    line, end, _ = process.output().partition("\n")
    return json.loads(line) if end else None
