"""Who gets an answer from `shardmill view`, and what is in it."""

import html
import io
import json
import signal
import socket
import subprocess
import sys
from importlib.resources import files

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from environment import child_environment
from PIL import Image
from promptness import HANGS_S
from view_client import cells_of, rows_of, serving

ATTACK = (
    "<script>document.title = 'taken'</script>\"'><img src=x onerror=alert(2)> & \x00\x1b</script>"
)


def picture(kind="PNG", size=(40, 30), **options):
    target = io.BytesIO()
    Image.new("RGB", size, (200, 80, 20)).save(target, format=kind, **options)
    return target.getvalue()


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("view") / "data"
    directory.mkdir()
    table = pa.table(
        {
            "id": range(100),
            "text": [ATTACK if row == 3 else f"text {row}" for row in range(100)],
            "image": [
                picture("JPEG"),
                picture("PNG"),
                picture("WEBP"),
                picture("GIF"),
                picture("TIFF"),
            ]
            * 20,
        }
    )
    pq.write_table(table.slice(0, 60), directory / "a.parquet", row_group_size=20)
    pq.write_table(table.slice(60), directory / "b.parquet", row_group_size=20)
    return directory


@pytest.fixture(scope="module")
def client(directory):
    with serving(directory) as client:
        yield client


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/data/files",
        "/{wrong}/",
        "/{wrong}/data/samples",
        "/{token}",
        "/x/{token}/",
        "/{token}%20/",
        "/%ff/",
        "/%2e%2e/",
    ],
)
def test_request_without_the_token_is_refused(client, target):
    token = client.server.token
    status, _, body = client.request(
        target.format(token=token, wrong=token[:-1] + ("a" if token[-1] != "a" else "b"))
    )
    assert status == 403
    assert token.encode() not in body


def test_tokens_are_long_and_differ(client, directory):
    with serving(directory) as other:
        assert other.server.token != client.server.token
    assert len(client.server.token) >= 43


@pytest.mark.parametrize(
    "host",
    [
        ["evil.example"],
        ["evil.example:{port}"],
        ["127.0.0.1"],
        ["127.0.0.1:1"],
        [],
        ["{right}", "evil.example"],
    ],
)
def test_foreign_host_is_refused_as_it_is_a_rebound_name(client, host):
    hosts = [name.format(port=client.server.server_port, right=client.host) for name in host]
    assert client.request(f"/{client.server.token}/data/files", host=hosts)[0] == 403


def test_localhost_is_the_same_host(client):
    host = [f"localhost:{client.server.server_port}"]
    assert client.request(f"/{client.server.token}/data/files", host=host)[0] == 200


def test_server_listens_on_loopback_alone(client):
    assert client.server.socket.getsockname()[0] == "127.0.0.1"
    others = {
        entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    } - {"127.0.0.1"}
    for address in (address for address in others if not address.startswith("127.")):
        with pytest.raises(OSError):
            socket.create_connection((address, client.server.server_port), timeout=2).close()


@pytest.mark.parametrize(
    "route",
    ["", "page.js", "data/files", "data/samples", "nothing", 'data/image?row=0&path=["image"]'],
)
def test_every_answer_has_the_strict_headers_and_none_for_other_origins(client, route):
    target = f"/{client.server.token}/{route}".replace('"', "%22")
    _, headers, _ = client.request(target, headers={"Origin": "https://evil.example"})
    policy = headers["Content-Security-Policy"]
    assert (
        "default-src 'none'" in policy
        and "script-src 'self'" in policy
        and "frame-ancestors 'none'" in policy
    )
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert not [name for name in headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_page_only_reads(client, method):
    status, headers, body = client.request(f"/{client.server.token}/data/files", method=method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"
    assert json.loads(body)["error"]


def test_head_has_no_body(client):
    status, headers, body = client.request(f"/{client.server.token}/", method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


@pytest.mark.parametrize(
    "route",
    [
        "../server.py",
        "assets/page.css",
        "..%2fserver.py",
        "page.css/../../server.py",
        "/etc/passwd",
        "data/",
        "%00",
        "data/files/",
    ],
)
def test_nothing_but_the_page_is_served(client, route):
    status, content = client.get(route)
    assert status == 404
    assert content == {"error": "there is no such page"}


def test_assets_name_nothing_elsewhere_and_make_no_markup_of_text(client):
    assets = {file.name: file for file in files("shardmill.view").joinpath("assets").iterdir()}
    assert {
        "page.html",
        "view.html",
        "cells.html",
        "columns.html",
        "tokens.html",
        "part.html",
        "page.css",
        "page.js",
        "icon.svg",
    } <= assets.keys()
    for name, file in assets.items():
        text = file.read_text(encoding="utf-8")
        for line in text.splitlines():
            assert "://" not in line.replace("http://www.w3.org/2000/svg", ""), line
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            'style="',
            "onclick=",
            "|safe",
            "autoescape",
        ]:
            assert word not in text, f"{word} in {name}"


def test_text_of_the_data_arrives_as_data(client):
    sample = client.page(start=3, count=1)["samples"][0]
    assert cells_of(sample)["text"] == {"kind": "text", "text": ATTACK}
    _, headers, _ = client.request(f"/{client.server.token}/data/samples?start=3&count=1")
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "arguments",
    [
        "start=3&count=1&layout=cards",
        "start=3&count=1&layout=table",
        "view=columns",
        "filter=%3Cb%3E",
    ],
)
def test_text_of_the_data_and_of_arguments_is_escaped_in_the_page(client, arguments):
    status, headers, body = client.request(f"/{client.server.token}/view?{arguments}")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    for markup in [b"<script", b"<img src=x", b"<b>e", b"onerror=alert(2)>"]:
        assert markup not in body
    if "start=3" in arguments:
        assert (
            html.escape(ATTACK).replace("&#x27;", "&#39;").replace("&quot;", "&#34;").encode()
            in body
        )


def test_page_shows_what_is_refused_as_text(client):
    _, _, body = client.request(f"/{client.server.token}/view?filter=id+%3E+%3Ci%3E")
    assert b'role="alert">' in body and b"<i>" not in body and b"&lt;i&gt;" in body


def test_pages_have_their_rows_with_file_and_place(client):
    assert rows_of(client.page(start=0, count=5)["samples"]) == [0, 1, 2, 3, 4]
    page = client.page(start=58, count=4)
    assert [(sample["file"], sample["file_row"]) for sample in page["samples"]] == [
        ("a.parquet", 58), ("a.parquet", 59), ("b.parquet", 0), ("b.parquet", 1),
    ]  # fmt: skip
    assert rows_of(client.page(start=98, count=20)["samples"]) == [98, 99]
    assert client.page(start=100, count=20)["samples"] == []
    assert client.page(start=2**62, count=20)["samples"] == []
    assert len(client.page(start=0, count=10**9)["samples"]) == 100


@pytest.mark.parametrize(
    "arguments",
    [{"start": "-1"}, {"start": "1.5"}, {"start": "x"}, {"count": "٣"}, {"start": "9" * 400},
     {"show": "else"}, {"filter": "id >"}, {"filter": "nobody = 1"}, {"filter": "(" * 5000},
     {"filter": "not " * 2400 + "id = 1"}, {"filter": "id = 1" + " " * 10_001},
     {"filter": "id = 'one'"}, {"column": "id", "value": "one"},
     {"column": "nobody", "value": "1"}],
    ids=str,
)  # fmt: skip
def test_argument_that_means_nothing_is_refused_with_a_reason(client, arguments):
    status, content = client.get("data/samples", **arguments)
    assert status == 400
    assert content["error"]
    assert client.page(count=1)["samples"]


@pytest.mark.parametrize("row, kind", [(0, "jpeg"), (1, "png"), (2, "webp"), (3, "gif")])
def test_images_are_sent_as_they_are_stored(client, directory, row, kind):
    cell = cells_of(client.page(start=row, count=1)["samples"][0])["image"]
    assert (cell["kind"], cell["format"], cell["width"], cell["height"]) == ("image", kind, 40, 30)
    status, headers, body = client.request(
        f"/{client.server.token}/data/image?row={row}&path=[%22image%22]"
    )
    assert (status, headers["Content-Type"]) == (200, f"image/{kind}")
    assert body == pq.read_table(directory / "a.parquet")["image"][row].as_py()


def test_tiff_is_converted_for_the_browser(client):
    status, headers, body = client.request(
        f"/{client.server.token}/data/image?row=4&path=[%22image%22]"
    )
    assert (status, headers["Content-Type"]) == (200, "image/jpeg")
    assert Image.open(io.BytesIO(body)).size == (40, 30)


@pytest.mark.parametrize(
    "arguments, status",
    [({"row": 0, "path": '["text"]'}, 415), ({"row": 0, "path": '["id"]'}, 404),
     ({"row": 100, "path": '["image"]'}, 404), ({"row": 0, "path": '["image", 0]'}, 404),
     ({"row": 0, "path": '["nobody"]'}, 404), ({"row": 0, "path": "[]"}, 400),
     ({"row": 0, "path": '[["image"]]'}, 400), ({"row": 0, "path": '["image", true]'}, 400),
     ({"row": 0, "path": "[" * 9000}, 400), ({"row": 0}, 400), ({"path": '["image"]'}, 400),
     ({"row": 4, "path": '["image"]', "page": 7}, 415)],
    ids=str,
)  # fmt: skip
def test_image_that_is_none_is_refused_with_a_reason(client, arguments, status):
    assert client.get("data/image", **arguments)[0] == status


def test_markup_among_the_bytes_is_never_sent_as_a_page(tmp_path):
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    pq.write_table(
        pa.table({"image": [svg, b"<!doctype html><script>alert(1)</script>", b"GIF89a" + svg]}),
        tmp_path / "x.parquet",
    )
    with serving(tmp_path / "x.parquet") as client:
        for row in range(2):
            assert client.get("data/image", row=row, path='["image"]')[0] == 415
        _, headers, _ = client.request(
            f"/{client.server.token}/data/image?row=2&path=[%22image%22]"
        )
        assert headers["Content-Type"] == "image/gif"


def view(*arguments):
    command = [sys.executable, "-m", "shardmill", "view", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_command_prints_the_address_and_ends_at_once_on_interrupt(directory):
    with view(directory, "--no-open") as process:
        address = process.stdout.readline()
        port = int(address.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)):
            # A connection that is open and idle.
            # Without an end to idle connections it would wait for ever.
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANGS_S)
    assert (process.returncode, out) == (0, "")
    assert address.startswith("http://127.0.0.1:") and address.endswith("/\n")
    assert "Ctrl-C" in err


def test_command_tells_of_a_port_that_is_taken(directory, client):
    with view(directory, "--no-open", "--port", client.server.server_port) as process:
        out, err = process.communicate(timeout=HANGS_S)
    assert (process.returncode, out) == (1, "")
    assert f"port {client.server.server_port} cannot be used" in err and "hint:" in err


def test_command_tells_of_a_path_that_is_missing(tmp_path):
    with view(tmp_path / "nothing", "--no-open") as process:
        out, err = process.communicate(timeout=HANGS_S)
    assert (process.returncode, out) == (1, "")
    assert "nothing" in err


def test_import_of_the_package_loads_no_server():
    code = (
        "import sys, shardmill; print([name for name in sys.modules "
        "if 'http' in name or name.startswith('shardmill.view')])"
    )
    environment = child_environment()
    assert (
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        ).stdout
        == "[]\n"
    )
