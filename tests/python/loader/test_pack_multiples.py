"""Multiples, overlaps and labels of the next token against a model that deals out tokens one by
one: on any lanes and ranks, from any pack on.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from breadth import examples
from flat_options import flat_loader
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from reference_ahead import rows_of_pass, steps_of
from reference_order import lanes_of
from reference_packing import fitted, pack_steps
from row_files import write_tables
from test_packing import loader_of, write_documents

quick = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

LENGTHS = st.lists(st.one_of(st.integers(1, 9), st.integers(0, 40)), min_size=4, max_size=30)

#: Packs of an epoch of endless lanes.
PLACES = 12


@st.composite
def packings(draw: st.DrawFn) -> dict[str, Any]:
    options: dict[str, Any] = {
        "strategy": draw(st.sampled_from(["concat", "best_fit", "first_fit"]))
    }
    if options["strategy"] != "concat":
        options["open_packs"] = draw(st.integers(1, 4))
        options["long"] = draw(st.sampled_from(["split", "truncate", "drop"]))
    elif draw(st.booleans()):
        return {**options, "length": draw(st.integers(2, 16)), "overlap": 1}
    multiple_of = draw(st.integers(1, 6))
    length = multiple_of * draw(st.integers(1, 5))
    options |= {"length": length, "multiple_of": multiple_of, "next_token": draw(st.booleans())}
    return {**options, "across": options["next_token"] and draw(st.booleans())}


def model(passes: list[list[list[int]]], **packing: Any) -> list[Any]:
    """The packs of one lane, as a batch has them, each with the tokens of its documents."""
    length, overlap = packing["length"], packing.get("overlap", 0)
    multiple, across = packing.get("multiple_of", 1), packing.get("across", False)

    def padded(row: list[int]) -> list[Any]:
        return [*row, *[None] * (-len(row) % multiple)]

    following_of_row = {
        token: following
        for rows in passes
        for row in rows
        for token, following in itertools.pairwise(row)
    }
    found: list[tuple[list[list[Any]], Any]] = []
    if packing["strategy"] == "concat":
        rows = itertools.chain.from_iterable(passes)
        stream = [(number, token) for number, row in enumerate(rows) for token in padded(row)]
        # The last token alone is in the pack before.
        for start in range(0, max(len(stream) - overlap, min(len(stream), 1)), length - overlap):
            pack = stream[start : start + length]
            documents = [
                [token for _, token in document]
                for _, document in itertools.groupby(pack, key=lambda place: place[0])
            ]
            rest = (token for _, token in stream[start + length :] if token is not None)
            found.append((documents, next(rest, None)))
    else:
        names = ("strategy", "open_packs", "long")
        options = {name: packing[name] for name in names}
        for rows in passes:
            packs = fitted([padded(row) for row in rows], length, **options)
            found += [(pack, None) for pack in packs]
    return [_arrays(*pack, following_of_row, length, across) for pack in found]


def endless(
    path: Path, packing: dict[str, Any], *, lanes: int, places: int = PLACES, **order: Any
) -> list[list[Any]]:
    """The packs of each lane for these places and the one after, from as many passes."""
    passes: list[list[list[list[int]]]] = [[] for _ in range(lanes)]
    most = packing["length"] if packing.get("long") == "drop" else 10**6
    # The last pack of concatenated rows is cut off, and lacks what follows it.
    wanted = (places // lanes + 3) * packing["length"]
    rows: list[list[int]] = []
    for number in itertools.count():
        if order["shuffle"] or not rows:
            rows = rows_of_pass(path, number, lanes=lanes, **order)
        for own, positions in zip(passes, lanes_of(len(rows), lanes), strict=True):
            own.append([rows[position] for position in positions])
            # A lane without anything to pack is an error.
            assume(any(0 < len(row) <= most for row in own[-1]))
        packed = [
            sum(
                min(len(row), packing["length"]) for rows in own for row in rows if len(row) <= most
            )
            for own in passes
        ]
        if min(packed) >= wanted:
            return [model(own, **packing) for own in passes]
    raise AssertionError("passes do not end")


def _arrays(
    documents: list[list[Any]],
    after: Any,
    following_of_row: dict[int, int],
    length: int,
    across: bool,
) -> dict[str, Any]:
    columns: dict[str, list[int]] = {
        name: [] for name in ("tokens", "labels", "segment_ids", "positions")
    }
    for number, document in enumerate(documents):
        tokens = [token for token in document if token is not None]
        follows = documents[number + 1][0] if number + 1 < len(documents) else after
        labels = [following_of_row.get(token) for token in tokens]
        if labels[-1] is None and across:
            labels[-1] = follows
        padding = len(document) - len(tokens)
        columns["tokens"] += tokens + [0] * padding
        columns["labels"] += [-100 if label is None else label for label in labels]
        columns["labels"] += [-100] * padding
        columns["segment_ids"] += [number + 1] * len(document)
        columns["positions"] += range(len(document))
    for name, values in columns.items():
        values += [-100 if name == "labels" else 0] * (length - len(values))
    lengths = [sum(token is not None for token in document) for document in documents]
    return {
        **columns,
        "document_lengths": lengths,
        "padded_lengths": [len(document) for document in documents],
    }


def packs_in(batch: dict[str, Any], packing: dict[str, Any]) -> list[dict[str, Any]]:
    """The packs of a batch, in the form of the model."""
    names = ["tokens", *["labels"] * packing.get("next_token", False), "segment_ids", "positions"]
    names += ["document_lengths", *["padded_lengths"] * (packing.get("multiple_of", 1) > 1)]
    assert list(batch) == names
    return [
        dict(zip(names, pack, strict=True))
        for pack in zip(*(batch[name].tolist() for name in names), strict=True)
    ]


def of_model(packs: list[Any], packing: dict[str, Any]) -> list[dict[str, Any]]:
    """Of packs of the model, what batches with these options have."""
    absent = {
        "labels": not packing.get("next_token"),
        "padded_lengths": packing.get("multiple_of", 1) == 1,
    }
    return [
        {name: values for name, values in pack.items() if not absent.get(name)} for pack in packs
    ]


@quick
@given(
    lengths=LENGTHS,
    packing=packings(),
    lanes=st.sampled_from([1, 2, 3]),
    share=st.sampled_from([(1, 1), (3, 1), (2, 2)]),
    stop=st.integers(0, 6),
    shuffle=st.booleans(),
    plan=st.sampled_from(["epoch", "ahead"]),
    threads=st.sampled_from([0, 2]),
)
def test_packs_from_any_place_on_are_those_of_the_model(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    lanes: int,
    share: tuple[int, int],
    stop: int,
    shuffle: bool,
    plan: str,
    threads: int,
) -> None:
    path = write_documents(tmp_path, lengths)
    order = {"shuffle": shuffle, "seed": 3, "shuffle_window_bytes": 200}
    dealt = {"batch_size": share[0], "world_size": share[1], "tail": "uneven"}
    options = {**packing, "plan": plan, **({"epoch_packs": PLACES} if plan == "ahead" else {})}
    if plan == "epoch":
        rows = rows_of_pass(path, 0, lanes=1, **order)
        of_lanes = [[rows[position] for position in lane] for lane in lanes_of(len(rows), lanes)]
        steps = list(pack_steps([model([lane], **packing) for lane in of_lanes], **dealt))
    else:
        steps = steps_of(endless(path, packing, lanes=lanes, **order), PLACES, **dealt)
    state = None
    for rank in range(share[1]):
        own = [step[rank].packs for _, step in steps if step[rank].packs]
        loader = loader_of(path, options, lanes=lanes, threads=threads, rank=rank, **dealt, **order)
        begun = [packs_in(batch, packing) for batch in itertools.islice(loader, stop)]
        assert begun == [of_model(packs, packing) for packs in own[:stop]]
        if stop <= len(own):
            state = state or json.loads(json.dumps(loader.state_dict()))
            resumed = loader_of(path, options, rank=rank, **dealt, **order)
            resumed.load_state_dict(state)
            rest = [packs_in(batch, packing) for batch in resumed]
            assert rest == [of_model(packs, packing) for packs in own[stop:]] or stop == len(own)
    if plan == "epoch":
        explained = loader_of(path, options, lanes=lanes, **order).explain()
        every: list[Any] = [pack for _, step in steps for batch in step for pack in batch.packs]
        tokens = sum(sum(pack["document_lengths"]) for pack in every)
        room = sum(sum(pack["padded_lengths"]) for pack in every)
        assert (explained["packs_of_epoch"], explained["tokens_of_epoch"]) == (len(every), tokens)
        assert explained["padded_tokens"] == room - tokens
        assert explained["fill_rate"] == pytest.approx(
            tokens / (len(every) * packing["length"]) if every else explained["fill_rate"]
        )


def test_documents_are_padded_to_multiples_inside_a_pack(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 4, 6])
    packing = sm.Packing(["tokens", "labels"], length=8, multiple_of=4, pad_value={"labels": -100})
    (batch,) = loader_of(path, packing, batch_size=2)
    assert batch["tokens"].tolist() == [
        [1, 2, 3, 0, 101, 102, 103, 104],
        [201, 202, 203, 204, 205, 206, 0, 0],
    ]
    assert batch["labels"][0].tolist() == [-1, -2, -3, -100, -101, -102, -103, -104]
    assert batch["segment_ids"].tolist() == [[1] * 4 + [2] * 4, [1] * 8]
    assert batch["positions"].tolist() == [[0, 1, 2, 3] * 2, list(range(8))]
    assert batch["document_lengths"].tolist() == [[3, 4], [6]]
    assert batch["padded_lengths"].tolist() == [[4, 4], [8]]
    assert packing.cu_seqlens(batch).tolist() == [0, 4, 8, 16]


def test_overlapping_packs_repeat_one_token(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 2, 4])
    packing = sm.Packing("tokens", length=5, overlap=1)
    (batch,) = loader_of(path, packing, batch_size=3)
    assert batch["tokens"].tolist() == [[1, 2, 3, 101, 102], [102, 201, 202, 203, 204]]
    assert batch["segment_ids"].tolist() == [[1, 1, 1, 2, 2], [1, 2, 2, 2, 2]]
    assert batch["positions"].tolist() == [[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("across", "labels"),
    [
        (False, [[2, 3, -100, 102, 103], [104, -100, -100, -100, -100]]),
        (True, [[2, 3, 101, 102, 103], [104, 201, -100, -100, -100]]),
    ],
)
def test_labels_are_those_of_the_next_token(tmp_path: Path, across: bool, labels: Any) -> None:
    path = write_documents(tmp_path, [3, 4, 1])
    packing = sm.Packing("tokens", length=5, next_token=True, across=across)
    (batch,) = loader_of(path, packing, batch_size=2)
    assert batch["labels"].dtype == np.int64
    assert batch["labels"].tolist() == labels
    stored = sm.Packing(["tokens", "labels"], length=5, next_token=True, across=across)
    (batch,) = loader_of(path, stored, batch_size=2)
    signed = [[label if label == -100 else -label for label in row] for row in labels]
    assert batch["labels"].tolist() == signed


def test_masked_labels_stay_masked_and_other_columns_stay_with_their_tokens(tmp_path: Path) -> None:
    columns = {
        "tokens": [[1, 2, 3, 4]],
        "labels": [[-100, -100, 3, 4]],
        "weights": [[0.5, 1.0, 2.0, 3.0]],
    }
    path = write_tables(tmp_path, [pa.table(columns)])
    packing = sm.Packing(list(columns), length=6, next_token=True, pad_value={"labels": -7})
    (batch,) = loader_of(path, packing)
    assert batch["labels"].tolist() == [[-100, 3, 4, -7, -7, -7]]
    assert batch["weights"].tolist() == [[0.5, 1.0, 2.0, 3.0, 0.0, 0.0]]


def test_flags_are_labels_too(tmp_path: Path) -> None:
    columns = {"tokens": [[1, 2, 3], [4, 5]], "labels": [[True, False, True], [True, True]]}
    path = write_tables(tmp_path, [pa.table(columns)])
    for across, expected in [
        (False, [False, True, False, True, False, False]),
        (True, [False, True, True, True, False, False]),
    ]:
        packing = sm.Packing(
            list(columns), length=6, next_token=True, across=across, pad_value={"labels": False}
        )
        (batch,) = loader_of(path, packing)
        assert batch["labels"].tolist() == [expected]


def test_large_unsigned_tokens_have_signed_labels(tmp_path: Path) -> None:
    tokens = pa.array([[1, 65_535, 2]], pa.list_(pa.uint16()))
    path = write_tables(tmp_path, [pa.table({"tokens": tokens})])
    (batch,) = loader_of(path, sm.Packing("tokens", length=4, next_token=True))
    assert batch["tokens"].dtype == np.uint16
    assert batch["labels"].tolist() == [[65_535, 2, -100, -100]]


def test_computed_labels_of_any_name_are_shifted(tmp_path: Path) -> None:
    path = write_tables(tmp_path, [pa.table({"text": ["abc", "de"]})])
    function = sm.TokenFunction(
        lambda batch: {
            "tokens": [list(text.encode()) for text in batch["text"].to_pylist()],
            "targets": [[-5, *text.encode()[1:]] for text in batch["text"].to_pylist()],
        },
        version="1",
    )
    labels = sm.Labels("function", output="targets", ignore_index=-5)
    dataset = sm.Dataset(path, tokenize=sm.Tokenize("text", function=function, labels=labels))
    packing = sm.Packing(["tokens", "targets"], length=6, next_token=True)
    (batch,) = flat_loader(dataset, packing=packing, output="numpy")
    assert batch["targets"].tolist() == [[98, 99, -5, 101, -5, -5]]
    assert "labels" not in batch


def test_rows_longer_than_a_pack_count_as_rounded_up(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [9, 16, 17])
    packing = {"length": 16, "multiple_of": 8, "strategy": "best_fit", "long": "raise"}
    with pytest.raises(sm.FormatError, match="has 17 tokens, but a pack holds 16"):
        list(loader_of(path, packing))
    (batch,) = loader_of(path, {**packing, "long": "truncate", "next_token": True}, batch_size=3)
    assert sorted(batch["document_lengths"].tolist()) == [[9], [16], [16]]
    # The label of the last token of a truncated row is the token that is cut off.
    assert batch["labels"][batch["tokens"] == 216].tolist() == [217]


def test_state_with_other_options_inside_of_packs_is_refused(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [5, 9, 3])
    plain = loader_of(path, {"length": 8})
    assert {"multiple_of", "overlap", "next_token", "across"}.isdisjoint(
        plain.state_dict()["packing"]
    )
    for option in ({"multiple_of": 4}, {"overlap": 1}, {"next_token": True}):
        ((name, value),) = option.items()
        other = loader_of(path, {"length": 8, **option})
        assert other.state_dict()["packing"][name] == value
        with pytest.raises(
            sm.CheckpointMismatchError, match=f"packing {name}=None, .*{name}={value}"
        ):
            other.load_state_dict(plain.state_dict())
        with pytest.raises(
            sm.CheckpointMismatchError, match=f"packing {name}={value}, .*{name}=None"
        ):
            plain.load_state_dict(other.state_dict())


def test_distant_epoch_is_found_from_sums_of_rounded_counts(tmp_path: Path) -> None:
    # 31 tokens in 8 rows are 12 multiples of 4: after 6 packs of 8 a lane is at its start again.
    path = write_documents(tmp_path, [3, 1, 4, 1, 5, 9, 2, 6])
    packing = {"length": 8, "multiple_of": 4, "plan": "ahead", "epoch_packs": 6}
    loader = loader_of(path, packing, batch_size=1)
    first = [packs_in(batch, packing) for batch in loader]
    loader.set_epoch(10**7)
    assert [packs_in(batch, packing) for batch in loader] == first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"multiple_of": 3},
            "length=8 is not a multiple of multiple_of=3\nhint: set length to 6 or 9",
        ),
        (
            {"multiple_of": 16},
            "length=8 is not a multiple of multiple_of=16\nhint: set length to 16",
        ),
        ({"multiple_of": 0}, "multiple_of must be an integer of at least 1, not 0"),
        ({"overlap": 2}, "overlap must be an integer from 0 to 1, not 2"),
        ({"overlap": 1, "strategy": "best_fit"}, "cannot be combined with strategy='best_fit'"),
        ({"overlap": 1, "multiple_of": 2}, "cannot be combined with multiple_of=2"),
        ({"overlap": 1, "next_token": True}, "cannot be combined with next_token=True"),
        ({"overlap": 1, "length": 1}, "cannot be combined with length=1"),
        ({"across": True}, "across requires next_token=True"),
        ({"next_token": 1}, "next_token must be True or False, not 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.Packing("tokens", **{"length": 8, **options})


def test_columns_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    tokens = pa.array([[0.5, 1.5]])
    path = write_tables(tmp_path, [pa.table({"tokens": tokens, "padded_lengths": tokens})])
    with pytest.raises(
        sm.OptionError, match=r"labels of the next token are made of integers\nhint"
    ):
        loader_of(path, {"length": 4, "next_token": True})
    packing = sm.Packing("padded_lengths", length=4, multiple_of=2)
    with pytest.raises(sm.OptionError, match="a batch has `padded_lengths` of its own"):
        loader_of(path, packing)
    assert next(iter(loader_of(path, sm.Packing("padded_lengths", length=4))))
