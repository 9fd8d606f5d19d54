"""What `shardmill view` shows of tokens: rows, labels, and rows that cannot be tokenized."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import END, START, TEMPLATE, write_tokenizer
from shardmill.view import TokenColumns, _tokens
from token_page import Shown, page, parts
from view_client import rows_of, serving

pytestmark = pytest.mark.usefixtures("counts_below")

ATTACK = "<script>taken()</script>\"'><img src=x onerror=taken()> & \x00\x1b</p></span> </script>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    merges = [(b"h", b"e"), (b" ", b"w"), ("日".encode()[:1], "日".encode()[1:2])]
    return write_tokenizer(tmp_path_factory.mktemp("model"), merges=merges, template=TEMPLATE)


def written(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_rows_are_shown_as_tokens_with_file_and_place(tmp_path, tokenizer):
    written(tmp_path / "a.parquet", text=["hello", ""])
    written(tmp_path / "b.parquet", text=[f"w{number}" for number in range(30)])
    tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=True)
    with serving(tmp_path / "a.parquet", tmp_path / "b.parquet", tokenize=tokenize) as client:
        content = client.get("data/tokens", start=0, count=3)[1]
        assert (content["rows"], content["total"], rows_of(content["samples"])) == (
            32,
            32,
            [0, 1, 2],
        )
        assert [(row["file"], row["file_row"]) for row in content["samples"]] == [
            ("a.parquet", 0), ("a.parquet", 1), ("b.parquet", 0),
        ]  # fmt: skip
        assert parts(content["samples"][0]["cell"]) == [
            ["he", "token"], ["l", "token"], ["l", "token"], ["o", "token"], [END, "special"],
        ]  # fmt: skip
        assert content["samples"][1]["cell"]["tokens"] == []
        assert rows_of(client.get("data/tokens", start=30)[1]["samples"]) == [30, 31]
        assert client.get("data/tokens", start=99)[1]["samples"] == []
        # The columns of the files stay as they are.
        assert [name for name, _ in client.page(count=1)["samples"][0]["fields"]] == ["text"]
        opened = page(client)
        assert 'aria-pressed="true" data-go="">Tokens' in opened and "no tokens" in opened
        assert [text for text, *_ in Shown(opened).tokens][:5] == ["he", "l", "l", "o", END]
        assert "30 – 31 of 32" in page(client, start=30)
        assert "31 – 31 of 32" in page(client, start=2**40)


def test_labels_of_a_conversation_colour_what_the_assistant_wrote(tmp_path, tokenizer):
    chat = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4."}]
    path = written(tmp_path / "chat.parquet", messages=[chat])
    tokenize = sm.Tokenize(messages="messages", tokenizer=tokenizer, labels="assistant")
    with serving(path, tokenize=tokenize) as client:
        [row] = client.get("data/tokens")[1]["samples"]
        labelled = [token for token in row["cell"]["tokens"] if token["label"] is not None]
        assert "".join(text for text, _ in parts({"tokens": labelled})) == f"4.{END}"
        assert row["cell"]["labelled"] == 3
        shown = page(client)
        assert "3 with a label" in shown and 'class="tokens masked"' in shown
        tokens = Shown(shown[shown.index('class="cards"') :]).tokens
        assert [text for text, classes, _ in tokens if "labelled" in classes] == ["4", ".", END]
        assert [text for text, classes, _ in tokens if "special" in classes] == [START, END] * 2


@pytest.mark.parametrize("most", [6_000, pytest.param(_tokens._MOST_ALONE, marks=pytest.mark.slow)])
def test_long_row_is_cut_and_shown_whole_when_it_is_asked_for(
    tmp_path, tokenizer, monkeypatch, most
):
    monkeypatch.setattr(_tokens, "_MOST_ALONE", most)
    path = written(tmp_path / "long.parquet", text=["z" * 5_000, "z" * (most + 1_000)])
    with serving(path, tokenize=sm.Tokenize("text", tokenizer=tokenizer, labels="all")) as client:
        [row, longer] = client.get("data/tokens")[1]["samples"]
        assert (len(row["cell"]["tokens"]), row["cell"]["length"], row["cell"]["labelled"]) == (
            2_000,
            5_000,
            4_999,
        )
        shown = page(client)
        assert 'data-tokens="row=0">… show all 5,000 tokens' in shown
        status, headers, body = client.request(f"/{client.server.token}/tokens?row=0")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert len(Shown(body.decode()).tokens) == 5_000 and b"<button" not in body
        assert longer["cell"]["length"] == most + 1_000
        _, _, body = client.request(f"/{client.server.token}/tokens?row=1")
        assert len(Shown(body.decode()).tokens) == most
        assert f"cut here, of {most + 1_000:,} tokens" in body.decode()
        # A page of many long rows shows less of each.
    path = written(tmp_path / "many.parquet", text=["z" * 3_000] * 100)
    with serving(path, tokenize=sm.Tokenize("text", tokenizer=tokenizer)) as client:
        rows = client.get("data/tokens", count=100)[1]["samples"]
        assert {len(row["cell"]["tokens"]) for row in rows} == {400}


@pytest.mark.parametrize(
    "arguments, status",
    [({}, 400), ({"row": 2}, 404), ({"row": -1}, 400), ({"pack": 0, "document": 0}, 404)],
    ids=str,
)
def test_tokens_that_are_not_there_are_refused_with_a_reason(
    tmp_path, tokenizer, arguments, status
):
    path = written(tmp_path / "x.parquet", text=["a", "b"])
    with serving(path, tokenize=sm.Tokenize("text", tokenizer=tokenizer)) as client:
        answer, content = client.get("tokens", **arguments)
        assert (answer, bool(content["error"])) == (status, True)


def test_data_set_without_tokens_has_no_such_view(tmp_path):
    with serving(written(tmp_path / "x.parquet", text=["a"])) as client:
        assert client.get("data/tokens")[0] == 404
        assert client.get("data/packs")[0] == 404
        shown = page(client, view="tokens")
        assert (
            "is not shown as tokens" in shown
            and "Tokens</button>" not in shown
            and "Packs</button>" not in shown
        )


def test_row_that_cannot_be_tokenized_says_why_and_the_others_are_shown(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", text=["a", None, "c"])
    with serving(path, tokenize=sm.Tokenize("text", tokenizer=tokenizer)) as client:
        first, second, third = client.get("data/tokens")[1]["samples"]
        assert (parts(first["cell"]), parts(third["cell"])) == ([["a", "token"]], [["c", "token"]])
        assert "Row 1 of" in second["error"] and "null" in second["error"]
        assert "the value is null" in page(client)
        # Its other columns can still be seen.
        assert rows_of(client.page()["samples"]) == [0, 1, 2]


def test_text_of_the_data_and_of_the_tokenizer_is_escaped(tmp_path):
    hostile = "<img src=x onerror=taken()>"
    merges = [
        (hostile[:at].encode(), hostile[at : at + 1].encode()) for at in range(1, len(hostile))
    ]
    tokenizer = write_tokenizer(tmp_path / "model", merges=merges)
    path = written(tmp_path / "x.parquet", text=[ATTACK, hostile])
    with serving(
        path,
        tokenize=sm.Tokenize("text", tokenizer=tokenizer),
        packing=sm.Packing("tokens", length=500),
    ) as client:
        for body in (
            page(client, view="tokens"),
            page(client, view="packs"),
            client.request(f"/{client.server.token}/tokens?row=0")[2].decode(),
        ):
            for markup in ["<script", "<img", "taken()>"]:
                assert markup not in body
            shown = Shown(body)
            assert "script" not in shown.tags and "img" not in shown.tags
            text = "".join(text for text, *_ in shown.tokens)
            # Escaped exactly once.
            assert "<script>taken()</script>" in text and "&lt;" not in text
        assert "<U+0000>" in text


def test_filter_of_the_command_applies_and_the_columns_are_only_those_shown(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", id=[1, 2, 3], text=["a", "b", "c"])
    tokenize = sm.Tokenize("text", tokenizer=tokenizer)
    with serving(path, columns=["id"], filter=sm.col("id") != 2, tokenize=tokenize) as client:
        rows = client.get("data/tokens")[1]["samples"]
        assert [(parts(row["cell"])[0][0], row["file_row"]) for row in rows] == [("a", 0), ("c", 2)]
        assert [name for name, _ in client.page()["samples"][0]["fields"]] == ["id"]


@pytest.mark.filterwarnings("ignore:no data files")
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_set_without_rows_is_shown_as_empty(tmp_path, tokenizer, kind):
    (tmp_path / "data").mkdir()
    if kind == "file":
        written(tmp_path / "data" / "x.parquet", text=pa.array([], pa.string()))
    tokenize = sm.Tokenize("text", tokenizer=tokenizer)
    with serving(
        tmp_path / "data", tokenize=tokenize, packing=sm.Packing("tokens", length=8)
    ) as client:
        assert client.get("data/tokens")[1]["samples"] == []
        assert client.get("data/packs")[1]["pack"] is None
        assert "The data set has no rows." in page(client, view="tokens")
        assert "no tokens to pack" in page(client, view="packs")


def test_files_that_change_are_told(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", text=["a"])
    tokenize = sm.Tokenize("text", tokenizer=tokenizer)
    with serving(path, tokenize=tokenize, packing=sm.Packing("tokens", length=8)) as client:
        assert client.get("data/packs")[0] == 200
        written(path, text=["new", "rows"])
        for route in ("data/tokens", "data/packs", "tokens?row=0"):
            assert client.get(route)[0] == 409
        assert client.request(f"/{client.server.token}/view?new=true")[0] == 200
        assert client.get("data/packs")[1]["tokens"] == 7


@pytest.mark.parametrize("name", ["tokens", "input_ids", "other"])
@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.uint16(), 2)], ids=str
)
def test_column_of_stored_tokens_is_found(name, kind):
    schema = pa.schema([("text", pa.string()), ("size", pa.list_(pa.float32())), (name, kind)])
    assert TokenColumns.stored(schema) == (None if name == "other" else TokenColumns(tokens=name))
    assert TokenColumns.stored(schema, "text") is None
    assert TokenColumns.stored(schema, name) == TokenColumns(tokens=name)


def test_stored_tokens_are_found_among_other_lists_and_with_their_labels():
    lists = {name: pa.list_(pa.int64()) for name in ("attention_mask", "input_ids", "labels")}
    assert TokenColumns.stored(pa.schema(lists)) == TokenColumns(
        tokens="input_ids", labels="labels"
    )
    assert TokenColumns.stored(pa.schema({"a": lists["labels"], "b": lists["labels"]})) is None
    assert TokenColumns.stored(pa.schema({"labels": pa.int64()})) is None


def test_stored_tokens_are_shown_with_nulls_and_labels_of_another_length(tmp_path, tokenizer):
    path = written(
        tmp_path / "x.parquet",
        tokens=pa.array([[104, 105], None, [None, 300]], pa.list_(pa.int32())),
        labels=pa.array([[-100, 106], None, [1]], pa.list_(pa.int64())),
    )
    with serving(path, tokens=TokenColumns(tokenizer, labels="labels")) as client:
        first, second, third = (row["cell"] for row in client.get("data/tokens")[1]["samples"])
        assert parts(first) == [["h", "token"], ["i", "token"]]
        assert [token["label"] for token in first["tokens"]] == [None, 106]
        assert (second["length"], second["tokens"], second["labelled"]) == (0, [], 0)
        assert (third["note"], [kind for _, kind in parts(third)]) == (
            "1 labels of 2 tokens",
            ["number", "unknown"],
        )
        assert "id 105 · i · label 106" in page(client)


def test_stored_id_below_0_is_marked_as_unknown(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", tokens=[[104, -1]])
    with serving(path, tokens=TokenColumns(tokenizer)) as client:
        [row] = client.get("data/tokens")[1]["samples"]
        assert parts(row["cell"]) == [["h", "token"], ["-1", "unknown"]]
        assert "id -1, not in the vocabulary" in page(client)


def test_columns_that_are_no_tokens_are_refused(tmp_path, tokenizer):
    path = written(tmp_path / "x.parquet", text=["a"], n=[1])
    with (
        pytest.raises(sm.OptionError, match="column 'n' is int64; tokens and labels are lists"),
        serving(path, tokens=TokenColumns(tokenizer, "n")),
    ):
        pass
    with (
        pytest.raises(sm.MissingColumnError, match="body"),
        serving(path, tokenize=sm.Tokenize("body", tokenizer=tokenizer)),
    ):
        pass
    with (
        pytest.raises(sm.OptionError, match="packing requires a column of tokens"),
        serving(path, packing=sm.Packing("n", length=2)),
    ):
        pass
