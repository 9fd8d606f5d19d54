"""Integers of NumPy are taken wherever integers are; bools are not."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import in_one
from shardmill.curate import (
    AspectRatioFilter,
    BlurFilter,
    ClipScoreFilter,
    DamageFilter,
    Filter,
    ImageToTextRatioFilter,
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    QRCodeFilter,
    ReencodeImages,
    SampleKeys,
    SizeFilter,
    TableSource,
    WebDatasetSource,
    inspect,
    verify,
)
from shardmill.curate._filters import native_options
from shardmill.curate._spec import spec_of

DOCUMENTS = WebDatasetSource("in")
ONE = {"rank": 0, "world_size": 1, "output": "numpy"}
CALLS: dict[str, Callable[[Any], Any]] = {
    "batch_size": lambda value: len(sm.Loader("a.parquet", batch_size=value, **ONE)),
    "lanes": lambda value: sm.Loader("a.parquet", lanes=value, **ONE).state_dict()["lanes"],
    "seed": lambda value: sm.Loader("a.parquet", seed=value, **ONE).state_dict()["seed"],
    "world_size": lambda value: (
        sm.Loader("a.parquet", rank=0, world_size=value, output="numpy").world_size
    ),
    "threads of a loader": lambda value: (
        sm.Loader("a.parquet", runtime=sm.Runtime(threads=value), **ONE).threads
    ),
    "threads of a data set": lambda value: len(sm.Dataset("a.parquet", threads=value)),
    "epoch of a loader": lambda value: moved(lambda loader: loader.set_epoch(value)),
    "steps to skip": lambda value: moved(lambda loader: loader.skip(value)),
    "epoch of an explanation": lambda value: json.dumps(
        sm.Loader("a.parquet", **ONE).explain(epoch=value)
    ),
    "epoch of an audit": lambda value: audited().expected_audit(epoch=value),
    "epoch of a mixture": lambda value: sm.Mixture({"a": "a.parquet"}).counts(value),
    "epoch of a geometry": lambda value: images().geometry(
        9, 9, seed=value, epoch=value, row=value, item=value
    ),
    "epoch of iterate": lambda value: len(list(sm.Dataset("a.parquet").iterate(epoch=value))),
    "start of iterate": lambda value: len(list(sm.Dataset("a.parquet").iterate(start=value))),
    "prefetch_bytes": lambda value: sm.Runtime(prefetch_bytes=value).prefetch_bytes,
    "window_bytes": lambda value: sm.Shuffle(value).window_bytes,
    "stall_seconds": lambda value: sm.Runtime(stall_seconds=value),
    "max_rows": lambda value: json.dumps(sm.ErrorPolicy(rows="skip", max_rows=value).max_rows),
    "length": lambda value: sm.Packing("x", length=value).length,
    "epoch_rows": lambda value: (
        sm.Mixture({"a": "a.parquet"}, weights={"a": 1}, epoch_rows=value).num_rows
    ),
    "workers of a transform": lambda value: json.dumps(sm.Transform(len, workers=value).workers),
    "max_errors": lambda value: job(max_errors=value),
    "row_group_size": lambda value: job(sink=ParquetSink("out", row_group_size=value)),
    "files_per_partition": lambda value: job(
        source=TableSource("a.parquet", files_per_partition=value)
    ),
    "batch_size of a stage": lambda value: job(stages=[Map(len, batch_size=value)]),
    "min_side": lambda value: job(source=DOCUMENTS, stages=[SizeFilter(min_side=value)]),
    "max_pixels": lambda value: job(source=DOCUMENTS, stages=[SizeFilter(max_pixels=value)]),
    "quality": lambda value: job(source=DOCUMENTS, stages=[ReencodeImages(quality=value)]),
    "max_side": lambda value: job(source=DOCUMENTS, stages=[ReencodeImages(max_side=value)]),
    "max_problems": lambda value: len(verify("a.parquet", max_problems=value)),
    "first": lambda value: len(inspect("a.parquet", first=value).files),
    "threads of verify": lambda value: len(verify("a.parquet", threads=value)),
    "group_size": lambda value: sm.Writer(
        "a.array_record", group_size=value, mode="overwrite"
    ).close(),
    "modified": lambda value: sm.Writer("a.tar", modified=value, mode="overwrite").close(),
}


def moved(move: Callable[[sm.Loader], None]) -> str:
    loader = sm.Loader("a.parquet", shuffle=True, batch_size=2, **ONE)
    move(loader)
    state = loader.state_dict()
    return json.dumps(
        [state["epoch"], state["consumed"], loader.epoch, loader.metrics().to_dict()["epoch"]]
    )


def audited() -> sm.Loader:
    return sm.Loader("a.parquet", runtime=sm.Runtime(audit=True), **ONE)


def images() -> sm.Images:
    return sm.Images("x", size=4, fit=sm.RandomCrop(), flip=0.5)


def job(**options: Any) -> str:
    pipeline = Pipeline(
        **{"source": TableSource("a.parquet"), "sink": ParquetSink("out"), **options}
    )
    return json.dumps(spec_of(pipeline)[0])


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": list(range(10))}), tmp_path / "a.parquet")
    monkeypatch.chdir(tmp_path)


@in_one("name", CALLS)
def test_integers_of_numpy_mean_what_integers_of_python_mean(name: str) -> None:
    assert CALLS[name](np.int64(2)) == CALLS[name](2)


@in_one("name", CALLS)
@in_one("value", [True, np.True_, "2", [2]], ids=repr)
def test_other_types_than_integers_are_refused(name: str, value: Any) -> None:
    if isinstance(value, str) and name in ("prefetch_bytes", "window_bytes"):
        pytest.skip("sizes may be texts")
    with pytest.raises(sm.OptionError, match="must be|is a positive number"):
        CALLS[name](value)


@pytest.mark.parametrize(
    "options",
    [
        {"colour": "red"},
        {"max_requests": 0},
        {"max_requests": "many"},
        {"retry_timeout": -1},
        {"endpoint": "host"},
        {"skip_signature": "maybe"},
        {"region": ["eu"]},
        {"token": b"x"},
        {"cache_dir": 3},
        {"cache_bytes": -1},
        {"cache_bytes": [1]},
        {"cache_bytes": float("nan")},
        {"cache_bytes": "1XB"},
        {1: "x"},
        ["region"],
    ],
    ids=str,
)
def test_storage_options_that_are_not_valid_are_refused(options: Any) -> None:
    named = str(next(iter(options))) if isinstance(options, dict) else "storage_options"
    for call in (
        sm.storage.configure,
        lambda path, options: sm.Dataset(path, storage_options=options),
    ):
        with pytest.raises(sm.OptionError, match="maybe" if named == "skip_signature" else named):
            call("s3://options-of-a-test", options)


class Model:
    """What a ClipScoreFilter asks for."""

    embed_images = embed_texts = staticmethod(len)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AspectRatioFilter("1:2"), "min of AspectRatioFilter must be a number, not '1:2'"),
        (
            lambda: AspectRatioFilter(max=None),
            "max of AspectRatioFilter must be a number, not None",
        ),
        (
            lambda: AspectRatioFilter(max=float("nan")),
            "max of AspectRatioFilter must be a number, not nan",
        ),
        (
            lambda: AspectRatioFilter(min=2, max=1),
            "`min` and `max` are 2 and 1; min must not exceed max",
        ),
        (
            lambda: ImageToTextRatioFilter(min=True),
            "min of ImageToTextRatioFilter must be a number, not True",
        ),
        (
            lambda: ImageToTextRatioFilter(2, 1),
            "`min` and `max` are 2 and 1; min must not exceed max",
        ),
        (lambda: QRCodeFilter(2), "threshold must be a fraction from 0 to 1, not 2"),
        (lambda: QRCodeFilter(-0.1), "threshold must be a fraction from 0 to 1, not -0.1"),
        (lambda: QRCodeFilter("0.1"), "threshold must be a number, not '0.1'"),
        (
            lambda: ClipScoreFilter(Model(), min_score="high"),
            "min_score must be a number, not 'high'",
        ),
        (lambda: Filter("x > 1", per="column"), "per"),
        (lambda: Map(len, needs_bytes="yes"), "needs_bytes must be True or False, not 'yes'"),
        (
            lambda: ParquetSink("out", materialize_on_write=1),
            "materialize_on_write must be True or False, not 1",
        ),
        (
            lambda: WebDatasetSource("in", ignore_zeros="no"),
            "ignore_zeros must be True or False, not 'no'",
        ),
        (
            lambda: SampleKeys(texts_field=None),
            "SampleKeys.texts_field must be the name of a key, not None",
        ),
        (
            lambda: SampleKeys(sample_id_field=5),
            "SampleKeys.sample_id_field must be the name of a key, not 5",
        ),
        (
            lambda: WebDatasetSource("in", keys={"texts_field": "t"}),
            "keys must be a SampleKeys, not {'texts_field': 't'}",
        ),
        (lambda: WebDatasetSource([]), "no path was given"),
        (lambda: InterleavedParquetSource([]), "no path was given"),
        (lambda: TableSource(()), "no path was given"),
    ],
)
def test_option_of_a_pipeline_is_checked_when_its_part_is_made(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises(sm.OptionError, match=re.escape(message)):
        make()


def test_options_given_as_iterators_mean_what_lists_mean() -> None:
    def made(of: Callable[[list[Any]], Any]) -> list[Any]:
        tables = TableSource(of(["a.parquet"]), columns=of(["x"]))
        shards = WebDatasetSource(
            of(["in"]),
            fields=of(["x"]),
            keys=SampleKeys(json_extensions=of([".meta"])),
            allowed_roots=of(["images"]),
        )
        pipelines = [
            Pipeline(source=tables, stages=of([Filter("x > 5")]), sink=ParquetSink("out")),
            Pipeline(source=shards, stages=of([SizeFilter(min_side=2)]), sink=ParquetSink("out")),
        ]
        return [spec_of(pipeline)[0] for pipeline in pipelines]

    assert made(iter) == made(list)
    stages = (stage for stage in [Filter("x > 5")])
    report = Pipeline(source=TableSource("a.parquet"), stages=stages, sink=ParquetSink("out")).run(
        progress=False
    )
    assert report.rows_dropped == {"filter expression": 6}


@pytest.mark.parametrize(
    "make",
    [
        AspectRatioFilter,
        ImageToTextRatioFilter,
        BlurFilter,
        DamageFilter,
        QRCodeFilter,
        lambda **options: SizeFilter(min_side=1, **options),
        lambda **options: Filter("x > 1", **options),
        lambda **options: ClipScoreFilter(Model(), **options),
    ],
)
def test_drop_invalid_rows_of_each_filter_is_a_bool(make: Callable[..., Any]) -> None:
    with pytest.raises(sm.OptionError, match="drop_invalid_rows must be True or False, not 'no'"):
        make(drop_invalid_rows="no")


@pytest.mark.parametrize(
    ("low", "high"),
    [(1, 2), (0.5, float("inf")), (np.float32(0.5), np.int64(2)), (-(10**400), 10**400)],
)
def test_bounds_of_a_filter_are_any_real_numbers(low: Any, high: Any) -> None:
    assert json.dumps(native_options(AspectRatioFilter(low, high)))
    assert json.dumps(native_options(BlurFilter(low)))


@pytest.mark.parametrize("size", [0, np.int64(5), 1e9, "5", "1GB"])
def test_sizes_of_the_cache_are_numbers_or_texts(size: Any) -> None:
    sm.storage.configure("s3://cache-of-a-test", {"cache_bytes": size})


def test_window_of_no_bytes_may_be_text() -> None:
    assert sm.Shuffle("0") == sm.Shuffle(0)


@pytest.mark.parametrize("mode", ["error", "overwrite", "resume"])
@pytest.mark.parametrize("path", ["in", "in/*.parquet", "in/**/*.parquet", "in/sub"])
def test_output_that_the_next_run_would_read_is_refused_without_a_checkpoint(
    tmp_path, mode: Any, path: str
) -> None:
    (tmp_path / "in/sub").mkdir(parents=True)
    for file in ("in/a.parquet", "in/sub/a.parquet"):
        (tmp_path / file).write_bytes((tmp_path / "a.parquet").read_bytes())
    is_apart = path == "in/*.parquet"
    run = Pipeline(source=TableSource(path), sink=ParquetSink("in/sub/out", mode=mode)).run
    if is_apart:
        run(progress=False)
        assert pq.read_table("in/sub/out").num_rows == 10
    else:
        with pytest.raises(sm.OptionError, match="The output `.*in/sub/out` is inside the input"):
            run(progress=False)
        assert not (tmp_path / "in/sub/out").exists()


def test_files_with_another_format_beside_json_do_not_keep_a_writer_from_appending(
    tmp_path,
) -> None:
    for mode in ("error", "append"):
        with sm.Writer("rows", mode=mode) as writer:
            writer.write({"x": 1})
        (tmp_path / "rows/notes.json").write_text("{}")
    assert len(sm.Dataset(["rows/part-00000.parquet", "rows/part-00001.parquet"])) == 2
