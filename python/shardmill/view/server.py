"""HTTP on the loopback address, for one browser.

Requests enter, answers leave; the data set is only read. Who does not know the address gets nothing: it holds a token, the name of the host
must be the loopback's own (a foreign name that resolves to it is a page of somebody else), and no other origin may read an answer.
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
from urllib.parse import parse_qs, urlsplit

from shardmill.errors import Error, OptionError
from shardmill.view import documents, samples, statistics
from shardmill.view.conditions import condition_of
from shardmill.view.errors import Refused
from shardmill.view.session import Session

_ASSETS = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
    "cells.js": ("cells.js", "text/javascript; charset=utf-8"),
    "columns.js": ("columns.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    "elements.js": ("elements.js", "text/javascript; charset=utf-8"),
}
# Only files of ours run, nothing is fetched from elsewhere, and no text becomes markup, whoever asks for it.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
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
_LARGEST_NUMBER = 2**63 - 1
_IDLE_S = 60


class ViewServer(ThreadingHTTPServer):
    """Serves one data set at :attr:`address`, until ``shutdown``.

    Args:
        session: the data set.
        port: of the loopback address; 0 takes a free one.
    """

    daemon_threads = True
    # A connection that waits is no reason to wait at the end.
    block_on_close = False

    def __init__(self, session: Session, *, port: int = 0) -> None:
        self.session = session
        self.token = secrets.token_urlsafe(32)
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Binds, without asking the resolver for a name as the standard library does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    @property
    def address(self) -> str:
        """Of the page, with its token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is no news."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Query:
    """Arguments of a request."""

    def __init__(self, text: str) -> None:
        try:
            self._values = parse_qs(text, keep_blank_values=True, max_num_fields=32, errors="strict")
        except ValueError as error:
            raise Refused(400, f"the arguments cannot be read: {error}") from None

    def text(self, name: str) -> str:
        return self._values.get(name, [""])[-1]

    def number(self, name: str, default: int | None = None) -> int:
        text = self.text(name)
        if not text and default is not None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _LARGEST_NUMBER):
            raise Refused(400, f"{name} is a number from 0, not {text[:40]!r}")
        return int(text)

    def path(self) -> list[str | int]:
        try:
            path = json.loads(self.text("path"))
        except (ValueError, RecursionError):
            path = None
        if isinstance(path, list) and 0 < len(path) < 32 and isinstance(path[0], str):
            places = [place for place in path[1:] if type(place) is int]
            if len(places) == len(path) - 1:
                return [path[0], *places]
        raise Refused(400, "path is a list of a column and places in it")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "shardmill"
    sys_version = ""
    timeout = _IDLE_S

    @property
    def _view(self) -> ViewServer:
        return cast(ViewServer, self.server)

    def do_GET(self) -> None:
        if self.headers.get("Content-Length") or self.headers.get("Transfer-Encoding"):
            # Its body is not read, so what follows it is no request.
            self.close_connection = True
        try:
            status, kind, payload = self._answer()
        except Refused as refusal:
            status, kind, payload = _refusal(refusal.status, str(refusal))
        except OptionError as error:
            status, kind, payload = _refusal(400, str(error))
        except Error as error:
            # Of the data, or of a literal that no column is compared with.
            status, kind, payload = _refusal(
                400 if isinstance(error, ValueError | KeyError | TypeError) else 500, str(error)
            )
        except OSError as error:
            status, kind, payload = _refusal(500, str(error))
        except Exception as error:
            traceback.print_exc()
            status, kind, payload = _refusal(500, f"{type(error).__name__}: {error}")
        self._send(status, kind, payload)

    do_HEAD = do_GET  # noqa: N815 - named by the standard library

    def _answer(self) -> tuple[int, str, bytes]:
        hosts = self.headers.get_all("Host", [])
        port = self._view.server_port
        if len(hosts) != 1 or hosts[0].lower() not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            raise Refused(403, "this host is not served")
        target = urlsplit(self.path)
        token, slash, route = target.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self._view.token.encode()) or not slash:
            raise Refused(403, "the address lacks its token\nhint: open the address that `shardmill view` printed")
        if route in _ASSETS:
            name, kind = _ASSETS[route]
            return 200, kind, files("shardmill.view").joinpath("assets", name).read_bytes()
        handler = _ROUTES.get(route)
        if handler is None:
            raise Refused(404, "there is nothing of this name")
        content = handler(self._view.session, _Query(target.query))
        if isinstance(content, tuple):
            return 200, *content
        return 200, "application/json", json.dumps(content, ensure_ascii=False).encode(errors="replace")

    def _send(self, status: int, kind: str, payload: bytes) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses by itself: methods, and lines that are no request."""
        self.close_connection = True
        is_method = code == HTTPStatus.NOT_IMPLEMENTED
        refusal = (405, "the page only reads: GET or HEAD") if is_method else (code, message or "no request")
        self._send(*_refusal(*refusal))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address holds the token, and logs are read by others."""


def _refusal(status: int, reason: str) -> tuple[int, str, bytes]:
    return status, "application/json", json.dumps({"error": reason}).encode()


def _overview(session: Session, query: _Query) -> Any:
    return samples.overview(session.latest()) | {"paths": [str(path) for path in session.source.paths]}


def _samples(session: Session, query: _Query) -> Any:
    opened = session.opened()
    show = query.text("show") or "all"
    if show not in ("all", "kept", "dropped", "both"):
        raise Refused(400, f"show is all, kept, dropped or both, not {show[:40]!r}")
    condition = condition_of(
        opened.dataset.schema,
        filter_text=query.text("filter"),
        column=query.text("column"),
        value=query.text("value"),
    )
    return samples.page(
        opened, start=query.number("start", 0), count=query.number("count", 20), condition=condition, show=show
    )


def _documents(session: Session, query: _Query) -> Any:
    opened = session.opened()
    if not documents.is_interleaved(opened.dataset.columns):
        raise Refused(404, "these rows are no interleaved documents")
    return documents.documents(opened, start=query.number("start", 0), count=min(query.number("count", 5), 50))


def _statistics(session: Session, query: _Query) -> Any:
    return statistics.figures(session.opened())


def _image(session: Session, query: _Query) -> Any:
    page = query.number("page") if query.text("page") else None
    return samples.image(session.opened(), query.number("row"), query.path(), page)


def _text(session: Session, query: _Query) -> Any:
    return samples.whole_text(session.opened(), query.number("row"), query.path())


_ROUTES: dict[str, Callable[[Session, _Query], Any]] = {
    "data/overview": _overview,
    "data/samples": _samples,
    "data/documents": _documents,
    "data/statistics": _statistics,
    "data/image": _image,
    "data/text": _text,
}
