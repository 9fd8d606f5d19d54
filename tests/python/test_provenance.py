"""Where the tokens of token files come from: written, asked, compared, explained."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from byte_tokenizer import END, write_tokenizer
from command import shardmill

#: Files in the order of their names, which is that of the tokens.
FILES = ("a.jsonl", "b/a.jsonl", "b/c.jsonl")
#: Formats and layouts, with the arguments of ``tokenize`` and what is read.
LAYOUTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "pair": (["--to", "megatron"], {}),
    "pairs": (["--to", "megatron", "--shard-bytes", "2KB"], {}),
    "sequences": (["--to", "megatron"], {"token_files": sm.TokenFiles(rows="sequences")}),
    "bin": (["--to", "bin"], {"token_files": sm.TokenFiles(dtype="uint16", eos=257)}),
    "shards": (
        ["--to", "bin", "--shard-bytes", "2KB"],
        {"token_files": sm.TokenFiles(dtype="uint16", eos=257)},
    ),
    "cut shards": (
        ["--to", "bin", "--shard-bytes", "2KB", "--header", "llm.c", "--cut-documents"],
        {"token_files": sm.TokenFiles(row_tokens=100)},
    ),
}


def text_of(number: int) -> str:
    drawn = random.Random(number)
    return "".join(drawn.choices("ab é\n", k=drawn.choice([0, 1, 5, 60, 150])))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a tokenizer and, in ``texts``, three files of 40 rows."""
    path = tmp_path_factory.mktemp("provenance")
    write_tokenizer(path / "model", merges=[(b"a", b"b")])
    for number, name in enumerate(FILES):
        file = path / "texts" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"id": row, "text": text_of(100 * number + row)} for row in range(40)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def documents(texts: Path) -> dict[tuple[str, int], list[int]]:
    """The tokens of all rows, by their file and row."""
    tokenize = sm.Tokenize("text", tokenizer=texts / "model", eos=END)
    return {
        (name, number): row["tokens"]
        for name in FILES
        for number, row in enumerate(sm.Dataset(texts / "texts" / name, tokenize=tokenize))
    }


def tokenized(texts: Path, out: Path, *options: object, source: Path | None = None) -> Path:
    given = ("--tokenizer", texts / "model", "--eos", END, *options)
    run = shardmill("tokenize", source or texts / "texts", out, *given)
    assert run.returncode == 0, run.stderr
    return out


@pytest.fixture(scope="module")
def written(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write the token files of a layout once, in a directory of their own."""

    @cache
    def write(layout: str) -> Path:
        tokens = tmp_path_factory.mktemp("tokens") / "p"
        out = tokens.with_suffix(".bin") if layout == "bin" else tokens
        tokenized(texts, out, *LAYOUTS[layout][0])
        return tokens

    return write


def read(path: Path, layout: str) -> sm.Dataset:
    """The token files below the directory, which has the provenance too."""
    format: Any = "bin" if "bin" in LAYOUTS[layout][0] else None
    return sm.Dataset(path.parent, format=format, **LAYOUTS[layout][1])


def test_provenance_has_a_row_for_each_document(texts: Path, tmp_path: Path) -> None:
    table = pq.read_table(
        f"{tokenized(texts, tmp_path / 'p', '--to', 'megatron')}.provenance.parquet"
    )
    assert {field.name: str(field.type) for field in table.schema} == {
        "first_token": "int64",
        "tokens": "int32",
        "file": "dictionary<values=string, indices=int32, ordered=0>",
        "row": "int64",
    }
    stored = [len(row["tokens"]) for row in sm.Dataset(tmp_path / "p")]
    assert table["tokens"].to_pylist() == stored
    firsts = [sum(stored[:number]) for number in range(len(stored))]
    assert table["first_token"].to_pylist() == firsts
    places = [(name, row) for name in FILES for row in range(40)]
    assert [*zip(table["file"].to_pylist(), table["row"].to_pylist(), strict=True)] == places
    metadata = json.loads(table.schema.metadata[b"shardmill.provenance"])
    tokenize = sm.Tokenize("text", tokenizer=texts / "model", eos=END)
    assert metadata["fingerprint"] == tokenize.fingerprint
    assert metadata["tokenizer"]["path"] == str(texts / "model")
    assert metadata["tokenize"]["text"] == ["text"]


def test_rows_that_a_filter_leaves_keep_their_numbers(texts: Path, tmp_path: Path) -> None:
    out = tokenized(texts, tmp_path / "p", "--to", "megatron", "--filter", "id >= 38 or id = 3")
    table = pq.read_table(f"{out}.provenance.parquet")
    assert table["row"].to_pylist() == [3, 38, 39] * 3


def test_files_of_equal_names_are_told_apart(texts: Path, tmp_path: Path) -> None:
    sources = (texts / "texts" / "a.jsonl", texts / "texts" / "b" / "a.jsonl")
    given = ("--to", "bin", "--tokenizer", texts / "model", "--eos", END)
    run = shardmill("tokenize", *sources, tmp_path / "p.bin", *given)
    assert run.returncode == 0, run.stderr
    names = pq.read_table(tmp_path / "p.provenance.parquet")["file"].to_pylist()
    assert names == ["a.jsonl"] * 40 + ["b/a.jsonl"] * 40


@pytest.mark.parametrize("layout", LAYOUTS)
def test_named_row_has_the_token_at_the_offset(
    written: Callable[[str], Path], layout: str, documents: dict[tuple[str, int], list[int]]
) -> None:
    provenance = sm.Provenance(written(layout))
    stream = [token for ids in documents.values() for token in ids]
    assert provenance.num_tokens == len(stream)
    assert provenance.num_documents == len(documents)
    assert len(provenance.files) == 1 or "s" in layout
    drawn = random.Random(1)
    some = [drawn.randrange(len(stream)) for _ in range(examples(1000) // 10)]
    for number in [0, len(stream) - 1, *some]:
        file, row, offset = provenance.source(number)
        assert documents[file, row][offset] == stream[number]
    for number in (-1, len(stream)):
        with pytest.raises((IndexError, ValueError)):
            provenance.source(number)


def test_token_of_a_shard_counts_from_its_start(written: Callable[[str], Path]) -> None:
    for layout in ("pairs", "cut shards"):
        whole = sm.Provenance(written(layout))
        first = 0
        for file in whole.files:
            shard = sm.Provenance(file)
            assert shard.source(0) == whole.source(first)
            first += shard.num_tokens
        assert len(whole.files) > 2 and first == whole.num_tokens


@pytest.mark.parametrize("layout", LAYOUTS)
def test_directory_with_provenance_is_a_token_data_set(
    written: Callable[[str], Path], layout: str, documents: dict[tuple[str, int], list[int]]
) -> None:
    out = written(layout)
    tokens = [token for row in read(out, layout) for token in row["tokens"]]
    assert tokens == [token for ids in documents.values() for token in ids]
    skipped = [Path(path).name for path, _ in read(out, layout).skipped]
    assert "p.provenance.parquet" in skipped
    run = shardmill("verify", out.parent, "--dtype", "uint16")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("layout", LAYOUTS)
def test_documents_of_packs_are_explained(
    written: Callable[[str], Path], layout: str, documents: dict[tuple[str, int], list[int]]
) -> None:
    packing = sm.Packing("tokens", length=64)
    dataset = read(written(layout), layout)
    options: Any = {"batch_size": 4, "shuffle": True, "seed": 3, "output": "numpy"}
    loader = sm.Loader(dataset, packing=packing, **options)
    for step, batch in zip(range(3), loader, strict=False):
        answer = loader.explain(step=step)
        for pack, pieces, sources in zip(
            batch["tokens"], answer["packs"], answer["documents"], strict=True
        ):
            named: list[int] = []
            for (*_, count), parts in zip(pieces, sources, strict=True):
                assert sum(tokens for *_, tokens in parts) == count
                for file, row, first, tokens in parts:
                    named += documents[file, row][first : first + tokens]
            assert pack[: len(named)].tolist() == named
    rows = sm.Loader(dataset, columns=["tokens"], **options | {"output": "rows"})
    for row, parts in zip(next(iter(rows)), rows.explain()["documents"], strict=True):
        assert list(row["tokens"]) == [
            token
            for file, number, first, tokens in parts
            for token in documents[file, number][first : first + tokens]
        ]


def test_explanation_of_a_mixture_names_documents_of_token_files_alone(
    texts: Path, tmp_path: Path
) -> None:
    out = tokenized(texts, tmp_path / "p", "--to", "megatron")
    plain = sm.Dataset(
        texts / "texts", tokenize=sm.Tokenize("text", tokenizer=texts / "model", eos=END)
    )
    assert "documents" not in sm.Loader(plain).explain()
    mixture = sm.Mixture({"pair": sm.Dataset(out), "texts": plain})
    answer = sm.Loader(mixture, packing=sm.Packing("tokens", length=64), batch_size=4).explain()
    for pieces, sources in zip(answer["packs"], answer["documents"], strict=True):
        for (file, *_), parts in zip(pieces, sources, strict=True):
            assert (parts is None) == file.startswith("texts/")
    assert any(file.startswith("texts/") for pack in answer["packs"] for file, *_ in pack)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tokens_equal_those_of_the_source_after_it_moved(
    texts: Path, tmp_path: Path, layout: str, written: Callable[[str], Path]
) -> None:
    out = written(layout)
    moved = tmp_path / "moved"
    moved.symlink_to(texts / "texts")
    run = shardmill("verify", out, "--source", moved)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "120 documents of" in run.stderr and "all are equal" in run.stderr
    check = sm.Provenance(out).verify(moved, sample=7)
    assert (check.documents, check.mismatches) == (7, [])


def test_changed_source_and_changed_tokens_are_named(texts: Path, tmp_path: Path) -> None:
    source = tmp_path / "texts"
    for name in FILES:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((texts / "texts" / name).read_bytes())
    out = tokenized(texts, tmp_path / "p", "--to", "megatron", source=source)
    lines = (source / FILES[1]).read_text().splitlines()
    place = next(row for row, line in enumerate(lines) if len(json.loads(line)["text"]) > 50)
    row = json.loads(lines[place])
    stored = sm.Dataset(out)[40 + place]["tokens"]
    lines[place] = json.dumps(row | {"text": row["text"] + "!"})
    (source / FILES[1]).write_text("\n".join(lines[:-1]) + "\n")
    [changed, *lost] = sm.Provenance(out).verify(source).mismatches
    offset = len(stored) - 1
    assert changed == (40 + place, FILES[1], place, offset, stored[offset], ord("!"))
    gone = sm.Dataset(out)[79]["tokens"]
    assert [*lost] == ([(79, FILES[1], 39, 0, gone[0], None)] if gone else [])
    run = shardmill("verify", out, "--source", source)
    assert run.returncode == 1
    assert f"document {40 + place}: {FILES[1]}, row {place}, token {offset}: stored" in run.stdout
    answer = json.loads(shardmill("verify", out, "--source", source, "--json").stdout)
    assert answer["source"]["mismatches"][0]["found"] == ord("!")
    # A document that is stored otherwise.
    with open(f"{out}.bin", "r+b") as file:
        file.write(b"\x05\x01")
    mismatch = sm.Provenance(out).verify(source).mismatches[0]
    assert (mismatch.file, mismatch.offset, mismatch.stored) == (FILES[0], 0, 0x105)


def test_other_tokenizer_is_refused_by_its_fingerprint(texts: Path, tmp_path: Path) -> None:
    out = tokenized(texts, tmp_path / "p", "--to", "megatron")
    other = write_tokenizer(tmp_path / "other")
    provenance = sm.Provenance(out)
    for given in (other, tmp_path / "other"):
        with pytest.raises(sm.OptionError, match=f"{other.fingerprint}.* is another"):
            provenance.verify(texts / "texts", tokenizer=given)
    run = shardmill("verify", out, "--source", texts / "texts", "--tokenizer", tmp_path / "other")
    assert run.returncode == 1 and other.fingerprint in run.stderr
    same = write_tokenizer(tmp_path / "same", merges=[(b"a", b"b")])
    assert provenance.verify(texts / "texts", tokenizer=same).mismatches == []


def test_options_of_a_chat_are_used_again(tmp_path: Path) -> None:
    model = tmp_path / "model"
    write_tokenizer(model, template="{% for m in messages %}{{ m.content }}{{ word }}{% endfor %}")
    chats = tmp_path / "chats"
    chats.mkdir()
    line = json.dumps({"chat": [{"role": "user", "content": "hello"}]})
    (chats / "c.jsonl").write_text(f"{line}\n{line}\n")
    options = ("--messages", "chat", "--template-kwargs", '{"word": "!"}', "--tokenizer", model)
    run = shardmill("tokenize", chats, tmp_path / "p", "--to", "megatron", *options)
    assert run.returncode == 0, run.stderr
    assert bytes(sm.Dataset(tmp_path / "p")[0]["tokens"]) == b"hello!"
    assert sm.Provenance(tmp_path / "p").verify(chats).mismatches == []
    (model / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"})
    )
    with pytest.raises(sm.OptionError, match="another chat template"):
        sm.Provenance(tmp_path / "p").verify(chats)


def test_provenance_is_left_out_on_request_and_for_parquet(texts: Path, tmp_path: Path) -> None:
    tokenized(texts, tmp_path / "p", "--to", "megatron", "--no-provenance")
    tokenized(texts, tmp_path / "q.parquet")
    assert not list(tmp_path.glob("*.provenance.parquet"))
    with pytest.raises(
        sm.NotFoundError, match=r"provenance file .* of .*\nhint: .* --no-provenance"
    ):
        sm.Provenance(tmp_path / "p")
    assert "documents" not in sm.Loader(tmp_path / "p").explain()


def test_new_tokens_remove_the_provenance_of_earlier_ones(texts: Path, tmp_path: Path) -> None:
    out = tokenized(texts, tmp_path / "p", "--to", "megatron")
    again = ("--to", "megatron", "--mode", "overwrite")
    tokenized(texts, out, *again, "--filter", "id < 3")
    assert sm.Provenance(out).num_documents == 9
    with sm.Writer(out, format="megatron", mode="overwrite") as writer:
        writer.write({"tokens": [1, 2]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.bin", "p.idx"]


def test_failed_run_leaves_no_provenance(texts: Path, tmp_path: Path) -> None:
    given = ("--tokenizer", texts / "model", "--stored-dtype", "uint8", "--eos", END)
    run = shardmill("tokenize", texts / "texts", tmp_path / "p", "--to", "megatron", *given)
    assert run.returncode == 1 and list(tmp_path.iterdir()) == []


def damaged_length(out: Path) -> None:
    with open(f"{out}.bin", "ab") as file:
        file.write(b"\0\0")


def other_file(out: Path) -> None:
    with sm.Writer(f"{out}.provenance.parquet", mode="overwrite") as writer:
        writer.write({"first_token": 0})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damaged_length, "is the provenance of other tokens"),
        (other_file, "is not a provenance file"),
        (lambda out: Path(f"{out}.bin").unlink(), "do not exist"),
    ],
)
def test_provenance_of_other_tokens_is_an_error(
    texts: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    out = tokenized(texts, tmp_path / "p", "--to", "megatron")
    damage(out)
    with pytest.raises((sm.FormatError, sm.NotFoundError), match=message):
        sm.Provenance(out)


def parts_of(texts: Path, directory: Path) -> list[Path]:
    """The token files of each source file."""
    return [
        tokenized(texts, directory / str(number), "--to", "megatron", source=texts / "texts" / name)
        for number, name in enumerate(FILES)
    ]


def joined(texts: Path, *outs: Path) -> list[tuple[int, int, str, int]]:
    """The rows of provenance files, one after the other."""
    rows, total = [], 0
    for out in outs:
        for row in pq.read_table(f"{out}.provenance.parquet").to_pylist():
            rows.append((row["first_token"] + total, row["tokens"], row["file"], row["row"]))
        total = rows[-1][0] + rows[-1][1]
    return rows


@pytest.mark.parametrize("names", [("b/a.jsonl", "b/c.jsonl"), ("b/c.jsonl", "b/c.jsonl")])
def test_merged_pairs_keep_their_provenance(
    texts: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    source = tmp_path / "texts"
    source.mkdir()
    parts = [
        tokenized(texts, tmp_path / str(number), "--to", "megatron", source=texts / "texts" / name)
        for number, name in enumerate(names)
    ]
    sm.merge(tmp_path / "all", parts)
    assert joined(texts, tmp_path / "all") == joined(texts, *parts)
    metadata = json.loads(
        pq.read_schema(tmp_path / "all.provenance.parquet").metadata[b"shardmill.provenance"]
    )
    assert metadata["source"]["paths"] == list(
        dict.fromkeys(str(texts / "texts" / name) for name in names)
    )
    check = sm.Provenance(tmp_path / "all").verify(texts / "texts" / "b")
    assert (check.documents, check.mismatches) == (80, [])


@pytest.mark.parametrize("layout", ["pair", "pairs", "bin", "shards", "cut shards"])
@pytest.mark.parametrize("to", ["megatron", "bin"])
def test_converted_token_files_keep_their_provenance(
    written: Callable[[str], Path], texts: Path, tmp_path: Path, layout: str, to: str
) -> None:
    out = written(layout)
    arguments = ["--to", to, "--shard-bytes", "3KB"]
    if "bin" in LAYOUTS[layout][0]:
        arguments += ["--format", "bin", "--token-files", json.dumps({"row_tokens": 100})]
        if "cut" not in layout:
            # Empty documents are no rows, so a pair has fewer.
            arguments[-1] = json.dumps({"dtype": "uint16", "eos": 257})
    run = shardmill("convert", out.parent, tmp_path / "q", *arguments)
    assert run.returncode == 0, run.stderr
    if to == "megatron" and "bin" in LAYOUTS[layout][0]:
        assert "no provenance is written for" in run.stderr
        assert "are not the documents of its provenance" in run.stderr
        assert not (tmp_path / "q.provenance.parquet").exists()
        return
    assert run.stderr.count("\n") == 1
    assert joined(texts, tmp_path / "q") == joined(texts, out)
    copy = sm.Provenance(tmp_path / "q")
    assert len(copy.files) > 1 and copy.verify(texts / "texts").mismatches == []


def test_documents_of_a_stream_become_a_pair_with_provenance(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n{"text": "é"}\n')
    given = ("--to", "bin", "--header", "llm.c")
    out = tokenized(texts, tmp_path / "p.bin", *given, source=tmp_path / "a.jsonl")
    options = ("--format", "bin", "--to", "megatron", "--token-files", json.dumps({"eos": 257}))
    # The output replaces nothing, and has the name of its source.
    run = shardmill("convert", out, tmp_path / "q", *options)
    assert run.returncode == 0 and "provenance" not in run.stderr, run.stderr
    assert sm.Provenance(tmp_path / "q").verify(tmp_path).documents == 2
    metadata = pq.read_schema(tmp_path / "q.provenance.parquet").metadata[b"shardmill.provenance"]
    assert json.loads(metadata)["header"] is None and json.loads(metadata)["format"] == "megatron"


def test_pair_that_replaces_itself_keeps_its_provenance(texts: Path, tmp_path: Path) -> None:
    out = tokenized(texts, tmp_path / "p", "--to", "megatron")
    expected = joined(texts, out)
    options = ("--to", "megatron", "--mode", "overwrite", "--stored-dtype", "int32")
    run = shardmill("convert", out, out, *options)
    assert run.returncode == 0, run.stderr
    assert joined(texts, out) == expected and sm.Provenance(out).dtype == "int32"


def other_options(texts: Path, parts: list[Path]) -> None:
    tokenized(texts, parts[1], "--to", "megatron", "--mode", "overwrite", "--bos", END)


def no_provenance(_: Path, parts: list[Path]) -> None:
    Path(f"{parts[1]}.provenance.parquet").unlink()


def equal_names(texts: Path, parts: list[Path]) -> None:
    source = texts / "texts" / FILES[1]
    tokenized(texts, parts[2], "--to", "megatron", "--mode", "overwrite", source=source.parent)


def one_shard(texts: Path, parts: list[Path]) -> None:
    for end in ("bin", "idx", "provenance.parquet"):
        Path(f"{parts[1]}.{end}").unlink()
    tokenized(texts, parts[1], "--to", "megatron", "--shard-bytes", "2KB")
    parts[1] = Path(f"{parts[1]}_00001")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_options, "have different options of Tokenize"),
        (no_provenance, "1.bin' has no provenance, but other files have it"),
        (equal_names, "'a.jsonl' is below "),
        (one_shard, " files, but only some are copied"),
        (lambda _, parts: damaged_length(parts[1]), "is the provenance of other tokens"),
    ],
)
def test_merged_pair_warns_why_it_has_no_provenance(
    texts: Path, tmp_path: Path, change: Callable[[Path, list[Path]], None], reason: str
) -> None:
    parts = parts_of(texts, tmp_path)[1:]
    parts.insert(0, tokenized(texts, tmp_path / "0", "--to", "megatron", "--mode", "overwrite"))
    change(texts, parts)
    with pytest.warns(UserWarning, match=r"no provenance is written for .*all': .*") as warned:
        sm.merge(tmp_path / "all", parts)
    assert any(reason in str(one.message) for one in warned)
    assert sm.Dataset(tmp_path / "all").files
    assert not (tmp_path / "all.provenance.parquet").exists()


def test_source_of_a_token_is_shown(texts: Path, tmp_path: Path) -> None:
    out = tokenized(texts, tmp_path / "p", "--to", "megatron")
    expected = sm.Provenance(out).source(1000)
    run = shardmill("inspect", out, "--token", 1000)
    shown = [tuple(line.split()) for line in run.stdout.splitlines()]
    assert shown == [(name, str(value)) for name, value in expected._asdict().items()]
    assert json.loads(shardmill("inspect", out, "--token", 1000, "--json").stdout) == (
        expected._asdict()
    )
    run = shardmill("inspect", out, "--token", 10**9)
    assert run.returncode == 1 and "token 1000000000 is out of range" in run.stderr
    assert shardmill("inspect", out, out, "--token", 1).returncode == 2
    assert shardmill("verify", out, "--sample", 3).returncode == 2


def test_data_set_without_tokens_has_an_empty_provenance(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text('{"text": ""}\n')
    out = tokenized(texts, tmp_path / "p", "--to", "megatron", source=tmp_path / "empty.jsonl")
    provenance = sm.Provenance(out)
    assert (provenance.num_documents, provenance.num_tokens) == (1, 0)
    assert provenance.verify(tmp_path).mismatches == []
    assert sm.Loader(sm.Dataset(out)).explain()["documents"] == [[("empty.jsonl", 0, 0, 0)]]
