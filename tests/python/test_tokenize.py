"""Tokens that a data set computes from its texts, against the library of Hugging Face."""

from __future__ import annotations

import json
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytestmark = pytest.mark.usefixtures("counts_below")

tokenizers = pytest.importorskip("tokenizers")

DOCS = Path(__file__).parents[2] / "docs"
EOS = "<|endoftext|>"


@pytest.fixture(scope="module")
def documents() -> list[str]:
    """Paragraphs of the documentation."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))]
    paragraphs = [part for text in texts for part in text.split("\n\n") if part]
    return random.Random(0).sample(paragraphs, 400)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, documents: list[str]) -> Path:
    """A directory with a byte-level BPE tokenizer."""
    directory = tmp_path_factory.mktemp("tokenizer")
    oracle = tokenizers.Tokenizer(tokenizers.models.BPE())
    oracle.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    oracle.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1000, special_tokens=[EOS, "<s>"], initial_alphabet=alphabet, show_progress=False
    )
    oracle.train_from_iterator(documents, trainer)
    oracle.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": EOS}))
    return directory


def written(directory: Path, texts: list[str | None], *, files: int = 3) -> Path:
    directory.mkdir(exist_ok=True)
    for number in range(files):
        part = texts[number * len(texts) // files : (number + 1) * len(texts) // files]
        rows = pa.table(
            {"id": pa.array([hash(text) for text in part]), "text": pa.array(part, pa.string())}
        )
        pq.write_table(rows, directory / f"part{number}.parquet", row_group_size=17)
    return directory


def ids_of(trained: Path, texts: list[str], *, special: bool = False) -> list[list[int]]:
    """The ids of the library, which takes special tokens in a text as such only if asked."""
    oracle = tokenizers.Tokenizer.from_file(str(trained / "tokenizer.json"))
    oracle.encode_special_tokens = not special
    return [encoding.ids for encoding in oracle.encode_batch(texts, add_special_tokens=False)]


def tokens_of(loader: sm.Loader) -> list[list[int]]:
    return [row for batch in loader for row in batch["tokens"].to_pylist()]


@pytest.mark.parametrize("threads", [1, 3])
def test_tokens_are_those_of_the_library_in_row_order(
    tmp_path: Path, trained: Path, documents: list[str], threads: int
) -> None:
    data = sm.Dataset(
        written(tmp_path / "in", documents),
        tokenize=sm.Tokenize("text", tokenizer=trained, eos=True),
    )
    end = ids_of(trained, [EOS], special=True)[0]
    expected = [ids + end for ids in ids_of(trained, documents)]
    assert data.columns == ["id", "tokens"]
    loader = sm.Loader(data, batch_size=10, output="arrow", runtime=sm.Runtime(threads=threads))
    assert tokens_of(loader) == expected
    assert data[5]["tokens"] == expected[5]
    assert pa.table(data)["tokens"].to_pylist() == expected
    assert pickle.loads(pickle.dumps(data))[7]["tokens"] == expected[7]


def test_text_is_delivered_only_if_it_is_named(tmp_path: Path, trained: Path) -> None:
    path = written(tmp_path / "in", ["a", "b"], files=1)
    tokenize = sm.Tokenize("text", tokenizer=trained)
    data = sm.Dataset(path, columns=["tokens", "text"], tokenize=tokenize)
    assert data[1] == {"tokens": ids_of(trained, ["b"])[0], "text": "b"}
    with pytest.raises(sm.OptionError, match=r"A column is called `id`"):
        sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained, output="id"))
    with pytest.raises(sm.MissingColumnError, match="txt"):
        sm.Dataset(path, tokenize=sm.Tokenize("txt", tokenizer=trained))
    with pytest.raises(ValueError, match="`id` is int64"):
        sm.Dataset(path, tokenize=sm.Tokenize("id", tokenizer=trained))


def test_special_tokens_in_a_text_are_text_ids_or_an_error(tmp_path: Path, trained: Path) -> None:
    texts = ["plain", f"a{EOS}b"]
    path = written(tmp_path / "in", texts, files=1)

    def rows(special: str) -> list[list[int]]:
        tokenize = sm.Tokenize(
            "text", tokenizer=trained, text_policy=sm.TextPolicy(special_in_text=special)
        )
        return pa.table(sm.Dataset(path, tokenize=tokenize))["tokens"].to_pylist()

    assert rows("text") == ids_of(trained, texts)
    assert rows("id") == ids_of(trained, texts, special=True)
    with pytest.raises(ValueError, match=r"Row 1 of `.*part0.parquet`: column `text`: .*endoftext"):
        rows("raise")
    with pytest.raises(sm.OptionError, match="special_in_text must be one of"):
        rows("error")


def test_empty_text_has_no_tokens_and_null_is_an_error_or_empty(
    tmp_path: Path, trained: Path
) -> None:
    path = written(tmp_path / "in", ["", "a", None], files=1)
    tokenize = sm.Tokenize(
        "text", tokenizer=trained, eos=EOS, text_policy=sm.TextPolicy(nulls="fill")
    )
    assert [
        len(row) for row in pa.table(sm.Dataset(path, tokenize=tokenize))["tokens"].to_pylist()
    ] == [0, 2, 0]
    with pytest.raises(
        ValueError, match=r"Row 2 of .*: column `text`: the value is null\nhint: nulls=\"fill\""
    ):
        pa.table(sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained)))
    loader = sm.Loader(
        sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained)),
        output="arrow",
        errors=sm.ErrorPolicy(rows="skip"),
    )
    assert [len(row) for row in tokens_of(loader)] == [0, 1]
    assert [bad.row for bad in loader.bad_rows] == [2]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_column_of_nulls_alone_is_a_text_column(tmp_path: Path, trained: Path, kind: str) -> None:
    path = tmp_path / f"nulls.{kind}"
    if kind == "jsonl":
        path.write_text('{"text": null}\n{"text": null}\n')
    else:
        pq.write_table(pa.table({"text": pa.nulls(2)}), path)
    filled = sm.Dataset(
        path,
        tokenize=sm.Tokenize(
            "text", tokenizer=trained, eos=EOS, text_policy=sm.TextPolicy(nulls="fill")
        ),
    )
    assert tokens_of(sm.Loader(filled, output="arrow")) == [[], []]
    with pytest.raises(
        ValueError, match=r"Row 0 of .*: column `text`: the value is null\nhint: nulls=\"fill\""
    ):
        pa.table(sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained)))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_file_without_rows_has_no_tokens(tmp_path: Path, trained: Path, kind: str) -> None:
    path = tmp_path / f"empty.{kind}"
    if kind == "csv":
        path.write_text("id,text\n")
    else:
        pq.write_table(
            pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string())}), path
        )
    tokens = pa.table(sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained)))["tokens"]
    assert (tokens.type.value_type, tokens.to_pylist()) == (pa.int32(), [])


def test_bytes_are_utf8_or_located_or_replaced(tmp_path: Path, trained: Path) -> None:
    pq.write_table(pa.table({"text": [b"ab", b"ab\xffc"]}), tmp_path / "bytes.parquet")
    with pytest.raises(ValueError, match=r"Row 1 of .*: the bytes are not UTF-8 from offset 2 on"):
        pa.table(
            sm.Dataset(tmp_path / "bytes.parquet", tokenize=sm.Tokenize("text", tokenizer=trained))
        )
    tokenize = sm.Tokenize("text", tokenizer=trained, text_policy=sm.TextPolicy(invalid="replace"))
    found = pa.table(sm.Dataset(tmp_path / "bytes.parquet", tokenize=tokenize))["tokens"]
    assert found.to_pylist() == ids_of(trained, ["ab", b"ab\xffc".decode(errors="replace")])


def test_several_columns_are_joined_without_nulls_and_labels_leave_out_the_first_token(
    tmp_path: Path, trained: Path
) -> None:
    rows = pa.table({"title": ["One", None, "Three"], "body": ["first", "second", None]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    tokenize = sm.Tokenize(
        ["title", "body"], tokenizer=trained, separator="\n", labels="all", dtype="int64"
    )
    table = pa.table(sm.Dataset(tmp_path / "rows.parquet", tokenize=tokenize))
    expected = ids_of(trained, ["One\nfirst", "second", "Three"])
    assert table.schema.field("tokens").type.value_type == pa.int64()
    assert table["tokens"].to_pylist() == expected
    assert table["labels"].to_pylist() == [[-100, *ids[1:]] for ids in expected]


def test_labels_are_padded_with_the_label_to_ignore_unless_another_is_named(
    tmp_path: Path, trained: Path
) -> None:
    tokenize = sm.Tokenize(
        "text",
        tokenizer=trained,
        labels=sm.Labels("all", ignore_index=-7),
        text_policy=sm.TextPolicy(nulls="fill"),
    )
    data = sm.Dataset(written(tmp_path / "in", ["a", None]), tokenize=tokenize)
    mixture = sm.Mixture({"a": data, "b": data}, weights={"a": 1, "b": 1})

    def labels(data: sm.Dataset | sm.Mixture, **options: Any) -> list[list[int]]:
        [batch] = sm.Loader(data, batch_size=8, **options)
        return batch["labels"].tolist()

    def packed(pad: Any = 0) -> dict[str, Any]:
        return {
            "packing": sm.Packing(["tokens", "labels"], length=3, pad_value=pad),
            "output": "numpy",
        }

    def padded(pad: Any = 0) -> dict[str, Any]:
        return {"output": sm.Output("numpy", pad=2, pad_value=pad)}

    assert labels(data, **packed()) == labels(data, **packed(5)) == [[-7, -7, -7]]
    assert labels(data, **packed({"labels": 0})) == [[-7, 0, 0]]
    assert labels(mixture, **packed()) == [[-7, -7, -7]]
    assert labels(data, **padded()) == labels(data, **padded(5)) == [[-7, -7]] * 2
    assert labels(data, **padded({"labels": 0})) == [[-7, 0], [0, 0]]


def test_dictionary_columns_are_text(tmp_path: Path, trained: Path) -> None:
    rows = pa.table({"text": pa.array(["a b", "c", "a b"]).dictionary_encode()})
    pq.write_table(rows, tmp_path / "rows.parquet")
    found = pa.table(
        sm.Dataset(tmp_path / "rows.parquet", tokenize=sm.Tokenize("text", tokenizer=trained))
    )
    assert found["tokens"].to_pylist() == ids_of(trained, ["a b", "c", "a b"])


@pytest.mark.parametrize("option", ["bos", "eos"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("<|endoftex|>", "similar tokens are"),
        (10**6, "below 1000"),
        (-1, "below 1000"),
        (1.5, "must be a token or an id"),
    ],
)
def test_token_that_does_not_exist_is_an_error_of_the_option(
    trained: Path, option: str, value: object, message: str
) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.Tokenize("text", tokenizer=trained, **{option: value})


def test_post_processor_adds_its_tokens_and_not_those_that_are_also_given(
    tmp_path: Path, trained: Path, documents: list[str]
) -> None:
    oracle = tokenizers.Tokenizer.from_file(str(trained / "tokenizer.json"))
    end = oracle.token_to_id(EOS)
    oracle.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"$A {EOS}", special_tokens=[(EOS, end)]
    )
    (tmp_path / "model").mkdir()
    oracle.save(str(tmp_path / "model" / "tokenizer.json"))
    path = written(tmp_path / "in", documents[:10], files=1)
    data = sm.Dataset(
        path, tokenize=sm.Tokenize("text", tokenizer=tmp_path / "model", add_special_tokens=True)
    )
    oracle.encode_special_tokens = True
    assert pa.table(data)["tokens"].to_pylist() == [
        encoding.ids for encoding in oracle.encode_batch(documents[:10])
    ]
    with pytest.raises(sm.OptionError, match="already, which is eos"):
        sm.Tokenize("text", tokenizer=tmp_path / "model", add_special_tokens=True, eos=EOS)


def test_true_needs_a_token_that_the_directory_names(trained: Path) -> None:
    with pytest.raises(sm.OptionError, match="does not name its bos"):
        sm.Tokenize("text", tokenizer=trained, bos=True)


def packed(path: Path, trained: Path, **options: object) -> sm.Loader:
    data = sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained, eos=True), **options)
    return sm.Loader(
        data,
        packing=sm.Packing("tokens", length=64),
        batch_size=2,
        output="numpy",
        shuffle=True,
        seed=3,
    )


def test_packs_of_text_are_those_of_its_tokens_written_beforehand(
    tmp_path: Path, trained: Path, documents: list[str]
) -> None:
    source = written(tmp_path / "in", documents)
    loader = packed(source, trained)
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    for file in sorted(source.iterdir()):
        rows = pq.read_table(file)
        lists = [[*ids, 0] for ids in ids_of(trained, rows["text"].to_pylist())]
        pq.write_table(
            rows.append_column("tokens", pa.array(lists)), tokens / file.name, row_group_size=17
        )
    before = sm.Loader(
        sm.Dataset(tokens),
        packing=sm.Packing("tokens", length=64),
        batch_size=2,
        output="numpy",
        shuffle=True,
        seed=3,
    )
    for ours, theirs in zip(loader, before, strict=True):
        assert np.array_equal(ours["tokens"], theirs["tokens"])
        assert np.array_equal(ours["segment_ids"], theirs["segment_ids"])


def test_counts_are_kept_by_contents_and_serve_copies_and_filters(
    tmp_path: Path, trained: Path, documents: list[str], counts_below: Path
) -> None:
    path = written(tmp_path / "in", documents)
    first = [batch["tokens"] for batch in packed(path, trained)]
    kept = list(counts_below.rglob("counts-*.parquet"))
    entries = pq.read_table(kept)
    expected = [len(ids) + 1 for ids in ids_of(trained, documents)]
    assert pc.sum(entries["tokens"]).as_py() == sum(expected)
    path.rename(tmp_path / "moved")
    assert all(
        map(
            np.array_equal,
            first,
            (batch["tokens"] for batch in packed(tmp_path / "moved", trained)),
        )
    )
    len(packed(tmp_path / "moved", trained, filter="id % 2 = 0"))
    assert list(counts_below.rglob("counts-*.parquet")) == kept, "nothing is counted again"
    last = sorted((tmp_path / "moved").iterdir())[-1]
    changed = pq.read_table(last).set_column(
        1, "text", pa.array(["another"] * pq.read_metadata(last).num_rows)
    )
    pq.write_table(changed, last, row_group_size=17)
    len(packed(tmp_path / "moved", trained))
    (new,) = set(counts_below.rglob("counts-*.parquet")) - set(kept)
    assert set(pq.read_table(new)["file"].to_pylist()) == {last.name}, (
        "only the changed file is counted"
    )


def test_wrong_count_is_an_error_that_names_the_row_and_both_lengths(
    tmp_path: Path, trained: Path, documents: list[str], counts_below: Path
) -> None:
    path = written(tmp_path / "in", documents[:20], files=1)
    len(packed(path, trained))
    (kept,) = counts_below.rglob("counts-*.parquet")
    entries = pq.read_table(kept)
    lists = [[*counts[1:], counts[0]] for counts in entries["counts"].to_pylist()]
    changed = pa.array(lists, entries.schema.field("counts").type)
    pq.write_table(entries.set_column(5, entries.schema.field("counts"), changed), kept)
    message = (
        r"Column `tokens` has \d+ tokens in row \d+ of `.*part0.parquet`, "
        r"but the counts in `.*` say \d+\nhint: delete"
    )
    with pytest.raises(ValueError, match=message):
        list(packed(path, trained))


def test_many_files_of_counts_become_one(
    tmp_path: Path, trained: Path, documents: list[str], counts_below: Path
) -> None:
    path = written(tmp_path / "in", documents[:40], files=1)
    expected = [batch["tokens"] for batch in packed(path, trained)]
    (kept,) = counts_below.rglob("counts-*.parquet")
    entries = pq.read_table(kept)
    for number in range(64):
        pq.write_table(entries, kept.with_name(f"counts-{number}.parquet"))
    assert all(map(np.array_equal, expected, (batch["tokens"] for batch in packed(path, trained))))
    (left,) = counts_below.rglob("counts-*.parquet")
    assert sorted(pq.read_table(left).to_pylist(), key=str) == sorted(entries.to_pylist(), key=str)


@pytest.mark.filterwarnings("ignore:the token counts")
def test_files_of_counts_that_cannot_be_read_survive_the_merge_of_the_others(
    tmp_path: Path, trained: Path, documents: list[str], counts_below: Path
) -> None:
    path = written(tmp_path / "in", [*documents[:20], *[""] * 20], files=2)
    data = sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained))
    expected = data.token_counts()
    (kept,) = counts_below.rglob("counts-*.parquet")
    entries = pq.read_table(kept)
    assert 0 in entries["tokens"].to_pylist(), "blocks without tokens are kept too"
    for number in range(64):
        pq.write_table(entries, kept.with_name(f"counts-{number}.parquet"))
    kept.with_name("counts-cut.parquet").write_bytes(kept.read_bytes()[:-100])
    pq.write_table(pa.table({"id": [1]}), kept.with_name("counts-other.parquet"))
    negative = pa.array(
        [[-1] * len(counts) for counts in entries["counts"].to_pylist()],
        entries.schema.field(5).type,
    )
    pq.write_table(
        entries.set_column(5, entries.schema.field(5), negative),
        kept.with_name("counts-negative.parquet"),
    )
    for _ in range(2):
        again = sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained)).token_counts()
        assert again == expected
        names = {file.name for file in counts_below.rglob("counts-*.parquet")}
        (merged,) = names - {
            "counts-cut.parquet",
            "counts-other.parquet",
            "counts-negative.parquet",
        }
        assert len(names) == 4
        merged_entries = pq.read_table(kept.with_name(merged)).to_pylist()
        assert sorted(merged_entries, key=str) == sorted(entries.to_pylist(), key=str)


def test_damaged_counts_are_ignored_with_one_warning(
    tmp_path: Path, trained: Path, documents: list[str], counts_below: Path
) -> None:
    path = written(tmp_path / "in", documents[:40], files=1)
    expected = [batch["tokens"] for batch in packed(path, trained)]
    (kept,) = counts_below.rglob("counts-*.parquet")
    kept.write_bytes(kept.read_bytes()[:100])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [batch["tokens"] for batch in packed(path, trained)]
    assert all(map(np.array_equal, expected, found))
    assert len([warning for warning in caught if "token counts" in str(warning.message)]) == 1


@pytest.mark.parametrize("damage", ["short", "negative"])
def test_counts_that_cannot_be_those_of_the_block_are_counted_again(
    tmp_path: Path, trained: Path, documents: list[str], damage: str
) -> None:
    path = written(tmp_path / "in", documents[:60], files=1)

    def loader(counts: Path) -> sm.Loader:
        tokenize = sm.Tokenize("text", tokenizer=trained, eos=EOS, counts=counts)
        packing = sm.Packing("tokens", length=32, plan="ahead", epoch_packs=60)
        return sm.Loader(
            sm.Dataset(path, tokenize=tokenize),
            packing=packing,
            batch_size=4,
            lanes=1,
            output="numpy",
        )

    first = loader(tmp_path / "first")
    batches = iter(first)
    for _ in range(8):
        next(batches)
    state = first.state_dict()
    expected = [batch["tokens"] for batch in batches]
    second = tmp_path / "second"
    sm.Dataset(
        path, tokenize=sm.Tokenize("text", tokenizer=trained, eos=EOS, counts=second)
    ).token_counts()
    (kept,) = second.rglob("counts-*.parquet")
    entries = pq.read_table(kept)
    lists = [
        counts[:-1] if damage == "short" else [-1, *counts[1:]]
        for counts in entries["counts"].to_pylist()
    ]
    field = entries.schema.field("counts")
    pq.write_table(entries.set_column(5, field, pa.array(lists, field.type)), kept)
    resumed = loader(second)
    resumed.load_state_dict(state)
    found = [batch["tokens"] for batch in resumed]
    assert len(found) == len(expected) > 3
    assert all(map(np.array_equal, found, expected))


def test_counts_that_cannot_be_kept_are_one_warning(
    tmp_path: Path, trained: Path, documents: list[str]
) -> None:
    path = written(tmp_path / "in", documents[:40], files=1)
    (tmp_path / "file").write_text("not a directory")
    tokenize = sm.Tokenize("text", tokenizer=trained, counts=tmp_path / "file" / "counts")
    loader = sm.Loader(
        sm.Dataset(path, tokenize=tokenize), packing=sm.Packing("tokens", length=64), output="numpy"
    )
    with pytest.warns(UserWarning, match="token counts cannot be kept") as caught:
        assert len(list(loader)) > 0
    assert len(caught) == 1
    assert "\nhint: set counts=, or XDG_CACHE_HOME," in str(caught[0].message)


def test_user_without_a_home_directory_has_the_cache_of_a_container(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_user: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME", "SHARDMILL_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    tokenize = sm.Tokenize("text", tokenizer=trained)
    assert tokenize.counts == "/.cache/shardmill/counts"
    assert "counts" not in repr(tokenize)


def test_state_of_another_tokenizer_is_refused_with_packing_and_warned_of_without(
    tmp_path: Path, trained: Path, documents: list[str]
) -> None:
    path = written(tmp_path / "in", documents[:40])

    def loader(eos: bool, packing: sm.Packing | None) -> sm.Loader:
        data = sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained, eos=eos))
        return sm.Loader(data, packing=packing, batch_size=2, output="numpy")

    packing = sm.Packing("tokens", length=64)
    with pytest.raises(sm.CheckpointMismatchError, match="tokenize="):
        loader(False, packing).load_state_dict(loader(True, packing).state_dict())
    with pytest.warns(UserWarning, match="the same rows may have other tokens"):
        loader(False, None).load_state_dict(loader(True, None).state_dict())


def test_sources_of_a_mixture_have_one_tokenizer(
    tmp_path: Path, trained: Path, documents: list[str]
) -> None:
    path = written(tmp_path / "in", documents[:20], files=1)
    other = tmp_path / "other"
    other.mkdir()
    oracle = tokenizers.Tokenizer.from_file(str(trained / "tokenizer.json"))
    oracle.add_special_tokens(["<other>"])
    oracle.save(str(other / "tokenizer.json"))
    one, two = (
        sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=model))
        for model in (trained, other)
    )
    names = [sm.Tokenizer(model).fingerprint for model in (trained, other)]
    with pytest.raises(
        ValueError, match=f"'a' and 'b' have different tokenizers, .*{names[0]} and {names[1]}"
    ):
        sm.Mixture({"a": one, "b": two})


@pytest.mark.parametrize(("options", "warned"), [({}, 1), ({"eos": EOS}, 0), ({"bos": "<s>"}, 0)])
def test_packs_without_a_token_between_documents_are_warned_of(
    tmp_path: Path, trained: Path, documents: list[str], options: dict[str, Any], warned: int
) -> None:
    path = written(tmp_path / "in", documents[:20], files=1)
    data = sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=trained, **options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sm.Loader(data, packing=sm.Packing("tokens", length=64), output="numpy")
    assert (
        len([warning for warning in caught if "neither bos nor eos" in str(warning.message)])
        == warned
    )


def test_model_that_marks_the_end_of_words_is_refused(tmp_path: Path) -> None:
    words = {"<unk>": 0, "a": 1, "b": 2, "a</w>": 3, "b</w>": 4, "ab</w>": 5}
    model = tokenizers.models.BPE(
        words, [("a", "b</w>")], unk_token="<unk>", end_of_word_suffix="</w>"
    )
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match=r"tokenizer.json.*end_of_word_suffix"):
        sm.Tokenizer(tmp_path)


def test_fingerprint_follows_what_determines_ids(trained: Path) -> None:
    first = sm.Tokenize("text", tokenizer=trained)
    assert first.fingerprint == sm.Tokenize("text", tokenizer=trained, dtype="int64").fingerprint
    assert first.fingerprint != sm.Tokenize("text", tokenizer=trained, eos=True).fingerprint
    assert first.fingerprint != sm.Tokenize("body", tokenizer=trained).fingerprint


def test_mixture_of_text_and_tokens_resumes_exactly(
    tmp_path: Path, trained: Path, documents: list[str]
) -> None:
    text = written(tmp_path / "text", documents[:60])
    pq.write_table(
        pa.table({"tokens": pa.array([[7] * (n % 5) for n in range(50)], pa.list_(pa.int32()))}),
        tmp_path / "t.parquet",
    )

    def loader(ranks: int, rank: int) -> sm.Loader:
        data = sm.Dataset(
            text, columns=["tokens"], tokenize=sm.Tokenize("text", tokenizer=trained, eos=True)
        )
        mixture = sm.Mixture(
            {"text": data, "tokens": sm.Dataset(tmp_path / "t.parquet")},
            weights={"text": 0.7, "tokens": 0.3},
        )
        return sm.Loader(
            mixture,
            packing=sm.Packing("tokens", length=32),
            batch_size=4 // ranks,
            shuffle=True,
            seed=5,
            output="numpy",
            rank=rank,
            world_size=ranks,
            lanes=2,
            tail="drop",
        )

    whole = [batch["tokens"] for batch in loader(1, 0)]
    first = loader(2, 0)
    it = iter(first)
    for _ in range(3):
        next(it)
    state = first.state_dict()
    parts = []
    for rank in range(2):
        resumed = loader(2, rank)
        resumed.load_state_dict(state)
        parts.append([batch["tokens"] for batch in resumed])
    joined = [np.concatenate(step) for step in zip(*parts, strict=True)]
    assert len(joined) == len(whole) - 3
    assert all(map(np.array_equal, joined, whole[3:]))
