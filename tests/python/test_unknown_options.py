"""Names that users of torch, Hugging Face, pandas and MosaicML type.

The error says what to type instead.
"""

import inspect
import pickle
import re
from collections.abc import Callable
from pathlib import Path
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

PAGE = "docs/guides/coming-from.md"
LISTED = f"; {PAGE} has the names of other libraries"
#: Of each name on the page: the call, the name, and what to use.
ROWS = [
    (section.partition("\n")[0], name, use)
    for section in (Path(__file__).parents[2] / PAGE).read_text(encoding="utf-8").split("\n## ")[1:]
    for names, use in re.findall(r"^\| (`.+?) \| (.+) \|$", section, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
]
OWN_HINTS = {name: hint for names, hint in unknown._REPLACEMENTS.items() for name in names.split()}
OPTION_CLASSES = (
    sm.Runtime,
    sm.Output,
    sm.Shuffle,
    sm.Transform,
    sm.ErrorPolicy,
    sm.TextOptions,
    sm.Packing,
)

#: Calls whose further options are in classes of their own.
GROUPS = {
    sm.Tokenize: (sm.ChatTemplate, sm.Labels, sm.TextPolicy, sm.TokenFunction),
    sm.Images: (sm.ImagePaths,),
    WebDatasetSource: (curate.SampleKeys,),
}


def options_of(target: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(target).parameters)


def refusal(target: Callable[..., Any], name: str) -> str:
    """The hint of the error for an unknown option."""
    with pytest.raises(TypeError) as raised:
        target(**{name: 1})
    message, _, hint = str(raised.value).partition("\nhint: ")
    assert message == f"{target.__qualname__}() got an unexpected keyword argument {name!r}"
    return hint


@pytest.fixture(scope="module")
def one_row(tmp_path_factory) -> sm.Dataset:
    path = tmp_path_factory.mktemp("one") / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    return sm.Dataset(path)


@in_one("call, name, use", ROWS, ids=str)
def test_hint_for_a_name_of_another_library_agrees_with_the_page_or_names_it(
    one_row: sm.Dataset, call: str, name: str, use: str
) -> None:
    if call == "Methods of a Dataset":
        assert not hasattr(one_row, name)
        with pytest.raises(
            AttributeError, match=rf"^'Dataset' object has no attribute '{name}'\nhint: \w"
        ) as raised:
            getattr(one_row, name)
        assert raised.value.name == name
        hint = str(raised.value).partition("\nhint: ")[2]
    elif call == "Dataset.iterate":
        hint = refusal(one_row.iterate, name)
    else:
        hint = refusal(getattr(sm, call, None) or getattr(curate, call), name)
    if not hint.endswith(LISTED) and hint != OWN_HINTS.get(name):
        (*_, option) = re.findall(r"\w+(?==)|(?<=^did you mean ')\w+|(?<=^use )\w+$", hint)
        assert option in re.findall(r"\w+", use), hint


def test_page_has_each_name_with_a_hint_of_its_own() -> None:
    assert OWN_HINTS.keys() - {name for _, name, _ in ROWS} == set()


@in_one(
    "name",
    sorted(
        {name for kind in OPTION_CLASSES for name in options_of(kind)} - {*options_of(sm.Loader)}
    ),
)
def test_option_of_a_class_that_a_loader_takes_is_refused_with_the_class(name: str) -> None:
    call = re.fullmatch(
        rf"use sm\.\w+\(…, \w+=sm\.(\w+)\((?:…, )?{name}=…\)\)", refusal(sm.Loader, name)
    )
    assert call is not None
    assert getattr(sm, call[1]) in OPTION_CLASSES
    assert name in options_of(getattr(sm, call[1]))


@in_one(
    "call, group, name",
    [
        (call, group, name)
        for call, groups in GROUPS.items()
        for group in groups
        for name in sorted({*options_of(group)} - {*options_of(call)})
    ],
    ids=str,
)
def test_option_of_a_group_is_refused_with_the_class_of_the_group(
    call: Any, group: Any, name: str
) -> None:
    room = r"sm\.(?:curate\.)?"
    found = rf"use {room}{call.__name__}\(…, (\w+)={room}{group.__name__}\((?:…, )?{name}=…\)\)"
    taken = re.fullmatch(found, refusal(call, name))
    assert taken is not None
    assert taken[1] in options_of(call)


@in_one("name", sorted({*options_of(sm.Dataset)} - {*options_of(sm.Loader), "threads"}))
def test_option_of_files_is_refused_with_the_data_set(name: str) -> None:
    assert refusal(sm.Loader, name) == f"use sm.Dataset(…, {name}=…)"
    assert refusal(sm.Mixture, name) == f"use sm.Dataset(…, {name}=…)"


@in_one("name", sorted({*options_of(sm.Loader)} - {*options_of(sm.Dataset)}))
def test_option_of_batches_is_refused_with_the_loader(name: str) -> None:
    assert refusal(sm.Dataset, name) == f"use sm.Loader(…, {name}=…)"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sm.Loader("data", num_workers=4),
            "Loader() got an unexpected keyword argument 'num_workers'\n"
            "hint: use sm.Loader(…, runtime=sm.Runtime(threads=…)): "
            "native threads replace worker processes",
        ),
        (
            lambda: sm.Dataset("data", num_workers=4),
            "Dataset() got an unexpected keyword argument 'num_workers'\n"
            "hint: use threads=…: native threads replace worker processes",
        ),
        (
            lambda: sm.Loader("data", drop_last=True),
            "Loader() got an unexpected keyword argument 'drop_last'\nhint: use tail=\"drop\"",
        ),
        (
            lambda: sm.Loader("data", epoch_size=4),
            "Loader() got an unexpected keyword argument 'epoch_size'\n"
            "hint: use sm.Mixture(…, epoch_rows=…)",
        ),
        (
            lambda: sm.Loader("data", bacth_size=4),
            "Loader() got an unexpected keyword argument 'bacth_size'\n"
            "hint: did you mean 'batch_size'?",
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
            "Shuffle() got an unexpected keyword argument 'zzz'\n"
            f"hint: the options are window_bytes{LISTED}",
        ),
        (
            lambda: sm.Tokenize("text", tokenizer="model", nulls="fill"),
            "Tokenize() got an unexpected keyword argument 'nulls'\n"
            "hint: use sm.Tokenize(…, text_policy=sm.TextPolicy(nulls=…))",
        ),
        (
            lambda: sm.Tokenize("text", tokenizer="model", labels="all", labels_output="y"),
            "Tokenize() got an unexpected keyword argument 'labels_output'\n"
            "hint: use labels=sm.Labels(…, output=…)",
        ),
        (
            lambda: sm.Images("file", size=8, source="path", root="photos"),
            "Images() got an unexpected keyword argument 'root'\n"
            "hint: use sm.Images(…, source=sm.ImagePaths(root=…))",
        ),
        (
            lambda: WebDatasetSource("shards", texts_field="text"),
            "WebDatasetSource() got an unexpected keyword argument 'texts_field'\n"
            "hint: use sm.curate.WebDatasetSource(…, keys=sm.curate.SampleKeys(texts_field=…))",
        ),
        (
            lambda: ParquetSink("out", exist_ok=True),
            "ParquetSink() got an unexpected keyword argument 'exist_ok'\n"
            'hint: use mode="overwrite", which replaces the existing output',
        ),
        (
            lambda: Pipeline(threads=2),
            "Pipeline() got an unexpected keyword argument 'threads'\n"
            "hint: use sm.curate.Pipeline.run(threads=…)",
        ),
    ],
)
def test_message_of_an_unknown_option(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == message


def test_data_set_of_hugging_face_on_disk_is_an_error_that_names_to_parquet(tmp_path) -> None:
    datasets = pytest.importorskip("datasets")
    saved = datasets.DatasetDict({"train": datasets.Dataset.from_dict({"x": [1, 2]})})
    saved.save_to_disk(tmp_path / "saved")
    for path in (
        tmp_path / "saved",
        tmp_path / "saved" / "train",
        tmp_path / "saved" / "train" / "*.arrow",
    ):
        with pytest.raises(PlanError, match=r"\.arrow` is an Arrow file(?s:.*)\.to_parquet\("):
            sm.Dataset(path)
    loaded = datasets.load_from_disk(str(tmp_path / "saved" / "train"))
    loaded.to_parquet(tmp_path / "rows.parquet")
    assert (
        sm.Dataset(tmp_path / "rows.parquet").take([0, 1]).column("x").to_pylist() == loaded["x"][:]
    )


def test_signature_and_subclasses_keep_their_own_options(tmp_path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")

    class Named(sm.Dataset):
        def __init__(self, path: str, *, split: str) -> None:
            super().__init__(f"{path}/{split}.parquet")

    assert len(Named(str(tmp_path), split="a")) == 1
    assert "kwargs" not in inspect.signature(sm.Loader).parameters
    assert list(inspect.signature(sm.Loader).parameters)[:2] == ["data", "batch_size"]


@pytest.mark.parametrize(
    "public", [sm.Loader, sm.merge, sm.Runtime, sm.TokenFunction, Pipeline, curate.inspect]
)
def test_class_or_function_that_explains_its_options_can_be_pickled(public: Any) -> None:
    assert pickle.loads(pickle.dumps(public)) is public


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


@pytest.mark.parametrize(
    "target", [*STAGES, *FUNCTIONS, sm.Tokenizer, sm.RandomCrop, sm.resume.Checkpoint]
)
def test_unknown_option_is_refused_with_those_that_exist(target: Callable[..., Any]) -> None:
    assert (
        refusal(target, "zzzz")
        == f"the options are {', '.join(sorted(options_of(target)))}{LISTED}"
    )


def test_unknown_option_of_a_method_names_the_class_of_the_object(tmp_path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    loader = sm.Loader(tmp_path / "a.parquet", output="numpy")
    pipeline = Pipeline(
        source=TableSource(tmp_path / "a.parquet"), sink=ParquetSink(tmp_path / "out")
    )
    writer = sm.Writer(tmp_path / "b.parquet")
    writer.write({"x": 1})
    for call, message in (
        (
            lambda: loader.explain(steps=1),
            "Loader.explain() got an unexpected keyword argument 'steps'\n"
            "hint: did you mean 'step'?",
        ),
        (
            lambda: pipeline.run(thread=1),
            "Pipeline.run() got an unexpected keyword argument 'thread'\n"
            "hint: did you mean 'threads'?",
        ),
        (lambda: writer.write_rows([], num_workers=1), "hint: did you mean 'workers'?"),
    ):
        with pytest.raises(TypeError) as raised:
            call()
        assert message in str(raised.value)
    writer.close()
