"""Subclasses that change rows or batches in Python: readers call their methods, or refuse them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import beginning


class Changed(sm.Dataset):
    def __init__(self, path: Any, value: int = -1) -> None:
        super().__init__(path)
        self.value = value

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**super().__getitem__(index), "x": self.value}


class Taken(sm.Dataset):
    def take(self, indices: Any) -> Any:
        return super().take([0 for _ in indices])


class Listed(sm.Dataset):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [{"x": -1} for _ in indices]


class Iterated(sm.Dataset):
    def __iter__(self) -> Any:
        return ({"x": -1} for _ in super().__iter__())

    def iterate(self, **options: Any) -> Any:
        return iter(self)


class Short(sm.Dataset):
    def __len__(self) -> int:
        return 1


class Counted(sm.Dataset):
    @property
    def num_rows(self) -> int:
        return 1


class Mixin:
    def __getitem__(self, index: int) -> Any:
        return {"x": -index}


class Mixed(Mixin, sm.Dataset):
    pass


class Named(sm.Dataset):
    """Changes no rows."""

    def __repr__(self) -> str:
        return "named"

    @property
    def title(self) -> str:
        return "title"


CLASSES = [Changed, Taken, Listed, Iterated, Short, Counted, Mixed]


@pytest.fixture
def path(tmp_path: Path) -> str:
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "a.parquet")
    return str(tmp_path)


def outcome(call: Any) -> str:
    try:
        return f"returned {call()!r}"
    except (sm.OptionError, pa.ArrowException, OSError) as error:
        return str(error)


def test_readers_of_the_files_refuse_a_data_set_that_changes_its_rows(
    path: str, tmp_path: Path
) -> None:
    wrong = []
    for kind in CLASSES:
        for name, reader in {
            "loader": lambda dataset: sm.Loader(dataset, output="numpy"),
            "mixture": lambda dataset: sm.Mixture({"a": path, "b": dataset}),
            "nested mixture": lambda dataset: sm.Mixture([sm.Mixture([dataset])]),
            "stream": pa.table,
            "writer": lambda dataset: sm.Writer(tmp_path / "out", mode="overwrite").write_batch(
                dataset
            ),
        }.items():
            text = outcome(lambda kind=kind, reader=reader: reader(kind(path)))
            if (
                f"so {'Mixin' if kind is Mixed else kind.__name__}." not in text
                or "transform=function" not in text
            ):
                wrong.append((kind.__name__, name, text))
    assert wrong == []


def test_subclass_that_changes_no_rows_is_read(path: str) -> None:
    dataset = Named(path)
    assert next(iter(sm.Loader(dataset, output="numpy")))["x"].tolist() == [1, 2, 3]
    assert sm.Mixture([dataset]).num_rows == pa.table(dataset).num_rows == 3


def test_iteration_calls_the_index_of_a_subclass(path: str) -> None:
    assert [row["x"] for row in Changed(path, 7)] == [7, 7, 7]


@pytest.mark.parametrize("copied", [copy.copy, lambda dataset: pickle.loads(pickle.dumps(dataset))])
def test_copy_of_a_subclass_keeps_its_class_and_attributes(path: str, copied: Any) -> None:
    dataset = copied(Changed(path, 7))
    assert (type(dataset), dataset.value, dataset[1]) == (Changed, 7, {"x": 7})
    assert copied(dataset)[2] == {"x": 7}
    assert vars(sm.Dataset(path)).keys() == sm.Dataset(path)._attributes


@pytest.mark.parametrize("context", beginning(2, [None, "fork", "spawn"]))
def test_dataloader_of_torch_calls_the_methods_of_a_subclass(
    path: str, context: str | None
) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    workers = {} if context is None else {"num_workers": 1, "multiprocessing_context": context}
    for kind in (Changed, Listed) if context is None else (Changed,):
        batches = torch_data.DataLoader(kind(path), batch_size=2, **workers)
        assert [batch["x"].tolist() for batch in batches] == [[-1, -1], [-1]]


def test_source_of_grain_calls_the_index_of_a_subclass(path: str) -> None:
    pytest.importorskip("grain")
    from shardmill.integrations.grain import DatasetSource

    assert DatasetSource(Changed(path, 7))._getitems([0, 2]) == [{"x": 7}, {"x": 7}]


class Doubled(sm.Loader):
    def __iter__(self) -> Any:
        return ({"x": batch["x"] * 2} for batch in super().__iter__())


def test_loader_that_changes_its_batches_is_refused_where_they_do_not_pass_through_it(
    path: str,
) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    from shardmill.integrations.torch import BatchDataset, BatchLoader

    loader = Doubled(path, output="numpy", rank=0, world_size=1)
    dataset = BatchDataset(loader)
    for batches in (loader, BatchLoader(dataset)):
        assert [batch["x"].tolist() for batch in batches] == [[2, 4, 6]]
    for call in (
        lambda: loader.steps(1),
        lambda: list(torch_data.DataLoader(dataset, batch_size=None, num_workers=1)),
        lambda: list(BatchLoader(dataset, collate_fn=dict)),
        lambda: BatchLoader(dataset).steps(1),
    ):
        with pytest.raises(ValueError, match=r"so Doubled\.__iter__ would have no effect"):
            call()


def test_data_set_in_place_of_a_path_says_where_it_belongs(path: str) -> None:
    dataset = sm.Dataset(path)
    for given in (dataset, [dataset, dataset], sm.Loader(dataset, output="numpy")):
        with pytest.raises(
            sm.OptionError, match=r"pass the data set to sm\.Loader, or several to sm\.Mixture"
        ):
            sm.Dataset(given)  # pyright: ignore[reportArgumentType]


def test_stages_that_are_not_complete_say_what_they_lack() -> None:
    from shardmill.curate import (
        AspectRatioFilter,
        ImageStage,
        ParquetSink,
        Pipeline,
        WebDatasetSource,
    )

    class Judge(ImageStage):
        def keep_images(self, images: Any, texts: Any) -> list[bool]:
            return [True] * len(images)

    class Named(Judge):
        name = "named"

    class Wide(AspectRatioFilter):
        def keep_images(self, images: Any, texts: Any) -> list[bool]:
            return [False] * len(images)

    class Other:
        def keep_images(self, images: Any, texts: Any) -> list[bool]:
            return [True] * len(images)

    cases = {
        Judge(): 'Judge has no name\nhint: set it in the class: name = "my_filter"',
        Named(): (
            "Named has no drop_invalid_rows\nhint: set it in the class: drop_invalid_rows = True"
        ),
        Wide(min=1.0, max=2.0): (
            "so Wide.keep_images would have no effect\nhint: derive the class from ImageStage"
        ),
        AspectRatioFilter: (
            "AspectRatioFilter is a class, not a stage\nhint: create one: AspectRatioFilter(…)"
        ),
        Other(): "is not a stage\nhint: derive its class from ImageStage",
        len: "is not a stage\nhint: wrap a function of tables in Map(function)",
    }
    wrong = []
    for stage, expected in cases.items():
        text = outcome(
            lambda stage=stage: Pipeline(
                source=WebDatasetSource("in"), stages=[stage], sink=ParquetSink("o")
            ).run()
        )
        if expected not in text:
            wrong.append((stage, text))
    assert wrong == []
