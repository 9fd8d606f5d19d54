"""Situations of ``message_cases`` that take several statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm
from byte_tokenizer import write_tokenizer
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource


def job(*stages: Any, source: Any = None, run: Any = None, **options: Any) -> None:
    """A curation job over a table."""
    sink = options.pop("sink", None) or ParquetSink("curated", mode="overwrite")
    Pipeline(source=source or TableSource("in"), stages=stages, sink=sink, **options).run(
        progress=False, **run or {}
    )


def image_sizes(result: Any) -> Any:
    """What a function that returns these sizes counts; a dict lacks some of them."""
    sizes = {"height": [4], "width": [4], "tokens": [1]}

    def sizes_of(_heights: Any, _widths: Any) -> Any:
        return sizes | result if isinstance(result, dict) else result

    return sm.ImageTokens(sizes_of, version="1").count([8], [8])


def image_model(text: str | None = None, **options: Any) -> Any:
    """The rule of a directory with such a processor of Qwen2-VL."""
    options = {"image_processor_type": "Qwen2VLImageProcessor"} | options
    Path("model").mkdir(exist_ok=True)
    Path("model/preprocessor_config.json").write_text(text or json.dumps(options))
    return sm.ImageTokens.from_pretrained("model")


def sequences(*, labels: Any = "text", sizes: Any = None, **options: Any) -> Any:
    """Sequences with a small tokenizer, and the rule of images with these options."""
    tokenizer = write_tokenizer(Path("tokenizer"), special=["<|image_pad|>"])
    given: dict[str, Any] = {"prefix": "", "suffix": ""} | options
    rule = sm.ImageTokens.qwen2_vl(**given)
    output = sm.ImageOutput(sizes=sizes)
    return sm.Sequences(tokenizer=tokenizer, images=rule, labels=labels, image_output=output)


def document(part: dict[str, Any], **options: Any) -> Any:
    """The only row of a data set of documents, which has this part; or its packs."""
    part = {"position": 0} | part
    names = ["sample_id", "modality", "text_content", "materialize_error"]
    types = [(name, pa.string()) for name in names]
    types += [(name, pa.int32()) for name in ("position", "width", "height") if name in part]
    schema = pa.schema([*types, ("binary_content", pa.binary())])
    row = {"sample_id": "d"} | part
    pq.write_table(pa.Table.from_pylist([row], schema=schema), "document.parquet")
    data = sm.Dataset("document.parquet", sequences=options.get("sequences") or sequences())
    return data[0] if "packing" not in options else sm.Loader(data, packing=options["packing"])


def returning(*values: Any) -> Any:
    """A stage whose calls return these values one after another, or another column for `None`."""
    left = iter(values)

    def result(_table: Any) -> pa.Table:
        value = next(left, values[-1])
        return pa.table({"w": [0]} if value is None else {"v": value})

    return Map(result, batch_size=1)


def mesh_loader(
    *names: str, loader: Any = None, load: dict[str, Any] | None = None, **options: Any
) -> Any:
    """A ``MeshLoader`` in a job with a single rank, whose mesh has these dimensions."""
    from shardmill.integrations.torch import MeshLoader
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh

    store = distributed.HashStore()  # pyright: ignore[reportPrivateImportUsage]
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        if names:
            mesh = init_device_mesh("cpu", (1,) * len(names), mesh_dim_names=names)
            options = {"mesh": mesh, **options}
        made = sm.Loader("a.parquet", **load or {}) if loader is None else loader
        return MeshLoader(made, **options)
    finally:
        distributed.destroy_process_group()


def external_loader(rank: int, world_size: int) -> None:
    """A loader for Megatron in a job with a single rank, and a state that is not there."""
    from shardmill.integrations.megatron import ExternalLoader
    from torch import distributed

    store = distributed.HashStore()  # pyright: ignore[reportPrivateImportUsage]
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        loader = sm.Loader("a.parquet", rank=rank, world_size=world_size)
        ExternalLoader(loader, distributed.group.WORLD).load("states", 7)
    finally:
        distributed.destroy_process_group()


def loaded_by_loader_state(state: Any) -> None:
    """A state that is loaded under ``torch.distributed.checkpoint``."""
    from shardmill.integrations.torch import LoaderState

    LoaderState(sm.Loader("a.parquet", rank=0, world_size=1)).load_state_dict(state)


def shared_out_again() -> None:
    """Batches of one of two ranks, of which the main process of Accelerate takes its own."""
    from shardmill.integrations.torch import BatchDataset

    class DataLoaderDispatcher:
        def batches(self) -> Any:
            return iter(BatchDataset(sm.Loader("a.parquet", rank=1, world_size=2)))

    DataLoaderDispatcher().batches()


def begun_mesh_loader() -> None:
    """A ``MeshLoader`` of a loader that has returned a batch."""
    loader = sm.Loader("a.parquet", rank=0, world_size=1)
    next(iter(loader))
    mesh_loader("dp", loader=loader)


def closed_mesh_loader() -> None:
    """A ``MeshLoader`` that is iterated after it was closed."""
    loader = mesh_loader("dp")
    loader.close()
    iter(loader)


def subclass() -> Any:
    """A data set with rows of its own."""

    class Changed(sm.Dataset):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {**super().__getitem__(index), "x": -1}

    return Changed


def second_job_of_a_checkpoint() -> None:
    """A job that starts while another one with the same checkpoint runs."""
    raised: list[BaseException] = []

    def start(table: pa.Table) -> pa.Table:
        try:
            run_once()
        except Exception as error:
            raised.append(error)
        return table

    def run_once() -> None:
        job(Map(start), sink=ParquetSink("leased_out"), checkpoint="leased_state")

    run_once()
    raise raised[0]


def iterated_after_a_newer_one() -> None:
    """An older iterator of a loader."""
    loader = sm.Loader("a.parquet", batch_size=2, output="numpy", rank=0, world_size=1)
    older = iter(loader)
    next(older)
    next(iter(loader))
    next(older)


def written_after_close() -> None:
    """A row for a closed writer."""
    writer = sm.Writer("closed.parquet", schema=pa.schema({"x": pa.int64()}))
    writer.close()
    writer.write({"x": 1})


def closed_reader() -> Any:
    """A reader after its with-block."""
    with sm.arrayrecord.ArrayRecordReader("records.array_record") as reader:
        return reader


def checkpoint_of_a_changed_input() -> None:
    """A second run whose input has other rows."""
    Path("changed").mkdir()
    for rows in ([1], [1, 2]):
        pq.write_table(pa.table({"x": rows}), "changed/a.parquet")
        job(
            source=TableSource("changed"),
            sink=ParquetSink("changed_out"),
            checkpoint="changed_state",
        )


def checkpoint_that_is_damaged() -> None:
    """A second run whose checkpoint has no readable file."""
    job(sink=ParquetSink("damaged_out"), checkpoint="damaged_state")
    for file in Path("damaged_state").rglob("*"):
        if file.is_file():
            file.write_text("{")
    job(sink=ParquetSink("damaged_out"), checkpoint="damaged_state")


def weighted_loader(web: float = 3, **options: Any) -> sm.Loader:
    """A loader over a mixture with weights."""
    sources = {"web": "long.parquet", "code": "long.parquet"}
    mixture = sm.Mixture(sources, weights={"web": web, "code": 1}, epoch_rows=4)
    return sm.Loader(mixture, output="dict", **options)


def epoch_before_set_weights(**options: Any) -> None:
    loader = weighted_loader(batch_size=2, **options)
    for epoch in range(3):
        loader.set_weights({"web": 1, "code": epoch})
        list(loader)
    loader.set_weights({"web": 1, "code": 1})
    loader.set_epoch(0)
    list(loader)


def state_with_damaged_weights() -> None:
    loader = weighted_loader()
    loader.set_weights({"web": 1, "code": 1})
    state = loader.state_dict()
    state["mixture"]["set_weights"]["drawn"] = [1, 2]
    loader.load_state_dict(state)
