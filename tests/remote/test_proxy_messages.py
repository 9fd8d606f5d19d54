"""What the proxy hands on, as a server of plain HTTP sees it: nothing is lost or added."""

import http.client
import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from .fault_proxy import Fault, Proxy, proxying


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked, in a body of chunks when the target says so."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body, framing = b"".join(iter(self.chunk, b"")), "chunked"
            self.rfile.readline()
        else:
            body, framing = self.rfile.read(int(self.headers["Content-Length"])), "length"
        told = {
            "target": self.path,
            "headers": self.headers.items(),
            "body": body.decode("latin-1"),
            "framing": framing,
        }
        content = json.dumps(told).encode()
        self.send_response_only(200)
        if "chunks" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content))
        else:
            self.send_header("X-Twice", "one")
            self.send_header("X-Twice", "two")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def chunk(self) -> bytes:
        content = self.rfile.read(int(self.rfile.readline(), 16))
        if content:
            self.rfile.readline()
        return content

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def echo(server) -> Iterator[Proxy]:
    """A proxy before it. The S3 server is asked for only to skip where there is no Go."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as plain:
        plain.daemon_threads = True
        threading.Thread(target=plain.serve_forever, daemon=True).start()
        with proxying(f"http://127.0.0.1:{plain.server_port}") as proxy:
            yield proxy
        plain.shutdown()


@pytest.fixture
def connection(echo) -> Iterator[http.client.HTTPConnection]:
    echo.reset()
    connection = http.client.HTTPConnection(echo.endpoint.removeprefix("http://"), timeout=5)
    yield connection
    connection.close()


def put(connection, target, **arguments):
    connection.request("PUT", target, **arguments)
    response = connection.getresponse()
    return response, json.loads(response.read())


def test_headers_pass_as_they_are_and_none_is_added(connection):
    headers = {
        "Host": "bucket.example.org:1234",
        "X-Unknown": "a  b",
        "Authorization": "AWS4 x",
        "Accept-Encoding": "identity",
    }
    response, told = put(connection, "/a", body=b"x", headers=headers)
    assert dict(told["headers"]) == {**headers, "Content-Length": "1"}
    assert [(name, value) for name, value in response.getheaders() if name != "Content-Length"] == [
        ("X-Twice", "one"),
        ("X-Twice", "two"),
    ]


@pytest.mark.parametrize(
    "target", ["/a%2Fb//c/../d?x=%20&y", "/%7e+%2B?list-type=2&prefix=a%2F", "/a;b=c,d?", "/ü%C3"]
)
def test_target_is_spelt_as_it_was(connection, target):
    # http.client refuses letters outside of ASCII; a request line may hold them.
    sent = target.encode().decode("latin-1")
    connection._encode_request = lambda request: request.encode("latin-1")
    connection.putrequest("PUT", sent)
    connection.putheader("Content-Length", "0")
    connection.endheaders()
    told = json.loads(connection.getresponse().read())
    assert told["target"] == sent


def test_bodies_keep_their_framing(connection):
    body = bytes(range(256)) * 4000
    _, told = put(connection, "/a", body=body)
    assert (told["framing"], told["body"].encode("latin-1")) == ("length", body)
    _, told = put(
        connection,
        "/a",
        body=iter([body, body]),
        encode_chunked=True,
        headers={"Transfer-Encoding": "chunked"},
    )
    assert (told["framing"], told["body"].encode("latin-1")) == ("chunked", body * 2)
    _, told = put(connection, "/a", body=b"")
    assert (told["framing"], told["body"]) == ("length", "")


def test_answers_in_chunks_pass_and_can_be_spoiled(echo, connection):
    response, told = put(connection, "/chunks", body=b"x")
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert told["body"] == "x"
    echo.faults(Fault(kind="cut", after_bytes=10, count=1))
    with pytest.raises(http.client.IncompleteRead) as cut:
        put(connection, "/chunks", body=b"x")
    assert cut.value.partial == b'{"target":'


def test_server_that_is_gone_is_told(echo):
    with proxying("http://127.0.0.1:1") as orphan:
        connection = http.client.HTTPConnection(orphan.endpoint.removeprefix("http://"), timeout=5)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert (response.status, b"connection refused" in response.read()) == (502, True)
        connection.close()
