"""The Hugging Face Hub on loopback, as far as data sets are read from it.

The other host that large files lie on is here too. It follows what the Hub documents:
https://huggingface.co/docs/hub/api, and what its own client asks for. Files are commits of a
dictionary; large ones are answered by a redirect to an address on another host that is signed
for a while.
"""

import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

#: Minimum size of large files, in bytes.
LARGE = 4096
PAGE = 3


@dataclass
class DataSet:
    """Commits by their hashes, and branches."""

    token: str | None = None
    is_gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Makes it what the branch stands for."""
        sha = secrets.token_hex(20)
        self.commits[sha], self.branches[branch] = dict(files), sha
        return sha

    def find(self, revision: str) -> str | None:
        """The commit of a branch, or of itself."""
        return self.branches.get(revision, revision if revision in self.commits else None)


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    host: str
    method: str
    path: str
    token: str | None
    range: str | None


class Hub:
    """Made by `serving_hub`."""

    def __init__(self) -> None:
        self.data_sets: dict[str, DataSet] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[Asked] = []
        #: Statuses of the next answers, and the path that they are for.
        self.faults: list[tuple[int, str]] = []
        self.signature = secrets.token_hex(4)
        self.blobs: dict[str, bytes] = {}
        self.endpoint = self.elsewhere = ""

    def data_set(self, name: str, files: dict[str, bytes] | None = None, **fields) -> DataSet:
        """A new one, with one commit of ``main``."""
        made = self.data_sets[name] = DataSet(**fields)
        made.commit(files or {})
        return made


def git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def tag_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if len(content) >= LARGE else git_oid(content)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        self._note()
        if fault := next((fault for fault in self.hub.faults if fault[1] in self.path), None):
            self.hub.faults.remove(fault)
            headers = {"Retry-After": "0"} if fault[0] == 429 else {}
            return self._answer(fault[0], b'{"error": "later"}', headers)
        return self._get(
            unquote(urlsplit(self.path).path).strip("/"), parse_qs(urlsplit(self.path).query)
        )

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._note()
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        found = self._commit("/".join(parts[2:4]), "/".join(parts[5:]))
        if found is None or parts[4] != "paths-info":
            return None
        wanted = json.loads(body)["paths"]
        return self._json(
            [entry for entry in _entries(found[1], "", True) if entry["path"] in wanted]
        )

    def _note(self) -> None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        here = f"http://{self.headers['Host']}"
        self.hub.asked.append(
            Asked(here, self.command, self.path, token, self.headers.get("Range"))
        )

    def _get(self, path: str, query: dict[str, list[str]]) -> None:
        parts = path.split("/")
        if parts[0] == "blob":
            if query.get("signature") != [self.hub.signature] or "Authorization" in self.headers:
                return self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
            return self._file(self.hub.blobs[parts[1]], '"of-another-store"')
        if parts[:2] == ["api", "datasets"]:
            return self._api("/".join(parts[2:4]), parts[4:], query)
        if parts[0] == "datasets" and parts[3] == "resolve":
            return self._resolve("/".join(parts[1:3]), parts[4], "/".join(parts[5:]))
        return self._answer(404, b"no such page")

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(
            status,
            json.dumps({"error": message}).encode(),
            {"X-Error-Code": code, "X-Error-Message": message},
        )

    def _commit(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        data_set = self.hub.data_sets.get(name)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        if token == "hf_of_last_year":
            return self._answer(
                401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"}
            )
        if data_set is None or (
            data_set.token is not None and token != data_set.token and not data_set.is_gated
        ):
            # A private one looks as if it were not there.
            return self._refuse(
                401 if token is None else 404, "RepoNotFound", "Repository not found"
            )
        if data_set.is_gated and token != data_set.token:
            return self._refuse(
                401 if token is None else 403,
                "GatedRepo",
                f"Access to dataset {name} is restricted.",
            )
        sha = data_set.find(revision)
        if sha is None:
            return self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return sha, data_set.commits[sha]

    def _api(self, name: str, rest: list[str], query: dict[str, list[str]]) -> None:
        if name in self.hub.moved:
            target = self.path.replace(quote(name), self.hub.moved[name])
            return self._answer(307, b"", {"Location": target})
        kind = rest[0] if rest else "revision"
        # A revision may hold slashes; those that are asked for in one piece come first.
        revision = (
            unquote(urlsplit(self.path).path.strip("/").split("/")[5]) if len(rest) > 1 else "main"
        )
        found = self._commit(name, revision)
        if found is None:
            return None
        if kind == "revision":
            return self._json(
                {"id": name, "sha": found[0], "siblings": [], "private": False, "tags": []}
            )
        directory = "/".join(
            unquote(urlsplit(self.path).path).strip("/").split("/")[5 + revision.count("/") + 1 :]
        )
        entries = _entries(
            found[1], directory, query.get("recursive", ["false"])[0].lower() in ("true", "1")
        )
        if directory and not entries:
            return self._refuse(404, "EntryNotFound", f"{directory} does not exist on {revision}")
        start = int(query.get("cursor", ["0"])[0])
        link = (
            f"<{self.hub.endpoint}{urlsplit(self.path).path}"
            f'?recursive=true&cursor={start + PAGE}>; rel="next"'
        )
        return self._json(
            entries[start : start + PAGE], {"Link": link} if start + PAGE < len(entries) else {}
        )

    def _resolve(self, name: str, revision: str, path: str) -> None:
        if name in self.hub.moved:
            return self._answer(
                307, b"", {"Location": self.path.replace(name, self.hub.moved[name])}
            )
        found = self._commit(name, revision)
        if found is None:
            return None
        content = found[1].get(path)
        if content is None:
            return self._refuse(404, "EntryNotFound", f"Entry not found: {path}")
        tag, commit = tag_of(content), {"X-Repo-Commit": found[0]}
        if len(content) < LARGE:
            return self._file(content, f'"{tag}"', commit)
        self.hub.blobs[tag] = content
        location = f"{self.hub.elsewhere}/blob/{tag}?signature={self.hub.signature}"
        linked = {"X-Linked-ETag": f'"{tag}"', "X-Linked-Size": str(len(content))}
        return self._answer(302, b"", {**commit, **linked, "Location": location})

    def _file(self, content: bytes, tag: str, headers: dict[str, str] | None = None) -> None:
        headers = {**(headers or {}), "ETag": tag, "Accept-Ranges": "bytes"}
        if not (wanted := self.headers.get("Range")):
            return self._answer(200, content, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(len(content) - int(last), 0)
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        if start >= len(content):
            return self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        return self._answer(
            206,
            content[start:end],
            {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"},
        )

    def _json(self, content: object, headers: dict[str, str] | None = None) -> None:
        self._answer(
            200,
            json.dumps(content).encode(),
            {"Content-Type": "application/json", **(headers or {})},
        )

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _entries(
    files: dict[str, bytes], directory: str, is_recursive: bool
) -> list[dict[str, object]]:
    entries: dict[str, dict[str, object]] = {}
    prefix = f"{directory}/" if directory else ""
    for path, content in sorted(files.items()):
        if not path.startswith(prefix):
            continue
        depth = path.removeprefix(prefix).split("/")
        for length in range(1, len(depth)):
            parent = prefix + "/".join(depth[:length])
            if is_recursive or length == 1:
                entries[parent] = {
                    "type": "directory",
                    "oid": git_oid(parent.encode()),
                    "size": 0,
                    "path": parent,
                }
        if is_recursive or len(depth) == 1:
            entry = {"type": "file", "oid": git_oid(content), "size": len(content), "path": path}
            if len(content) >= LARGE:
                oid = hashlib.sha256(content).hexdigest()
                entry |= {
                    "oid": git_oid(oid.encode()),
                    "lfs": {"oid": oid, "size": len(content), "pointerSize": 130},
                }
            entries[path] = entry
    return list(entries.values())


@contextmanager
def serving_hub() -> Iterator[Hub]:
    """The Hub at ``endpoint``, and its other host at ``elsewhere``, until the block ends."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    hub.endpoint, hub.elsewhere = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    threads = [
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
