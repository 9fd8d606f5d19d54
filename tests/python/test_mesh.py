"""``MeshLoader`` on ranks that are joined by gloo: each rank gets the batches that a ``Loader`` of
its data rank gives.
"""

import io
import itertools
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from promptness import HANGS_S

pytest.importorskip("torch")

from mesh_ranks import Ranks
from mesh_scenes import digest, of_all_types, operations, permuted, texts
from shardmill.load._nested import map_tensors

ROWS = 100

#: Shape and names of a mesh of 4 ranks, with the data rank of each.
MESHES: dict[str, tuple[Any, list[int]]] = {
    "4x1": (((4, 1), ("dp", "tp")), [0, 1, 2, 3]),
    "2x2": (((2, 2), ("dp", "tp")), [0, 0, 1, 1]),
    "1x4": (((1, 4), ("dp", "tp")), [0, 0, 0, 0]),
    "tp first": (((2, 2), ("tp", "dp_shard")), [0, 1, 0, 1]),
    "two of data": (((2, 1, 2), ("dp_replicate", "tp", "dp_shard")), [0, 1, 2, 3]),
}
WIDE = (((2, 2, 2), ("batch", "pp", "tp")), [0, 0, 0, 0, 1, 1, 1, 1])
SQUARE = MESHES["2x2"][0]


#: Options of loaders whose batches have all forms.
KINDS: dict[str, dict[str, Any]] = {
    "numbers": {"columns": ["id", "half"], "tail": "uneven"},
    "marks of padding": {"columns": ["id", "half"]},
    "dropped": {"columns": ["id"], "tail": "drop"},
    "one batch": {"columns": ["id"], "batch_size": 1000, "tail": "uneven"},
    "lists": {"columns": ["id", "tokens", "deep"], "shuffle": True},
    "masks": {"columns": ["id", "gaps"], "output": sm.Output(nulls="mask")},
    "padded lists": {"columns": ["id", "tokens"], "output": sm.Output(pad="longest")},
    "structs": {"columns": ["id", "meta"]},
    "concatenated packs": {"packing": sm.Packing("tokens", length=32), "batch_size": 3},
    "fitted packs": {
        "packing": sm.Packing(
            "tokens", length=16, strategy="best_fit", plan="ahead", epoch_packs=24
        ),
        "batch_size": 2,
        "shuffle": True,
    },
    "images": {"columns": ["id", "image"], "tail": "uneven"},
    "views": {"columns": ["id", "image"], "transform": permuted},
    "all types": {"columns": ["id"], "transform": of_all_types},
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two files with columns of all forms."""
    directory = tmp_path_factory.mktemp("rows")
    drawn = random.Random(0)
    for number in range(2):
        ids = range(number * ROWS // 2, (number + 1) * ROWS // 2)
        table = pa.table(
            {
                "id": ids,
                "half": pa.array([one / 2 for one in ids], pa.float32()),
                "text": [f"row {one}" for one in ids],
                "tokens": [[one] * drawn.randint(1, 9) for one in ids],
                "deep": [[[one] * (one % 3)] * (one % 4) for one in ids],
                "gaps": pa.array([None if one % 3 else one for one in ids], pa.int16()),
                "meta": [{"x": one, "y": bool(one % 2)} for one in ids],
            }
        )
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=10)
    return str(directory)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> sm.Dataset:
    """Small images, decoded to uint8."""
    directory = tmp_path_factory.mktemp("images")
    content = []
    for number in range(40):
        file = io.BytesIO()
        Image.new("RGB", (12, 9), (number, 2 * number, 3)).save(file, "PNG")
        content.append(file.getvalue())
    path = directory / "images.parquet"
    pq.write_table(pa.table({"id": range(40), "image": content}), path, row_group_size=8)
    return sm.Dataset(str(path), images=sm.Images("image", size=8))


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    with Ranks(4) as ranks:
        yield ranks


def options_of(kind: str) -> dict[str, Any]:
    return {"batch_size": 8, "runtime": sm.Runtime(threads=1), "seed": 3} | KINDS[kind]


def check_epoch(ranks: Ranks, mesh: Any, data: list[int], kind: str, source: Any) -> None:
    options, size = options_of(kind), max(data) + 1
    found = ranks.run("epoch", mesh, source, options)
    for rank, (one, answer) in enumerate(zip(data, found, strict=True)):
        loader = sm.Loader(source, rank=one, world_size=size, **options)
        assert answer["before"] == loader.state_dict()
        assert answer["length"] == len(loader)
        expected, states = [], []
        for batch in loader:
            expected.append(digest(batch))
            states.append(loader.state_dict())
        assert answer["batches"] == expected
        assert answer["states"] == states
        assert answer["after"] == loader.state_dict()
        assert answer["reads"] == (rank == data.index(one))
        bytes_read, batches, num_rows, epoch = answer["metrics"]
        assert (batches, num_rows, epoch) == (len(expected), loader.metrics().rows, 1)
        assert (bytes_read > 0) == answer["reads"]
    if options.get("tail") == "uneven":
        ids = [answer["ids"] for answer in found if answer["reads"]]
        rows = sm.Loader(source, **options).dataset.num_rows
        assert sorted(itertools.chain(*ids)) == list(range(rows))


@covering(1, kind=list(KINDS), shape=list(MESHES))
def test_ranks_of_a_replica_get_the_batches_of_their_data_rank(
    four: Ranks, rows: str, images: sm.Dataset, kind: str, shape: str
) -> None:
    source = images if "image" in KINDS[kind].get("columns", ()) else rows
    check_epoch(four, *MESHES[shape], kind, source)


@pytest.mark.slow
def test_eight_ranks_get_the_batches_of_their_data_rank(rows: str, images: sm.Dataset) -> None:
    mesh, data = WIDE
    with Ranks(8) as eight:
        for kind in KINDS:
            source = images if "image" in KINDS[kind].get("columns", ()) else rows
            check_epoch(eight, mesh, data, kind, source)


def test_replica_of_four_reads_what_one_rank_reads(four: Ranks, rows: str) -> None:
    options = options_of("lists")
    found = four.run("epoch", MESHES["1x4"][0], rows, options)
    loader = sm.Loader(rows, rank=0, world_size=1, **options)
    assert len(list(loader)) == len(loader)
    read = sum(answer["metrics"][0] for answer in found)
    assert read <= 1.02 * loader.metrics().bytes_read


def test_each_rank_reads_for_itself_with_share_read(four: Ranks, rows: str) -> None:
    options = options_of("numbers") | {"columns": ["id", "text"], "output": "dict"}
    found = four.run("epoch", SQUARE, rows, options, share="read")
    for data, answer in zip([0, 0, 1, 1], found, strict=True):
        loader = sm.Loader(rows, rank=data, world_size=2, **options)
        assert answer["batches"] == [digest(batch) for batch in loader]
        assert answer["reads"] and answer["metrics"][0] > 0


def test_replica_may_be_named_by_a_process_group(four: Ranks, rows: str) -> None:
    options = options_of("lists")
    found = four.run("by_group", [[0, 3], [1, 2]], [(1, 2), (0, 2)], rows, options)
    for data, answer in zip([1, 0, 0, 1], found, strict=True):
        loader = sm.Loader(rows, rank=data, world_size=2, **options)
        assert answer == [digest(batch) for batch in loader]


def test_model_may_reduce_between_batches_while_the_reader_is_late(four: Ranks, rows: str) -> None:
    options = options_of("numbers")
    for seed in range(examples(10, 1)):
        found = four.run("beside_a_model", SQUARE, rows, options, seed)
        for data, sums in zip([0, 0, 1, 1], found, strict=True):
            loader = sm.Loader(rows, rank=data, world_size=2, **options)
            assert sums == [2 * int(batch["id"].sum()) for batch in loader]


CALLS = st.one_of(
    st.tuples(st.just("take"), st.sampled_from([None, 1, 2, 4])),
    st.tuples(
        st.just("steps"), st.tuples(st.sampled_from([0, 1, 2, 9]), st.sampled_from([None, 1, 2]))
    ),
    st.tuples(st.just("set_epoch"), st.integers(0, 2)),
    st.tuples(st.just("skip"), st.integers(0, 9)),
    st.tuples(st.just("load"), st.integers(0, 9)),
)


@settings(max_examples=examples(60, 6), deadline=None)
@given(
    calls=st.lists(CALLS, max_size=6),
    shape=st.sampled_from(["2x2", "1x4"]),
    kind=st.sampled_from(["numbers", "lists", "fitted packs"]),
)
def test_calls_in_any_sequence_do_what_they_do_on_a_loader(
    four: Ranks, rows: str, calls: list[Any], shape: str, kind: str
) -> None:
    options, (mesh, data) = options_of(kind), MESHES[shape]
    found = four.run("operations", mesh, rows, options, calls)
    for rank, answer in zip(data, found, strict=True):
        assert answer == operations((rank, max(data) + 1), rows, options, calls)


def resumed_on(
    ranks: Ranks, shape: str, rows: str, state: Any, steps: int | None
) -> tuple[list[int], Any]:
    """The ids that all replicas of a mesh get from a state, and the state after some steps."""
    mesh, data = MESHES[shape]
    size = max(data) + 1
    options = options_of("numbers") | {"shuffle": True, "lanes": 4, "batch_size": 8 // size}
    found = ranks.run("part", mesh, rows, options, state, steps)
    ids: list[int] = []
    for rank, (batches, after) in zip(data, found, strict=True):
        loader = sm.Loader(rows, rank=rank, world_size=size, **options)
        if state is not None:
            loader.load_state_dict(state)
        assert batches == [batch["id"].tolist() for batch in itertools.islice(loader, len(batches))]
        assert steps is None or len(batches) == steps
        assert after == found[0][1]
    for rank in range(size):
        ids += itertools.chain(*found[data.index(rank)][0])
    return ids, found[0][1]


@covering(1, first=["4x1", "2x2", "1x4"], second=["2x2", "1x4", "tp first"])
def test_state_continues_on_another_mesh(four: Ranks, rows: str, first: str, second: str) -> None:
    before, state = resumed_on(four, first, rows, None, 3)
    after, _ = resumed_on(four, second, rows, state, None)
    assert sorted(before + after) == list(range(ROWS))


def test_job_that_is_killed_continues_on_another_mesh(
    four: Ranks, rows: str, tmp_path: Path
) -> None:
    options = options_of("numbers") | {"shuffle": True, "lanes": 4, "batch_size": 4}
    places = [tmp_path / str(rank) for rank in range(4)]
    with Ranks(4) as killed:
        killed.start("recorded", SQUARE, rows, options, str(tmp_path), most=11)
        end = time.monotonic() + HANGS_S
        while any(len(record_of(place)) < 3 for place in places):
            assert time.monotonic() < end, "nothing happens"
            time.sleep(0.002)
    records = [record_of(place) for place in places]
    for data, record in zip([0, 0, 1, 1], records, strict=True):
        loader = sm.Loader(rows, rank=data, world_size=2, **options)
        for (ids, state), batch in zip(record, loader, strict=False):
            assert ids == batch["id"].tolist()
            assert state == loader.state_dict()
    # Ranks die at different steps; the last one at which all have written is that of a checkpoint.
    steps = min(map(len, records))
    before = [id for record in (records[0], records[2]) for ids, _ in record[:steps] for id in ids]
    after, _ = resumed_on(four, "1x4", rows, records[3][steps - 1][1], None)
    assert sorted(before + after) == list(range(ROWS))


def record_of(place: Path) -> list[Any]:
    """The lines that a rank has written, without one that it was writing."""
    text = place.read_text() if place.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_error_of_the_reader_is_raised_on_its_replica(
    four: Ranks, rows: str, tmp_path: Path
) -> None:
    for number in range(2):
        content = bytearray((Path(rows) / f"{number}.parquet").read_bytes())
        if number == 1:
            # In the third row group, which data rank 1 reads.
            start = pq.ParquetFile(Path(rows) / "1.parquet").metadata.row_group(2).column(0)
            first = start.dictionary_page_offset or start.data_page_offset
            content[first : first + 40] = bytes(40)
        (tmp_path / f"{number}.parquet").write_bytes(content)
    options: dict[str, Any] = options_of("numbers") | {"batch_size": 10}
    found = four.run("failing_pass", SQUARE, str(tmp_path), options)
    assert found[0] == found[1]
    assert [batches for batches, *_ in found[0]] == [5, 5]
    loader = sm.Loader(str(tmp_path), rank=1, world_size=2, **options)
    taken: list[Any] = []
    with pytest.raises(sm.errors.FormatError) as raised:
        taken += loader
    for reader, other in zip(found[2], found[3], strict=True):
        assert reader[0] == other[0] == len(taken)
        assert reader[1] == f"FormatError: {raised.value}"
        assert other[1] == f"{reader[1]}\nraised on rank 2, which reads"
        assert reader[2] == other[2] == 2 * 10 * len(taken)


def test_text_of_a_transform_is_an_error_at_its_batch(four: Ranks, rows: str) -> None:
    options = options_of("numbers") | {"transform": texts, "batch_size": 16}
    found = four.run("failing_pass", MESHES["1x4"][0], rows, options)
    for rank, answer in enumerate(found):
        for batches, error, consumed in answer:
            assert batches == 2
            assert consumed == 32
            assert error.startswith("OptionError: column 'name' has a str, and other ranks")
            assert ("raised on rank 0" in error) == (rank > 0)


@pytest.mark.parametrize(
    ("case", "last", "note"),
    [
        ("new pass", "rank 3 is at step 0 of pass 2", ""),
        ("other method", "rank 3 is at set_epoch() before step 3 of pass 1", ""),
        ("other argument", "rank 3 is at skip() before step 3 of pass 1", "other arguments"),
    ],
)
def test_calls_in_another_order_are_an_error_on_all_ranks_of_the_replica(
    four: Ranks, rows: str, case: str, last: str, note: str
) -> None:
    found = four.run("other_order", SQUARE, rows, options_of("numbers"), case)
    assert [error for answer in found[:2] for error in answer] == ["nothing"] * 4
    assert len({error for answer in found[2:] for error in answer}) == 1
    error = found[2][0]
    assert error.startswith("EngineError: the ranks of a replica call in another order: rank 2 is")
    assert last in error and note in error
    assert "step 3 of pass 1" in error.partition(", rank 3")[0]


@pytest.mark.slow
def test_rank_that_does_not_call_is_an_error_on_the_others(four: Ranks, rows: str) -> None:
    mesh, _ = MESHES["1x4"]
    *others, absent = four.run("absent", mesh, rows, options_of("numbers"), timeout=5)
    assert absent == ""
    for error in others:
        assert error.startswith(
            "EngineError: the ranks 0, 1, 2, 3 of a replica did not meet at step 0 of pass 1: "
        )
        assert "a timeout of more than 5 seconds" in error


def test_rank_that_closes_its_loader_is_an_error_on_the_others(four: Ranks, rows: str) -> None:
    *others, closed = four.run("closed_by_one", MESHES["1x4"][0], rows, options_of("numbers"))
    assert closed == ""
    for error in others:
        assert error.startswith("EngineError: the ranks 0, 1, 2, 3 of a replica did not meet at")


@pytest.mark.parametrize("kind", ["lists", "concatenated packs"])
def test_ranks_in_the_middle_of_a_pipeline_get_the_columns_that_are_named(
    four: Ranks, rows: str, kind: str
) -> None:
    options = options_of(kind)
    kept = "deep" if kind == "lists" else "document_lengths"
    mesh = ((1, 4), ("dp", "pp"))
    found = four.run("epoch", mesh, rows, options, columns={"pp": [kept]})
    batches = list(sm.Loader(rows, rank=0, world_size=1, **options))
    expected = [digest(batch) for batch in batches]
    assert found[0]["batches"] == found[3]["batches"] == expected
    for batch in batches:
        batch.update(
            (name, map_tensors(column, lambda tensor: tensor.to("meta")))
            for name, column in batch.items()
            if name != kept
        )
    assert found[1]["batches"] == found[2]["batches"] == [digest(batch) for batch in batches]
    found = four.run("epoch", ((2, 2), ("dp", "pp")), rows, options, columns={"pp": [kept]})
    loader = sm.Loader(rows, rank=1, world_size=2, **options)
    assert found[3]["batches"] == [digest(batch) for batch in loader]


def test_columns_of_a_batch_may_be_written_to_one_by_one(four: Ranks, rows: str) -> None:
    assert four.run("written_to", SQUARE, rows, options_of("numbers")) == [[1, 0]] * 4


REFUSED = {
    "names without one of data": (((4,), ("tp",)), {}, "no dimension of data: the mesh has tp=4"),
    "two readings": (
        ((2, 2), ("dp", "batch")),
        {},
        "data may be divided over dp and batch: the mesh has dp=2, batch=2",
    ),
    "no names": (((2, 2), None), {}, "no dimension of data: the mesh has 2 dimensions without"),
    "unknown dimension": (SQUARE, {"data": "pp"}, "data names the dimension 'pp', but the mesh"),
    "columns of a data dimension": (SQUARE, {"columns": {"dp": ["id"]}}, "the dimension 'dp'"),
    "columns of two dimensions": (SQUARE, {"columns": {"tp": [], "dp": []}}, "map one dimension"),
    "columns that are missing": (
        ((1, 4), ("dp", "tp")),
        {"columns": {"tp": ["id", "x"]}},
        "columns names 'x', and batches have id",
    ),
    "columns of each reader": (SQUARE, {"columns": {"tp": ["id"]}, "share": "read"}, "columns app"),
    "share": (SQUARE, {"share": "none"}, "share must be one of"),
    "timeout": (SQUARE, {"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
    "two descriptions": (SQUARE, {"data_parallel": (0, 2)}, "mesh and data_parallel are"),
    "strings": (SQUARE, {"with": {"columns": ["text"]}}, "column 'text' has a StringArray"),
    "objects in a struct": (SQUARE, {"with": {"columns": ["named"]}}, "column 'named' has a Str"),
    "arrays": (SQUARE, {"with": {"output": "numpy"}}, "receive only tensors, not output='numpy'"),
    "rank of another": (
        SQUARE,
        {"with": {"rank": 3, "world_size": 4}},
        "the loader has rank=3 and world_size=4, but this process is data rank",
    ),
    "loader that fails": (SQUARE, {"with": {"columns": ["x"]}}, "x"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_loader_is_refused_when_it_is_made(four: Ranks, tmp_path: Path, case: str) -> None:
    named = pa.table({"id": range(9), "text": ["a"] * 9, "named": [{"x": "a"}] * 9})
    pq.write_table(named, tmp_path / "named.parquet")
    mesh, given, message = REFUSED[case]
    options = {"columns": ["id"], **given.get("with", {})}
    of_mesh = {name: value for name, value in given.items() if name != "with"}
    for error in four.run("refused", *mesh, str(tmp_path), options, of_mesh):
        assert message in error
        assert error.startswith(("OptionError", "MissingColumnError"))


def test_loader_that_has_begun_is_refused(four: Ranks, rows: str) -> None:
    for error in four.run("begun", SQUARE, rows, options_of("numbers")):
        assert error.startswith("OptionError: the loader has begun")


def test_closed_loader_and_older_iterators_are_refused(four: Ranks, rows: str) -> None:
    for older, closed in four.run("superseded", SQUARE, rows, options_of("numbers")):
        assert older.startswith("SupersededError: this iterator was superseded")
        assert closed.startswith("ClosedError: this MeshLoader is closed")
