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
