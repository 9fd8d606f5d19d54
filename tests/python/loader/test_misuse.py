"""What a newcomer tries first and should not: the answer says what to do."""

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
    with pytest.warns(UserWarning, match=r"leaves out all 10 rows: a step needs 11"):
        assert list(loader) == []


@pytest.mark.parametrize("option", [{"schema": pa.schema([])}, {"bad_lines": "skip"}, {"on_bad_file": "skip"}])
def test_options_of_a_data_set_are_refused_beside_one(data, option):
    with pytest.raises(sm.OptionError, match="give them there"):
        sm.Loader(sm.Dataset(data), **option)


def test_rows_are_taken_by_whole_numbers(data):
    ds = sm.Dataset(data)
    assert ds[np.int64(-1)] == {"x": 9}
    with pytest.raises(TypeError):
        ds[1.5]
    with pytest.raises(TypeError, match="take"):
        ds[1:3]


def test_state_that_was_refused_leaves_the_lanes_as_they_were(data):
    state = sm.Loader(data, seed=1, lanes=3, output="numpy").state_dict()
    loader = sm.Loader(data, seed=2, output="numpy")
    with pytest.raises(sm.CheckpointMismatchError, match="seed"):
        loader.load_state_dict(state)
    assert loader.state_dict()["lanes"] == 1


@pytest.mark.parametrize("lanes", [2**20 + 1, 10**9, 2**62])
def test_state_with_lanes_beyond_memory_is_refused_unless_they_were_asked_for(data, lanes):
    loader = sm.Loader(data, output="numpy")
    state = loader.state_dict() | {"lanes": lanes}
    with pytest.raises(
        sm.CheckpointMismatchError, match=rf"has {lanes} lanes, and a state has from 1 to 1,048,576\nhint: "
    ):
        loader.load_state_dict(state)
    assert loader.state_dict()["lanes"] == 1
    asked = sm.Loader(data, lanes=lanes, batch_size=4, output="numpy")
    asked.load_state_dict(state)
    assert [batch["x"].tolist() for batch in asked] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_epoch_beyond_64_bits_says_what_an_epoch_is(data):
    with pytest.raises(
        sm.OptionError, match=r"epoch is at most 2\^63 - 1, not 18446744073709551616\nhint: .* passes over the data"
    ):
        sm.Loader(data).set_epoch(2**64)


def test_value_without_a_type_is_told_apart_from_one_of_another_type(tmp_path):
    with (
        pytest.raises(
            sm.FormatError,
            match=r"row 0 has the value .* in column 'x', which is of the Python type object, for which there is no type",
        ),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write({"x": object()})
    with (
        pytest.raises(
            sm.FormatError, match=r"row 2 has the value 'c' .* of another type than the values before it \(int64\)"
        ),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows([{"x": 1}, {"x": 2}, {"x": "c"}])


def test_swapped_encodings_of_mds_say_so(tmp_path):
    with (
        pytest.raises(
            ValueError,
            match=r"row 0 has the value 'a' in column 'text', which is no int64.*\nhint: .*swapped",
        ),
        sm.Writer(tmp_path / "a", format="mds", columns={"text": "int", "label": "str"}) as writer,
    ):
        writer.write({"text": "a", "label": 1})
    with (
        pytest.raises(
            ValueError,
            match=r"Column `label` of type Int64 cannot be written with the MDS encoding `str`\nhint: .*swapped",
        ),
        sm.Writer(tmp_path / "a", format="mds", columns={"text": "int", "label": "str"}) as writer,
    ):
        writer.write_batch(pa.table({"text": ["a"], "label": [1]}))
