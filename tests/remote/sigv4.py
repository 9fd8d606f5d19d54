"""A small client of S3 that signs requests, retries nothing and hides nothing.

It signs by AWS Signature Version 4.
"""

import datetime
import hashlib
import hmac
import http.client
import urllib.parse
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Answer:
    """What came, with the names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """Of an error document; empty without one."""
        return self.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


@dataclass
class Client:
    """One connection, made anew when it was lost."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"
    timeout_s: float = 30
    #: Added to the clock, to sign in the past.
    skew_s: float = 0
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def request(
        self, method: str, path: str, *, query=None, headers=None, body: bytes = b""
    ) -> Answer:
        """Sends one signed request and reads the whole answer.

        ``path`` starts with the bucket and is not encoded yet.
        """
        response = self.open(method, path, query=query, headers=headers, body=body)
        try:
            return Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read(),
            )
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        finally:
            if response.will_close:
                self.close()

    def open(
        self, method: str, path: str, *, query=None, headers=None, body: bytes = b""
    ) -> http.client.HTTPResponse:
        """The same, with the body unread."""
        quoted = urllib.parse.quote(path, safe="/~")
        encoded = urllib.parse.urlencode(
            sorted((query or {}).items()), quote_via=urllib.parse.quote, safe="~"
        )
        signed = self.sign(method, quoted, encoded, headers or {}, body)
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                self.endpoint.removeprefix("http://"), timeout=self.timeout_s
            )
        try:
            self._connection.request(
                method, f"{quoted}?{encoded}" if encoded else quoted, body=body, headers=signed
            )
            return self._connection.getresponse()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def sign(
        self, method: str, path: str, query: str, headers: dict[str, str], body: bytes
    ) -> dict[str, str]:
        """The headers to send, with the signature of all of them."""
        now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.skew_s)
        moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        content = hashlib.sha256(body).hexdigest()
        sent = {
            **{name.lower(): value for name, value in headers.items()},
            "host": self.endpoint.removeprefix("http://"),
            "x-amz-date": moment,
            "x-amz-content-sha256": content,
        }
        names = ";".join(sorted(sent))
        listed = "".join(f"{name}:{sent[name].strip()}\n" for name in sorted(sent))
        canonical = "\n".join([method, path, query, listed, names, content])
        scope = f"{day}/{self.region}/s3/aws4_request"
        text = "\n".join(
            ["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()]
        )
        key = f"AWS4{self.secret_key}".encode()
        for part in (day, self.region, "s3", "aws4_request", text):
            key = hmac.digest(key, part.encode(), "sha256")
        credential = f"{self.access_key}/{scope}"
        sent["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credential}, "
            f"SignedHeaders={names}, Signature={key.hex()}"
        )
        return sent

    def be_patient_for(self, seconds: float) -> None:
        """From now on, on the connection that is open."""
        self._connection.sock.settimeout(seconds)

    def close(self) -> None:
        """Ends the connection; the next request makes one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
