"""What a newcomer tries first and should not: the answer says what to do."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm


@pytest.fixture
def data(tmp_path):
    pq.write_table(pa.table({"x": range(10)}), tmp_path / "ten.parquet")
    return tmp_path


def test_name_in_place_of_a_list_of_names_is_refused(data):
    for make in (sm.Dataset, sm.Loader):
        with pytest.raises(sm.OptionError, match=r"hint: write columns=\['x'\]"):
            make(data, columns="x")


def test_loader_in_a_dataloader_says_what_belongs_there(data):
    torch_data = pytest.importorskip("torch.utils.data")
    loader = torch_data.DataLoader(sm.Loader(data, output="numpy"), batch_size=None)
    with pytest.raises(TypeError, match="BatchDataset"):
        next(iter(loader))


def test_drop_that_leaves_nothing_warns(data):
    loader = sm.Loader(data, batch_size=11, tail="drop", output="numpy")
    with pytest.warns(UserWarning, match=r"drops all 10 rows: a step needs 11"):
        assert list(loader) == []


@pytest.mark.parametrize(
    "option",
    [
        {"filter": sm.col("x") > 1},
        {"errors": sm.ErrorPolicy(lines="skip")},
        {"errors": sm.ErrorPolicy(files="skip")},
    ],
)
def test_options_of_a_data_set_are_refused_beside_one(data, option):
    with pytest.raises(sm.OptionError, match="pass them there"):
        sm.Loader(sm.Dataset(data), **option)


@pytest.mark.parametrize("open_it", [sm.Dataset, sm.Loader, lambda path: sm.Mixture({"x": path})])
def test_warning_about_paths_is_at_the_line_that_passed_them(data, open_it):
    (data / "notes.txt").write_text("x")
    (data / "empty").mkdir()
    for path in (data, data / "empty"):
        with pytest.warns(UserWarning, match="left out of|no data files") as caught:
            open_it(path)
        assert [warning.filename for warning in caught] == [__file__]


def test_empty_directory_is_shown_without_a_format(data, tmp_path):
    assert repr(sm.Dataset(data)) == f"Dataset({data}: 1 parquet file)"
    (data / "ten.parquet").unlink()
    with pytest.warns(UserWarning, match="no data files"):
        assert repr(sm.Dataset(tmp_path)) == f"Dataset({tmp_path}: no files)"


def test_rows_are_taken_by_whole_numbers(data):
    ds = sm.Dataset(data)
    assert ds[np.int64(-1)] == {"x": 9}
    with pytest.raises(TypeError):
        ds[1.5]
    with pytest.raises(TypeError, match="take"):
        ds[1:3]


def test_wrong_call_is_told_by_the_name_of_the_class_that_users_know(data):
    loader = sm.Loader(data, output="numpy")
    for name in (
        "metrics",
        "diagnosis",
        "skip",
        "set_epoch",
        "state_dict",
        "load_state_dict",
        "explain",
        "explain_table",
        "audit",
    ):
        with pytest.raises(TypeError, match=rf"^Loader\.{name}\(\) takes"):
            getattr(loader, name)(1, 2, 3)


def test_state_that_was_refused_leaves_the_lanes_as_they_were(data):
    state = sm.Loader(data, shuffle=True, seed=1, lanes=3, output="numpy").state_dict()
    loader = sm.Loader(data, shuffle=True, seed=2, output="numpy")
    with pytest.raises(sm.CheckpointMismatchError, match="seed"):
        loader.load_state_dict(state)
    assert loader.state_dict()["lanes"] == 1


@pytest.mark.parametrize("lanes", [2**20 + 1, 10**9, 2**62])
def test_lanes_beyond_memory_are_refused_in_a_state_and_as_an_option(data, lanes):
    loader = sm.Loader(data, output="numpy")
    state = loader.state_dict() | {"lanes": lanes}
    with pytest.raises(
        sm.CheckpointMismatchError,
        match=rf"has {lanes} lanes, but a state has 1 to 1,048,576\nhint: ",
    ):
        loader.load_state_dict(state)
    assert loader.state_dict()["lanes"] == 1
    with pytest.raises(
        sm.OptionError, match=f"lanes must be an integer from 1 to 1048576, not {lanes}"
    ):
        sm.Loader(data, lanes=lanes, output="numpy")


@pytest.mark.parametrize("options", [{"lanes": 2**20}, {"rank": 0, "world_size": 2**20 + 1}])
def test_state_of_as_many_lanes_as_are_allowed_is_loaded(data, options):
    state = sm.Loader(data, batch_size=4, tail="uneven", output="numpy", **options).state_dict()
    assert state["lanes"] == 2**20
    other = sm.Loader(data, batch_size=4, output="numpy")
    other.load_state_dict(state)
    assert [batch["x"].tolist() for batch in other] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_epoch_beyond_64_bits_says_what_an_epoch_is(data):
    with pytest.raises(
        sm.OptionError,
        match=r"epoch must be at most 2\^63 - 1, not 18446744073709551616\n"
        r"hint: .* passes over the data",
    ):
        sm.Loader(data).set_epoch(2**64)


def test_value_without_a_type_is_told_apart_from_one_of_another_type(tmp_path):
    with (
        pytest.raises(
            sm.FormatError,
            match=r"row 0 has the value .* in column 'x', which has the Python type object, "
            r"which has no column type",
        ),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write({"x": object()})
    with (
        pytest.raises(
            sm.FormatError,
            match=r"row 2 has the value 'c' .* "
            r"has another type than the values before it \(int64\)",
        ),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows([{"x": 1}, {"x": 2}, {"x": "c"}])


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (2**63, "schema= with the type uint64"),
        (2**64 - 1, "uint64"),
        (2**64, "strings"),
        (-(2**63) - 1, "strings"),
    ],
)
@pytest.mark.parametrize("before", [[], [1]])
def test_integer_beyond_64_bits_says_which_type_holds_it(tmp_path, before, value, hint):
    message = (
        rf"row {len(before)} has the value {value} in column 'a', which does not fit in int64"
        rf"(.|\n)*hint: .*{hint}"
    )
    for write in (
        lambda writer: writer.write_rows({"a": number} for number in [*before, value]),
        lambda writer: writer.write_batch({"a": [*before, value]}),
    ):
        with (
            pytest.raises(sm.FormatError, match=message),
            sm.Writer(tmp_path / "a.parquet") as writer,
        ):
            write(writer)
    if value < 2**64 and value > 0:
        with sm.Writer(tmp_path / "a.parquet", schema=pa.schema({"a": pa.uint64()})) as writer:
            writer.write({"a": value})
        assert sm.Dataset(tmp_path / "a.parquet")[0] == {"a": value}


@pytest.mark.parametrize("format", ["parquet", "jsonl", "mds", "webdataset"])
def test_name_of_a_column_that_is_not_a_string_is_refused_at_the_call(tmp_path, format):
    message = (
        "the name of column 1 has the Python type int, but names of columns must be strings\n"
        "hint: write '1'"
    )
    for write in (
        lambda writer: writer.write({1: 2}),
        lambda writer: writer.write_batch({1: [2]}),
        lambda writer: writer.write_rows([{"a": 1}, {"a": 1, 1: 2}]),
    ):
        writer = sm.Writer(tmp_path / "out", format=format)
        with pytest.raises(sm.FormatError, match=message):
            write(writer)
        assert not (tmp_path / "out").exists()
    schema = pa.schema({"a": pa.int64()})
    with (
        pytest.raises(sm.FormatError, match=message),
        sm.Writer(tmp_path / "b.parquet", schema=schema) as writer,
    ):
        writer.write_batch({1: [2]})
    with sm.Writer(tmp_path / "b.parquet", columns=["a"]) as writer:
        writer.write({1: 2, "a": 3})
    assert list(sm.Dataset(tmp_path / "b.parquet")) == [{"a": 3}]


def test_swapped_encodings_of_mds_say_so(tmp_path):
    with (
        pytest.raises(
            ValueError,
            match=r"row 0 has the value 'a' in column 'text', which is not of type int64.*\n"
            r"hint: .*swapped",
        ),
        sm.Writer(tmp_path / "a", format="mds", columns={"text": "int", "label": "str"}) as writer,
    ):
        writer.write({"text": "a", "label": 1})
    with (
        pytest.raises(
            ValueError,
            match=r"Column `label` of type int64 cannot be written with the MDS encoding `str`\n"
            r"hint: .*swapped",
        ),
        sm.Writer(tmp_path / "a", format="mds", columns={"text": "int", "label": "str"}) as writer,
    ):
        writer.write_batch(pa.table({"text": ["a"], "label": [1]}))


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"RANK": "1", "WORLD_SIZE": "two"}, "WORLD_SIZE"),
        ({"RANK": "", "WORLD_SIZE": "2"}, "RANK"),
        ({"WORLD_SIZE": "4"}, "rank is required"),
    ],
)
def test_environment_that_does_not_tell_the_rank_is_refused(data, monkeypatch, environment, name):
    for variable in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(sm.OptionError, match=name):
        sm.Loader(data, output="numpy")
    assert sm.Loader(data, output="numpy", rank=0, world_size=1).world_size == 1


def test_world_size_without_a_rank_is_refused(data):
    with pytest.raises(sm.OptionError, match="rank is required if world_size is 4"):
        sm.Loader(data, output="numpy", world_size=4)


@pytest.mark.parametrize("values", [5, [1], "abc"])
def test_fill_values_that_are_not_a_mapping_are_refused(values):
    with pytest.raises(sm.OptionError, match="fill_values must be a mapping"):
        sm.Output("numpy", nulls="fill", fill_values=values)


def test_fill_values_are_those_of_the_call():
    values = {"x": 1}
    output = sm.Output("numpy", nulls="fill", fill_values=values)
    values["x"] = 2
    assert output.fill_values == {"x": 1}


def fails_at_sixteen(batch):
    if 16 in batch["x"]:
        raise KeyError("sixteen")
    return batch


@pytest.mark.parametrize("workers", [0, 1])
def test_exception_of_a_transform_names_the_batch_and_its_files(data, workers):
    pq.write_table(pa.table({"x": range(10, 20)}), data / "twenty.parquet")
    options = {"batch_size": 2, "rank": 1, "world_size": 2, "output": "numpy"}
    plain = [batch["x"].tolist() for batch in sm.Loader(data, **options)]
    step = next(step for step, values in enumerate(plain) if 16 in values)
    loader = sm.Loader(data, transform=sm.Transform(fails_at_sixteen, workers=workers), **options)
    next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(KeyError) as raised:
        list(loader)
    (note,) = raised.value.__notes__[-1:]
    assert (
        note == f"in the transform of batch {step} of epoch 0 on rank 1 of 2, "
        "with rows of twenty.parquet"
    )


class TwoPartsError(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fails_at_sixteen_in_two_parts(batch):
    if 16 in batch["x"]:
        raise TwoPartsError(1, 2) from OSError("why")
    return batch


def test_exception_of_a_transform_that_cannot_be_unpickled_is_told_with_its_text_and_cause(data):
    pq.write_table(pa.table({"x": range(10, 20)}), data / "twenty.parquet")
    options = {"batch_size": 1, "output": "numpy"}
    loader = sm.Loader(
        data, transform=sm.Transform(fails_at_sixteen_in_two_parts, workers=1), **options
    )
    with pytest.raises(
        sm.EngineError, match="transform raised TwoPartsError, .*: 1 and 2\nhint: use workers=0"
    ) as raised:
        list(loader)
    assert repr(raised.value.__cause__) == "OSError('why')"
    assert "in fails_at_sixteen_in_two_parts" in raised.value.__notes__[0]
    assert raised.value.__notes__[-1].startswith("in the transform of batch ")


def dies_at_sixteen(batch):
    if 16 in batch["x"]:
        os._exit(3)
    return batch


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_of_a_transform_that_dies_says_what_to_look_for(data, workers):
    pq.write_table(pa.table({"x": range(10, 40)}), data / "twenty.parquet")
    loader = sm.Loader(
        data, batch_size=1, output="numpy", transform=sm.Transform(dies_at_sixteen, workers=workers)
    )
    message = (
        "a worker of the transform died, or could not start\n"
        "hint: a script that starts workers needs"
    )
    taken = []
    with pytest.raises(sm.errors.EngineError, match=message) as raised:
        taken.extend(batch["x"].item() for batch in loader)
    assert taken == list(range(len(taken))) and len(taken) <= 16
    assert raised.value.__notes__[-1].startswith(
        f"in the transform of batch {len(taken)} of epoch 0 on rank 0 of 1"
    )
