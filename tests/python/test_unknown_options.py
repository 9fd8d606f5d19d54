"""Names that users of torch, Hugging Face, pandas and MosaicML type: the error says what to type instead."""

import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import in_one
from shardmill import _unknown_options as unknown
from shardmill import curate
from shardmill.curate import ParquetSink, Pipeline, TableSource, WebDatasetSink, WebDatasetSource
from shardmill.errors import PlanError

OPTIONS_OF_TORCH = [
    *(
        "num_workers",
        "drop_last",
        "collate_fn",
        "sampler",
        "batch_sampler",
        "pin_memory",
        "prefetch_factor",
        "generator",
    ),
    *("persistent_workers", "worker_init_fn", "multiprocessing_context", "timeout"),
]
OPTIONS_OF_HUGGING_FACE = ["split", "streaming", "data_files", "name", "token", "buffer_size"]
OPTIONS_IN_CLASSES = [
    *("threads", "prefetch_bytes", "device", "stall_seconds", "audit", "nulls", "fill_values", "transform_workers"),
    *(
        "on_bad_rows",
        "max_bad_rows",
        "on_bad_files",
        "on_bad_lines",
        "shuffle_window_bytes",
        "format",
        "schema",
        "partitioning",
    ),
    *("pickles", "ignore_zeros", "max_decoded_bytes", "shuffle_buffer_size"),
]
TABLES = [
    (sm.Loader, unknown.LOADER),
    (sm.Dataset, unknown.DATASET),
    (sm.Dataset.iterate, unknown.ITERATE),
    (sm.Writer, unknown.WRITER),
    (sm.merge, unknown.MERGE),
    (sm.Mixture, unknown.MIXTURE),
    (sm.Packing, unknown.PACKING),
    (sm.Runtime, unknown.RUNTIME),
    (sm.Shuffle, unknown.SHUFFLE),
    (sm.Output, unknown.OUTPUT),
    (sm.Transform, unknown.TRANSFORM),
    (sm.ErrorPolicy, unknown.ERROR_POLICY),
    (Pipeline, unknown.PIPELINE),
    (TableSource, unknown.SOURCE),
    (WebDatasetSource, unknown.SOURCE),
    (ParquetSink, unknown.SINK),
    (WebDatasetSink, unknown.SINK),
]
PAIRS = [(target, name) for target, hints in TABLES for name in hints]


@in_one("name", OPTIONS_OF_TORCH + OPTIONS_OF_HUGGING_FACE + OPTIONS_IN_CLASSES)
def test_loader_has_a_hint_for_names_of_other_libraries_and_of_its_option_classes(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^Loader\(\) got an unexpected keyword argument '{name}'\nhint: [^t]"):
        sm.Loader("data", **{name: 2})


@in_one("target, name", PAIRS, ids=lambda value: getattr(value, "__name__", value))
def test_hint_names_an_option_that_exists(target: Callable[..., Any], name: str) -> None:
    assert name not in inspect.signature(target).parameters
    with pytest.raises(TypeError) as raised:
        target(**{name: 1})
    message = str(raised.value)
    assert message.startswith(f"{target.__name__}() got an unexpected keyword argument {name!r}\nhint: ")
    hint = message.partition("hint: ")[2]
    if hint.startswith("use ") and not hint.startswith("use sm."):
        assert hint[4:].partition("=")[0] in inspect.signature(target).parameters


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sm.Loader("data", num_workers=4),
            "Loader() got an unexpected keyword argument 'num_workers'\n"
            "hint: use runtime=sm.Runtime(threads=…): native threads replace worker processes",
        ),
        (
            lambda: sm.Loader("data", bacth_size=4),
            "Loader() got an unexpected keyword argument 'bacth_size'\nhint: did you mean 'batch_size'?",
        ),
        (
            lambda: sm.Dataset("data", split="train"),
            "Dataset() got an unexpected keyword argument 'split'\n"
            'hint: name its files, such as "data/train-*.parquet"',
        ),
        (
            lambda: sm.Dataset("data", filters=[("x", ">", 1)]),
            "Dataset() got an unexpected keyword argument 'filters'\nhint: did you mean 'filter'?",
        ),
        (
            lambda: sm.Writer("out", columns={"x": "int"}, size_limit="64mb"),
            "Writer() got an unexpected keyword argument 'size_limit'\n"
            'hint: use shard_bytes=…, such as "64MiB": a new file begins at this size',
        ),
        (
            lambda: sm.Shuffle(zzz=1),
            "Shuffle() got an unexpected keyword argument 'zzz'\nhint: the options are window_bytes",
        ),
        (
            lambda: ParquetSink("out", exist_ok=True),
            "ParquetSink() got an unexpected keyword argument 'exist_ok'\n"
            'hint: use mode="overwrite", which empties the directory, or mode="resume"',
        ),
    ],
)
def test_message_of_an_unknown_option(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == message


@pytest.mark.parametrize("name", unknown.DATASET_ATTRIBUTES)
def test_data_set_has_a_hint_for_attributes_of_other_libraries(tmp_path, name: str) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    dataset = sm.Dataset(tmp_path / "a.parquet")
    assert not hasattr(dataset, name)
    with pytest.raises(AttributeError, match=rf"^'Dataset' object has no attribute '{name}'\nhint: \w") as raised:
        getattr(dataset, name)
    assert raised.value.name == name


def test_data_set_of_hugging_face_on_disk_is_an_error_that_names_to_parquet(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    saved = datasets.DatasetDict({"train": datasets.Dataset.from_dict({"x": [1, 2]})})
    saved.save_to_disk(tmp_path / "saved")
    for path in (tmp_path / "saved", tmp_path / "saved" / "train", tmp_path / "saved" / "train" / "*.arrow"):
        with pytest.raises(PlanError, match=r"\.arrow` is an Arrow file(?s:.*)\.to_parquet\("):
            sm.Dataset(path)
    loaded = datasets.load_from_disk(str(tmp_path / "saved" / "train"))
    loaded.to_parquet(tmp_path / "rows.parquet")
    assert sm.Dataset(tmp_path / "rows.parquet").take([0, 1]).column("x").to_pylist() == loaded["x"][:]


def test_signature_and_subclasses_keep_their_own_options(tmp_path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")

    class Named(sm.Dataset):
        def __init__(self, path: str, *, split: str) -> None:
            super().__init__(f"{path}/{split}.parquet")

    assert len(Named(str(tmp_path), split="a")) == 1
    assert "kwargs" not in inspect.signature(sm.Loader).parameters
    assert list(inspect.signature(sm.Loader).parameters)[:2] == ["data", "batch_size"]


def test_warning_of_a_data_set_names_the_line_of_the_caller(tmp_path) -> None:
    with pytest.warns(UserWarning, match="no data files") as warned:
        sm.Dataset(tmp_path)
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize("make", [WebDatasetSource, WebDatasetSink])
def test_warning_of_a_dataclass_names_the_line_of_the_caller(make, tmp_path) -> None:
    schema = pa.schema([("x", pa.int64())])
    with pytest.warns(UserWarning, match="`schema_overrides` has no effect") as warned:
        make(str(tmp_path), schema=schema, schema_overrides=schema)
    assert [warning.filename for warning in warned] == [__file__]


FILTERS = [
    curate.AspectRatioFilter,
    curate.BlurFilter,
    curate.ClipScoreFilter,
    curate.Filter,
    curate.ImageToTextRatioFilter,
]
STAGES = [*FILTERS, curate.QRCodeFilter, curate.SizeFilter, curate.Map, curate.ReencodeImages]
FUNCTIONS = [curate.inspect, curate.verify, sm.rebuild_index]


@pytest.mark.parametrize("target", [*STAGES, *FUNCTIONS, sm.Tokenizer, sm.RandomCrop, sm.resume.Checkpoint])
def test_unknown_option_is_refused_with_those_that_exist(target: Callable[..., Any]) -> None:
    with pytest.raises(TypeError) as raised:
        target(zzzz=1)
    message, _, hint = str(raised.value).partition("\nhint: ")
    assert message == f"{target.__name__}() got an unexpected keyword argument 'zzzz'"
    assert hint == f"the options are {', '.join(sorted(inspect.signature(target).parameters))}"


def test_unknown_option_of_a_method_names_the_class_of_the_object(tmp_path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    loader = sm.Loader(tmp_path / "a.parquet", output="numpy")
    pipeline = Pipeline(source=TableSource(tmp_path / "a.parquet"), sink=ParquetSink(tmp_path / "out"))
    writer = sm.Writer(tmp_path / "b.parquet")
    writer.write({"x": 1})
    for call, message in (
        (
            lambda: loader.explain(steps=1),
            "Loader.explain() got an unexpected keyword argument 'steps'\nhint: did you mean 'step'?",
        ),
        (
            lambda: pipeline.run(thread=1),
            "Pipeline.run() got an unexpected keyword argument 'thread'\nhint: did you mean 'threads'?",
        ),
        (lambda: writer.write_rows([], num_workers=1), "hint: did you mean 'workers'?"),
    ):
        with pytest.raises(TypeError) as raised:
            call()
        assert message in str(raised.value)
    writer.close()
