"""A running view server, asked by plain HTTP as any program could."""

import json
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode

from promptness import HANGS_S
from shardmill.view import Session, Source, ViewServer


class Client:
    """Requests to one server."""

    def __init__(self, server):
        self.server = server
        self.host = f"127.0.0.1:{server.server_port}"

    def request(self, target, *, method="GET", headers=None, host=None):
        """Status, headers and body; ``target`` is the whole path."""
        connection = HTTPConnection("127.0.0.1", self.server.server_port, timeout=HANGS_S)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for value in [self.host] if host is None else host:
                connection.putheader("Host", value)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, route, **arguments):
        """Status and decoded JSON of a route below the token."""
        query = f"?{urlencode(arguments)}" if arguments else ""
        status, _, body = self.request(f"/{self.server.token}/{route}{query}")
        return status, json.loads(body)

    def page(self, **arguments):
        """A page of samples that must be there."""
        status, content = self.get("data/samples", **arguments)
        assert status == 200, content
        return content


@contextmanager
def serving(*paths, **options):
    """A client of a server over ``paths``."""
    server = ViewServer(Session(Source([str(path) for path in paths], **options)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Client(server)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def rows_of(samples):
    """Numbers of rows."""
    return [sample["row"] for sample in samples]


def cells_of(sample):
    """Cells by column."""
    return dict(sample["fields"])
