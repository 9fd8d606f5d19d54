"""Mixtures against a model of the documents in plain Python.

Any ranks, any stop, any thread count, the same rows.
"""

import json
import math
import pickle
from collections import Counter
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from flat_options import flat_loader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_mixture import mixture as reference
from reference_order import steps
from row_files import ids, write_files

SETTINGS = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
#: Windows of one block each, and one window for all.
WINDOWS = {"blocks": 0, "all": 2**60}


def write_source(below: Path, number: int, blocks: list[int]) -> Path:
    """One file of blocks of these sizes; ids tell the source and the row."""
    path, start = below / f"source{number}-{'-'.join(map(str, blocks))}.parquet", number * 1_000_000
    with pq.ParquetWriter(path, pa.schema([("id", pa.int64())])) as writer:
        for rows in blocks:
            writer.write_table(pa.table({"id": pa.array(range(start, start + rows), pa.int64())}))
            start += rows
    return path


@st.composite
def mixtures(draw):
    sources = draw(
        st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=4), min_size=1, max_size=3)
    )
    counts = [draw(st.integers(1, 150)) for _ in sources]
    return sources, counts


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("mixtures")


def opened(directory, sources, counts, **options):
    paths = {
        f"s{number}": write_source(directory, number, blocks)
        for number, blocks in enumerate(sources)
    }
    return sm.Mixture(paths, choose=counts, **options)


def loaders(mixture, world_size, **options):
    return [
        flat_loader(mixture, rank=rank, world_size=world_size, output="numpy", **options)
        for rank in range(world_size)
    ]


def global_batches(mixture, world_size, **options):
    """The batches of an epoch, those of all ranks put together."""
    each = [ids(loader) for loader in loaders(mixture, world_size, **options)]
    longest = max(map(len, each), default=0)
    return [
        [id for rank in each if step < len(rank) for id in rank[step]] for step in range(longest)
    ]


def rows_of(sources, counts, **options):
    return [source * 1_000_000 + row for source, row in reference(sources, counts, **options)]


@SETTINGS
@given(
    mixtures(),
    st.integers(-3, 3),
    st.integers(1, 5),
    st.sampled_from([None, "blocks", "all"]),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.integers(1, 12),
    st.data(),
)
def test_batches_of_every_rank_are_those_of_the_model(
    directory, blend, seed, lanes, shuffle, world_size, batch_size, data
):
    sources, counts = blend
    mixture = opened(directory, sources, counts)
    tail = data.draw(st.sampled_from(["uneven", "drop", "pad"]))
    options = {
        "shuffle": shuffle is not None,
        "shuffle_window_bytes": WINDOWS.get(shuffle, 0),
        "seed": seed,
        "lanes": lanes,
        "tail": tail,
    }
    each = loaders(
        mixture,
        world_size,
        batch_size=batch_size,
        threads=data.draw(st.sampled_from([0, 2])),
        **options,
    )
    for epoch in range(3):
        rows = rows_of(sources, counts, seed=seed, epoch=epoch, lanes=lanes, shuffle=shuffle)
        expected = list(
            steps(len(rows), lanes=lanes, batch_size=batch_size, world_size=world_size, tail=tail)
        )
        for rank, loader in enumerate(each):
            wanted = [[rows[place] for place in step[rank].positions] for step in expected]
            assert ids(loader) == [batch for batch in wanted if batch]


@SETTINGS
@given(
    mixtures(),
    st.sampled_from([(1, 24), (2, 12), (3, 8), (4, 6), (8, 3)]),
    st.sampled_from([(1, 24), (2, 12), (4, 6), (8, 3)]),
    st.integers(1, 6),
    st.booleans(),
    st.data(),
)
def test_stop_at_any_step_goes_on_with_the_same_batches_on_other_ranks(
    directory, blend, before, after, lanes, shuffle, data
):
    sources, counts = blend
    mixture = opened(directory, sources, counts)
    epoch = data.draw(st.integers(0, 2))
    options = {"shuffle": shuffle, "seed": 5, "tail": "uneven"}
    whole = loaders(mixture, 1, batch_size=24, lanes=lanes, **options)[0]
    whole.set_epoch(epoch)
    expected = [sorted(batch) for batch in ids(whole)]
    stop = data.draw(st.integers(0, len(expected)))
    states = []
    for loader in loaders(mixture, before[0], batch_size=before[1], lanes=lanes, **options):
        loader.set_epoch(epoch)
        batches = iter(loader)
        for _ in range(stop):
            next(batches, None)
        states.append(loader.state_dict())
    if stop < len(expected):
        assert all(state == states[0] for state in states)
    state = json.loads(json.dumps(states[0]))
    assert len(json.dumps(state)) < 4096
    resumed = []
    threads = data.draw(st.sampled_from([0, 1, 3]))
    for loader in loaders(mixture, after[0], batch_size=after[1], threads=threads, **options):
        loader.load_state_dict(state)
        resumed.append([] if loader.epoch > epoch else ids(loader))
    steps_left = max(map(len, resumed))
    merged = [
        sorted(id for rank in resumed if step < len(rank) for id in rank[step])
        for step in range(steps_left)
    ]
    assert merged == expected[stop:]


@SETTINGS
@given(mixtures(), st.integers(2, 5), st.integers(1, 40), st.booleans(), st.data())
def test_filter_shuffle_and_mixture_resume_together_with_another_batch_size(
    directory, blend, keep, batch_size, shuffle, data
):
    sources, counts = blend
    kept = [[row for row in range(sum(blocks)) if row % keep == 0] for blocks in sources]
    filtered = {}
    for number, blocks in enumerate(sources):
        allowed = [number * 1_000_000 + row for row in kept[number]]
        filtered[f"s{number}"] = sm.Dataset(
            write_source(directory, number, blocks), filter=sm.col("id").is_in(allowed)
        )
    mixture = sm.Mixture(filtered, choose=counts)

    def loader(batch_size):
        return sm.Loader(
            mixture,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=1,
            lanes=3,
            rank=0,
            world_size=1,
            output="numpy",
        )

    lanes = list(range(sum(counts)))
    one = loader(1)
    sequence = [id for _ in range(3) for batch in ids(one) for id in batch]
    for number, rows in enumerate(kept):
        times = Counter(id for id in sequence if id // 1_000_000 == number)
        assert sum(times.values()) == 3 * counts[number]
        assert set(times) <= {number * 1_000_000 + row for row in rows}
        seen = [times.get(number * 1_000_000 + row, 0) for row in rows]
        assert max(seen) - min(seen) <= 1
    epoch, place = data.draw(st.integers(0, 2)), data.draw(st.sampled_from(lanes))
    first = loader(1)
    first.set_epoch(epoch)
    batches = iter(first)
    for _ in range(place):
        next(batches)
    second = loader(batch_size)
    second.load_state_dict(first.state_dict())
    rest = ids(second)
    start = epoch * sum(counts) + place
    assert Counter(id for batch in rest for id in batch) == Counter(
        sequence[start : (epoch + 1) * sum(counts)]
    )


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
def test_every_row_comes_once_with_repeat_one(tmp_path, world_size):
    mixture = sm.Mixture(
        [write_files(tmp_path, [70, 30], row_group=20), write_source(tmp_path, 1, [90, 11])]
    )
    assert mixture.counts() == {"0": 100, "1": 101}
    batches = global_batches(
        mixture, world_size, batch_size=24 // world_size, shuffle=True, tail="uneven", lanes=4
    )
    assert sorted(id for batch in batches for id in batch) == [
        *range(100),
        *range(1_000_000, 1_000_101),
    ]
    assert batches == global_batches(
        mixture, 1, batch_size=24, shuffle=True, tail="uneven", lanes=4
    )


def test_fractional_repeat_takes_its_part_of_a_pass_and_goes_on_with_the_rest(tmp_path):
    mixture = sm.Mixture(
        {"a": write_source(tmp_path, 0, [100]), "b": write_source(tmp_path, 1, [10])},
        repeat={"a": 0.5, "b": 2.55},
    )
    assert mixture.counts() == {"a": 50, "b": 26}
    loader = sm.Loader(mixture, batch_size=10, shuffle=True, output="numpy")
    rows = [id for _ in range(2) for batch in ids(loader) for id in batch if id < 1_000_000]
    assert sorted(rows) == list(range(100))


def test_every_window_has_the_weights_within_a_row(tmp_path):
    weights = {"a": 0.61, "b": 0.3, "c": 0.09}
    paths = {
        name: write_source(tmp_path, number, [500, 500]) for number, name in enumerate(weights)
    }
    mixture = sm.Mixture(paths, weights=weights, epoch_rows=20_000, source_column="source")
    loader = sm.Loader(mixture, batch_size=1024, output="numpy", shuffle=True, lanes=1)
    sources = [int(source) for batch in loader for source in batch["source"]]
    assert mixture.counts() == {"a": 12_200, "b": 6_000, "c": 1_800}
    for start in range(0, 20_000, 1024):
        window = sources[start : start + 1024]
        for number, weight in enumerate(weights.values()):
            assert abs(window.count(number) - weight * len(window)) <= 1


def test_weights_change_at_their_row_of_the_run(tmp_path):
    paths = {"a": write_source(tmp_path, 0, [300]), "b": write_source(tmp_path, 1, [200])}
    schedule = [(0, {"a": 1, "b": 0}), (1500, {"a": 1, "b": 1}), (3000, {"a": 0, "b": 1})]
    mixture = sm.Mixture(paths, weights=schedule, epoch_rows=1000)
    assert [mixture.counts(epoch) for epoch in range(4)] == [
        {"a": 1000, "b": 0},
        {"a": 750, "b": 250},
        {"a": 500, "b": 500},
        {"a": 0, "b": 1000},
    ]
    loader = sm.Loader(mixture, batch_size=50, output="numpy", shuffle=True, lanes=1)
    run = [[id // 1_000_000 for id in batch] for _ in range(4) for batch in ids(loader)]
    assert [sum(batch) for batch in run[:20]] == [0] * 20
    assert sum(sum(batch) for batch in run[20:40]) == 250
    assert all(sum(batch) == 50 for batch in run[60:])
    parts = sm.Loader(mixture, batch_size=1, output="numpy", shuffle=True, lanes=4)
    assert sum(id // 1_000_000 for _ in range(4) for batch in ids(parts) for id in batch) == 1750


def test_interpolated_weights_move_evenly(tmp_path):
    paths = {"a": write_source(tmp_path, 0, [300]), "b": write_source(tmp_path, 1, [200])}
    mixture = sm.Mixture(
        paths, weights=[(0, [1, 0]), (40_000, [0, 1])], epoch_rows=20_000, interpolate="linear"
    )
    counts = [mixture.counts(epoch)["b"] for epoch in range(4)]
    assert counts == [5_000, 15_000, 20_000, 20_000]
    loader = sm.Loader(mixture, batch_size=1024, output="numpy", lanes=1)
    found = [sum(id >= 1_000_000 for id in batch) for batch in ids(loader)]
    for window, count in enumerate(found[:-1]):
        assert math.isclose(count, 1024 * (window + 0.5) * 1024 / 40_000, abs_tol=1.1)


def test_state_of_a_changing_mixture_resumes_in_its_epoch(tmp_path):
    paths = {"a": write_source(tmp_path, 0, [300]), "b": write_source(tmp_path, 1, [200])}
    mixture = sm.Mixture(paths, weights=[(0, [1, 0]), (1500, [1, 3])], epoch_rows=1000)

    def loader(**options):
        return flat_loader(mixture, output="numpy", shuffle=True, rank=0, world_size=1, **options)

    whole = loader(batch_size=50, lanes=4)
    expected = [batch for _ in range(3) for batch in ids(whole)]
    stopped = loader(batch_size=50, lanes=4)
    list(stopped)
    batches = iter(stopped)
    for _ in range(7):
        next(batches)
    resumed = loader(batch_size=50)
    resumed.load_state_dict(stopped.state_dict())
    assert [batch for _ in range(2) for batch in ids(resumed)] == expected[27:]


def test_formats_and_schemas_of_sources_may_differ(tmp_path):
    numbers = pa.table(
        {"id": pa.array(range(20), pa.int64()), "only": [f"row {row}" for row in range(20)]}
    )
    pq.write_table(numbers, tmp_path / "a.parquet")
    pa.orc.write_table(pa.table({"id": pa.array(range(100, 130), pa.int32())}), tmp_path / "b.orc")
    pa.csv.write_csv(pa.table({"id": range(200, 210)}), tmp_path / "c.csv")
    (tmp_path / "d.jsonl").write_text("".join(f'{{"id": {row}}}\n' for row in range(300, 325)))
    mixture = sm.Mixture(
        {
            name: tmp_path / f"{name}.{end}"
            for name, end in zip("abcd", ["parquet", "orc", "csv", "jsonl"], strict=True)
        }
    )
    assert mixture.schema == pa.schema([("id", pa.int64()), ("only", pa.string())])
    loader = sm.Loader(mixture, batch_size=10, output="arrow", shuffle=True)
    rows = [row for batch in loader for row in batch.to_pylist()]
    expected = [*range(20), *range(100, 130), *range(200, 210), *range(300, 325)]
    assert sorted(row["id"] for row in rows) == expected
    assert all(row["only"] == (f"row {row['id']}" if row["id"] < 20 else None) for row in rows)


def test_columns_of_a_data_set_stay_those_it_was_opened_with(tmp_path):
    directory = write_files(tmp_path, [10])
    mixture = sm.Mixture(
        {"a": sm.Dataset(directory, columns=["id"]), "b": sm.Dataset(directory, columns=["text"])},
        source_column="which",
    )
    assert mixture.columns == ["id", "text", "which"]
    rows = [
        row
        for batch in sm.Loader(mixture, batch_size=4, output="arrow")
        for row in batch.to_pylist()
    ]
    assert all(
        (row["text"] is None) == (row["which"] == 0) and (row["id"] is None) == (row["which"] == 1)
        for row in rows
    )


def test_schemas_that_contradict_each_other_are_refused_by_the_names_of_the_sources(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["text"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"Column `x` is int64 in `numbers` and string in `texts`"):
        sm.Mixture({"numbers": tmp_path / "a.parquet", "texts": tmp_path / "b.parquet"})


def test_mixtures_within_mixtures_multiply_their_weights(tmp_path):
    a, b, c = (write_source(tmp_path, number, [100]) for number in range(3))
    inner = sm.Mixture({"a": a, "b": b}, weights=[1, 3])
    mixture = sm.Mixture(
        {"inner": inner, "c": c}, weights={"inner": 0.8, "c": 0.2}, epoch_rows=1000
    )
    assert mixture.counts() == {"inner/a": 200, "inner/b": 600, "c": 200}
    assert sm.Mixture([inner, c], choose=[40, 7]).counts() == {"0/a": 10, "0/b": 30, "1": 7}
    changing = sm.Mixture({"a": a, "b": b}, weights=[(0, [1, 0]), (500, [0, 1])])
    outer = sm.Mixture({"inner": changing, "c": c}, weights=[1, 1], epoch_rows=1000)
    assert outer.counts() == {"inner/a": 250, "inner/b": 250, "c": 500}


def test_source_column_is_the_number_of_the_source(tmp_path):
    paths = {"a": write_source(tmp_path, 0, [30]), "b": write_source(tmp_path, 1, [30])}
    mixture = sm.Mixture(paths, source_column="source")
    for batch in sm.Loader(mixture, batch_size=7, output="numpy", shuffle=True):
        assert (batch["id"] // 1_000_000 == batch["source"]).all()
    with pytest.raises(ValueError, match="A column is called `id`"):
        sm.Mixture(paths, source_column="id")


def test_explain_tells_the_rows_of_each_source(tmp_path):
    paths = {"a": write_source(tmp_path, 0, [30]), "b": write_source(tmp_path, 1, [30])}
    loader = sm.Loader(
        sm.Mixture(paths, choose=[30, 10]), batch_size=8, output="numpy", shuffle=True
    )
    plan = loader.explain(step=2)
    batch = ids(loader)[2]
    assert plan["sources_of_epoch"] == {"a": 30, "b": 10}
    assert plan["sources"] == {
        "a": sum(id < 1_000_000 for id in batch),
        "b": sum(id >= 1_000_000 for id in batch),
    }
    assert [start + row for file, start, count in plan["rows"] for row in range(count)] == [
        id % 1_000_000 for id in batch
    ]
    assert plan["rows"][0][0].startswith(("a/", "b/"))


def test_pickled_loader_goes_on(tmp_path):
    mixture = sm.Mixture(
        [write_source(tmp_path, 0, [30]), write_source(tmp_path, 1, [30])], weights=[3, 1]
    )
    loader = sm.Loader(mixture, batch_size=8, output="numpy", shuffle=True)
    assert ids(pickle.loads(pickle.dumps(loader))) == ids(loader)


def test_pickled_mixture_has_the_weights_of_the_call(tmp_path):
    weights = {"s0": 3, "s1": 1}
    paths = {name: write_source(tmp_path, at, [40]) for at, name in enumerate(weights)}
    mixture = sm.Mixture(paths, weights=MappingProxyType(weights))
    weights["s0"] = 1
    assert pickle.loads(pickle.dumps(mixture)).counts() == mixture.counts() == {"s0": 60, "s1": 20}


def changed(tmp_path, name):
    a, b = write_source(tmp_path, 0, [50]), write_source(tmp_path, 1, [50])
    paths: dict[str, object] = {"a": a, "b": b}
    options: dict[str, object] = {"weights": {"a": 3, "b": 1}}
    if name == "weights":
        options = {"weights": {"a": 2, "b": 1}}
    elif name == "sources":
        paths, options = {"a": a, "c": b}, {"weights": {"a": 3, "c": 1}}
    elif name == "mode":
        options = {"choose": [75, 25]}
    elif name == "epoch_rows":
        options |= {"epoch_rows": 99}
    elif name == "rows":
        paths["b"] = write_source(tmp_path, 1, [49])
    elif name == "fingerprints":
        paths["b"] = write_source(tmp_path, 1, [25, 25])
    elif name == "filters":
        paths["b"] = sm.Dataset(b, filter=sm.col("id") >= 0)
    return sm.Mixture(paths, **options)


@pytest.mark.parametrize(
    "name", ["weights", "sources", "mode", "epoch_rows", "rows", "fingerprints", "filters"]
)
def test_state_of_another_mixture_is_refused_by_name(tmp_path, name):
    def loader(mixture):
        return sm.Loader(mixture, batch_size=8, output="numpy")

    saved = loader(changed(tmp_path, "")).state_dict()
    with pytest.raises(
        sm.CheckpointMismatchError, match=rf"{'epoch_rows' if name == 'rows' else name}="
    ):
        loader(changed(tmp_path, name)).load_state_dict(saved)
    loader(changed(tmp_path, "")).load_state_dict(saved)


def test_state_of_a_mixture_and_of_a_data_set_are_not_mistaken(tmp_path):
    path = write_source(tmp_path, 0, [50])
    one, mixed = sm.Loader(path, output="numpy"), sm.Loader(sm.Mixture([path]), output="numpy")
    with pytest.raises(
        sm.CheckpointMismatchError, match="saved with one data set, this loader has a mixture"
    ):
        mixed.load_state_dict(one.state_dict())
    with pytest.raises(
        sm.CheckpointMismatchError, match="saved with a mixture, this loader has one data set"
    ):
        one.load_state_dict(mixed.state_dict())


def test_counters_that_do_not_fit_the_position_are_refused(tmp_path):
    loader = sm.Loader(
        sm.Mixture([write_source(tmp_path, 0, [50]), write_source(tmp_path, 1, [50])]),
        batch_size=8,
        output="numpy",
    )
    next(iter(loader))
    state = loader.state_dict()
    assert sum(state["mixture"]["consumed"]) == 8
    state["mixture"]["consumed"] = [8, 0] if state["mixture"]["consumed"] != [8, 0] else [0, 8]
    with pytest.raises(sm.CheckpointMismatchError, match="rows of each source"):
        loader.load_state_dict(state)


def test_state_of_many_sources_stays_small(tmp_path):
    path = write_source(tmp_path, 0, [50])
    mixture = sm.Mixture(
        {f"a source with a long name, number {number}": path for number in range(300)}
    )
    loader = sm.Loader(mixture, batch_size=64, output="numpy", shuffle=True)
    batches = iter(loader)
    for _ in range(20):
        next(batches)
    state = loader.state_dict()
    assert len(json.dumps(state)) < 4096
    loader.load_state_dict(state)
    assert len(ids(loader)) == math.ceil(300 * 50 / 64) - 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1, 1], "repeat": 1}, "weights and repeat are mutually exclusive"),
        ({"epoch_rows": 5}, "epoch_rows requires weights"),
        ({"repeat": 1, "interpolate": "linear"}, "interpolate requires weights"),
        ({"weights": [1, 1], "interpolate": "linear"}, "interpolate requires weights that change"),
        ({"weights": [1, 1], "interpolate": "cubic"}, "interpolate must be None or 'linear'"),
        ({"weights": [1, -1]}, r"weights\['b'\] must be a number of at least 0, not -1"),
        ({"weights": [1, float("nan")]}, r"weights\['b'\] must be a number"),
        ({"weights": [1, float("inf")]}, r"weights\['b'\] must be a number"),
        ({"weights": [0, 0]}, "the weights are all 0"),
        ({"weights": [(0, [1, 1]), (9, [0, 0])]}, "the weights from row 9 on are all 0"),
        ({"weights": [1]}, "weights has 1 numbers for 2 sources"),
        ({"weights": {"a": 1}}, "weights has no value for 'b'"),
        ({"weights": {"a": 1, "b": 1, "x": 1}}, "weights names 'x', which is not a source"),
        ({"weights": 3}, "weights must be a number for each source"),
        ({"weights": [(5, [1, 1])]}, "the rows of weights must start at 0 and ascend"),
        ({"weights": [(0, [1, 1]), (0, [1, 2])]}, "the rows of weights must start at 0 and ascend"),
        ({"weights": [1, 1], "epoch_rows": -1}, "epoch_rows must be an integer"),
        ({"weights": [1, 1e-9]}, "source 'b' has a weight of 1e-09, which gives it none of the 60"),
        ({"repeat": {"a": 1, "b": "x"}}, r"repeat\['b'\] must be a number"),
        ({"repeat": 2**70}, "an epoch has at most 2.62 rows"),
        ({"choose": [1, 1.5]}, r"choose\['b'\] must be an integer"),
        ({"choose": [True, 1]}, r"choose\['a'\] must be an integer"),
    ],
)
def test_invalid_numbers_are_refused(tmp_path, options, message):
    paths = {"a": write_source(tmp_path, 0, [30]), "b": write_source(tmp_path, 1, [30])}
    with pytest.raises(ValueError, match=message):
        sm.Mixture(paths, **options)


def test_source_without_rows_is_refused_unless_it_has_no_weight(tmp_path):
    full, empty = (
        write_source(tmp_path, 0, [30]),
        sm.Dataset(write_source(tmp_path, 1, [30]), filter=sm.col("id") < 0),
    )
    with pytest.raises(ValueError, match="source 'b' has no rows"):
        sm.Mixture({"a": full, "b": empty}, weights=[1, 1])
    with pytest.raises(ValueError, match="source 'b' has no rows"):
        sm.Mixture({"a": full, "b": empty}, choose=[1, 1])
    mixture = sm.Mixture({"a": full, "b": empty}, weights=[1, 0])
    assert sorted(
        id for batch in sm.Loader(mixture, batch_size=8, output="numpy") for id in batch["id"]
    ) == list(range(30))


@pytest.mark.parametrize("sources", [{}, [], "path", {"a/b": "x"}, {"": "x"}, {1: "x"}])
def test_sources_that_are_none_are_refused(sources):
    with pytest.raises(ValueError, match="source"):
        sm.Mixture(sources)


def test_options_of_files_belong_to_the_data_sets(tmp_path):
    with pytest.raises(ValueError, match="must be set on the sources of the Mixture"):
        sm.Loader(sm.Mixture([write_source(tmp_path, 0, [3])]), filter=sm.col("id") > 1)


def test_dataloader_around_a_mixture_delivers_every_row(tmp_path):
    pytest.importorskip("torch")
    from shardmill.integrations.torch import BatchDataset
    from torch.utils.data import DataLoader

    mixture = sm.Mixture([write_source(tmp_path, 0, [60]), write_source(tmp_path, 1, [41])])
    plain = ids(sm.Loader(mixture, batch_size=8, shuffle=True))
    for workers in (0, 2):
        dataset = BatchDataset(
            sm.Loader(mixture, batch_size=8, shuffle=True, runtime=sm.Runtime(threads=1))
        )
        assert ids(DataLoader(dataset, batch_size=None, num_workers=workers)) == plain


def test_superbatches_stay_small_where_one_source_has_large_rows(tmp_path):
    """The size of a row is taken over all sources, not from the first one."""
    small = write_source(tmp_path, 0, [5000])
    pq.write_table(
        pa.table({"id": pa.array(range(1_000_000, 1_000_200)), "blob": [b"x" * 200_000] * 200}),
        tmp_path / "large.parquet",
        row_group_size=20,
    )
    mixture = sm.Mixture([small, tmp_path / "large.parquet"], choose=[400, 400])
    loader = sm.Loader(
        mixture, batch_size=4, output="arrow", shuffle=True, runtime=sm.Runtime(threads=1)
    )
    batches = iter(loader)
    next(batches)
    assert loader.metrics().superbatches < 5
    assert sum(1 for _ in batches) == 199
