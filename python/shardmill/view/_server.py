"""HTTP server on the loopback address, for one browser.

The data set is only read. A request is answered if its URL contains the token and its host is the
loopback address (another name that resolves to it belongs to a foreign page); no other origin may
read a response.
"""

from __future__ import annotations

import json
import secrets
import socketserver
import sys
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, cast
from urllib.parse import urlsplit

from shardmill.errors import Error
from shardmill.view._pack_page import packed_picture
from shardmill.view._page import VIEWS, templates, tokens_part, view_page
from shardmill.view._pixels import pixels
from shardmill.view._query import Query, Refused
from shardmill.view._samples import image, whole_text
from shardmill.view._session import Opened, Session

_ASSETS = ("page.html", "page.css", "page.js", "icon.svg")
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_ROUTES: dict[str, Callable[[Opened, Query], Any]] = {
    "view": view_page,
    "tokens": tokens_part,
    "data/picture": pixels,
    "data/packed": packed_picture,
    "data/image": image,
    "data/text": whole_text,
    # Each view also as JSON.
    **{f"data/{name}": view for name, view in VIEWS.items()},
}
# Only the page's own files run, nothing is loaded from elsewhere, and no script can create markup
# from text.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOSTS = ("127.0.0.1", "localhost")
_IDLE_S = 60


class ViewServer(ThreadingHTTPServer):
    """Serve one data set at ``address``, until ``shutdown``.

    Args:
        session: the data set.
        port: port on the loopback address; 0 selects a free one.
    """

    daemon_threads = True
    # Do not wait for idle connections at shutdown.
    block_on_close = False

    def __init__(self, session: Session, *, port: int = 0) -> None:
        # Without Jinja2 the server does not start.
        templates()
        self.session = session
        self.token = secrets.token_urlsafe(32)
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Bind without a host name lookup, unlike the standard library."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    @property
    def address(self) -> str:
        """Address of the page, with its token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "shardmill"
    sys_version = ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        if self.headers.get("Content-Length") or self.headers.get("Transfer-Encoding"):
            # The body is not read, so the connection is closed to keep it from being parsed as
            # another request.
            self.close_connection = True
        try:
            answer = (200, *self._answer())
        except Refused as refusal:
            answer = _refusal(refusal.status, str(refusal))
        except (Error, OSError) as error:
            # Caused by an argument, or by a literal that cannot be compared with the column;
            # otherwise by the data.
            is_request = isinstance(error, Error) and isinstance(
                error, ValueError | KeyError | TypeError
            )
            answer = _refusal(400 if is_request else 500, str(error))
        except Exception as error:
            traceback.print_exc()
            answer = _refusal(500, f"{type(error).__name__}: {error}")
        self._send(*answer)

    do_HEAD = do_GET  # noqa: N815 - named by the standard library

    def _answer(self) -> tuple[str, bytes]:
        view = cast(ViewServer, self.server)
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in (
            f"{name}:{view.server_port}" for name in _HOSTS
        ):
            raise Refused(403, "this host is not served")
        target = urlsplit(self.path)
        token, slash, route = target.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), view.token.encode()) or not slash:
            raise Refused(
                403,
                "the address lacks its token\nhint: open the address that `shardmill view` printed",
            )
        name = route or "page.html"
        if name in _ASSETS:
            kind = f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
            return kind, files("shardmill.view").joinpath("assets", name).read_bytes()
        if route not in _ROUTES:
            raise Refused(404, "there is no such page")
        query = Query(target.query)
        opened = view.session.opened(is_new=route == "data/files" or query.text("new") == "true")
        content = _ROUTES[route](opened, query)
        if isinstance(content, tuple):
            return content
        return "application/json", json.dumps(content, ensure_ascii=False).encode(errors="replace")

    def _send(self, status: int, kind: str, payload: bytes) -> None:
        self.send_response(status)
        allow = {"Allow": "GET, HEAD"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
        content = {"Content-Type": kind, "Content-Length": str(len(payload))}
        for name, value in (_HEADERS | allow | content).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Respond to what the standard library rejects itself.

        These are unknown methods and malformed requests.
        """
        self.close_connection = True
        is_method = code == HTTPStatus.NOT_IMPLEMENTED
        refusal = (
            (405, "the page is read-only: use GET or HEAD")
            if is_method
            else (code, message or "not a request")
        )
        self._send(*_refusal(*refusal))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the URL contains the token, and logs may be read by others."""


def _refusal(status: int, reason: str) -> tuple[int, str, bytes]:
    return status, "application/json", json.dumps({"error": reason}).encode()
