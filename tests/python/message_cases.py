"""Situations that raise, by name.

``PYTHONPATH=tests python tests/python/message_cases.py`` writes what each says to ``messages.txt``.

All run in one directory of small files, which :func:`write_files` makes, so the messages have
relative paths.
"""

from __future__ import annotations

import datetime
import importlib
import io
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import shardmill as sm
from documents import encoded
from message_files import write_files
from message_situations import (
    begun_mesh_loader,
    checkpoint_of_a_changed_input,
    checkpoint_that_is_damaged,
    closed_mesh_loader,
    closed_reader,
    document,
    epoch_before_set_weights,
    external_loader,
    image_model,
    image_sizes,
    iterated_after_a_newer_one,
    job,
    loaded_by_loader_state,
    mesh_loader,
    returning,
    second_job_of_a_checkpoint,
    sequences,
    shared_out_again,
    state_with_damaged_weights,
    subclass,
    weighted_loader,
    written_after_close,
)
from PIL import Image
from shardmill.cli._commands import run
from shardmill.curate import (
    DocumentKeys,
    Filter,
    ImageStage,
    InterleavedJsonlSource,
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    SampleKeys,
    TableSource,
    WebDatasetSource,
    inspect,
    verify,
)
from shardmill.resume import Checkpoint, IdIndex

SNAPSHOT = Path(__file__).with_name("messages.txt")


def read(path: Any, **options: Any) -> Any:
    """All batches of a data set, as NumPy arrays unless asked otherwise."""
    files = {
        name: options.pop(name)
        for name in ("format", "schema", "partitioning", "errors")
        if name in options
    }
    return list(
        sm.Loader(
            sm.Dataset(path, **files), **{"output": "numpy", "rank": 0, "world_size": 1} | options
        )
    )


def written(*rows: Any, out: str = "new", batch: Any = None, **options: Any) -> None:
    """Rows written one by one, and a batch."""
    with sm.Writer(out, **options) as writer:
        writer.write_rows(rows)
        if batch is not None:
            writer.write_batch(batch)


def tokens(format: str = "megatron", **layout: Any) -> dict[str, Any]:
    """Options of a writer of token ids."""
    return {"format": format, "token_layout": sm.TokenLayout(**layout)}


def other_pair() -> str:
    """A pair of another type."""
    written({"x": [1]}, out="wide", **tokens(dtype="int32"))
    return "wide"


def loaded(state: Any, path: str = "a.parquet", **options: Any) -> None:
    """A state in a loader."""
    sm.Loader(path, output="numpy", rank=0, world_size=1, **options).load_state_dict(state)


def state(**changed: Any) -> Any:
    """The state of a loader, with some entries changed."""
    return sm.Loader("a.parquet", output="numpy", rank=0, world_size=1).state_dict() | changed


def packed_tokens(method: str = "", *arguments: Any, **options: Any) -> Any:
    """A batch of packs, or what a method of their packing returns for it."""
    packing = sm.Packing("t", length=8)
    (batch,) = read("long.parquet", packing=packing)
    return getattr(packing, method)(batch, *arguments, **options) if method else batch


def model(**changed: Any) -> dict[str, Any]:
    """The configuration of a model, with some entries changed."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    text = {"model_type": "llama", "intermediate_size": 160, "vocab_size": 100}
    return {**sizes, **text, **changed}


def failing(_batch: Any) -> Any:
    """A function of a user that fails."""
    raise ValueError("it failed")


def with_environment(call: Callable[[], Any], **variables: str) -> Any:
    """Call with these environment variables and no others about ranks."""
    kept = dict(os.environ)
    for name in ("RANK", "WORLD_SIZE"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    try:
        return call()
    finally:
        os.environ.clear()
        os.environ.update(kept)


class CommandFailed(Exception):
    """Exit code and stderr of a command."""


def command(*arguments: str) -> None:
    """A command line."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = run(arguments)
    if code:
        raise CommandFailed(f"exit code {code}\n{errors.getvalue().rstrip()}")


def unreachable(call: Callable[[str, dict[str, str]], Any]) -> None:
    """Call with an address at which no server listens, and options of a store there."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
    call(address, {"endpoint": address, "allow_http": "true", "retry_timeout": "1", **keys})


def lake(mark: str) -> None:
    """A directory with the mark of a table format."""
    Path(mark).parent.mkdir(parents=True, exist_ok=True)
    Path(mark).write_text("{}")
    sm.Dataset(Path(mark).parts[0])


def without(module: str, call: Callable[[], Any]) -> None:
    """Call as if a package were not installed."""
    kept = dict(sys.modules)
    for name in list(sys.modules):
        if name.partition(".")[0] == module or name.startswith("shardmill.integrations."):
            del sys.modules[name]
    sys.modules[module] = None  # pyright: ignore[reportArgumentType]
    try:
        call()
    finally:
        sys.modules.clear()
        sys.modules.update(kept)


Transform, Output, Packing, Mixture = sm.Transform, sm.Output, sm.Packing, sm.Mixture
TokenBatches = sm.TokenBatches


def rows_of_ray() -> Any:
    """A data set of Ray as far as options are checked."""
    return SimpleNamespace(context=importlib.import_module("ray.data").DataContext())


def of_ray(name: str) -> Any:
    """A function for Ray Data. No cluster is started before its arguments are checked."""
    return getattr(importlib.import_module("shardmill.integrations.ray"), name)


P = "a.parquet"

CASES: dict[str, Callable[[], Any]] = {
    # Opening a data set.
    "no file": lambda: sm.Dataset("none.parquet"),
    "no file of a glob": lambda: sm.Dataset("none*.parquet"),
    "no file in a store without a bucket": lambda: sm.Dataset("s3://"),
    "several formats in a directory": lambda: sm.Dataset("mixed"),
    "several formats of named files": lambda: sm.Dataset(["a.parquet", "lines.csv"]),
    "only files of another format": lambda: sm.Dataset("days", format="csv"),
    "directory of a Delta table": lambda: lake("delta/_delta_log/0.json"),
    "directory of an Iceberg table": lambda: lake("iceberg/metadata/v1.metadata.json"),
    "directory of a Hudi table": lambda: lake("hudi/.hoodie/hoodie.properties"),
    "types without a common one": lambda: sm.Dataset("conflict"),
    "unknown format": lambda: sm.Dataset(P, format="xlsx"),  # pyright: ignore[reportArgumentType]
    "unknown bytes": lambda: sm.Dataset("bytes.bin"),
    "bytes of another format": lambda: sm.Dataset("text.parquet"),
    "truncated Parquet": lambda: sm.Dataset("cut.parquet"),
    "damaged footer of Parquet": lambda: sm.Dataset("footer.parquet"),
    "encrypted Parquet": lambda: sm.Dataset("encrypted.parquet"),
    "type that Arrow does not have": lambda: sm.Dataset("wide.parquet"),
    "time that its unit cannot hold": lambda: read("times.parquet"),
    "truncated ArrayRecord": lambda: sm.Dataset("cut.array_record"),
    "truncated tar": lambda: sm.Dataset("cut.tar"),
    "truncated gzip": lambda: read("cut.jsonl.gz"),
    "unknown column": lambda: sm.Dataset(P, columns=["y"]),
    "one name for columns": lambda: sm.Dataset(P, columns="x"),
    "number for columns": lambda: sm.Dataset(P, columns=5),  # pyright: ignore[reportArgumentType]
    "number for a schema": lambda: sm.Dataset(P, schema=5),
    "number for a path": lambda: sm.Dataset(5),  # pyright: ignore[reportArgumentType]
    "number for a format": lambda: sm.Dataset(P, format=5),  # pyright: ignore[reportArgumentType]
    "schema of Parquet": lambda: sm.Dataset(P, schema=pa.schema({"x": pa.int8()})),
    "policy of rows of a data set": lambda: sm.Dataset(P, errors=sm.ErrorPolicy(rows="skip")),
    "data frame as a path": lambda: sm.Dataset(
        pl.DataFrame({"x": [1]})  # pyright: ignore[reportArgumentType]
    ),
    "filter by a partition without hive": lambda: sm.Dataset("days", filter="day > '2026'"),
    "column of a partition without hive": lambda: sm.Dataset("days", columns=["day"]),
    "partition compared with a date": lambda: sm.Dataset(
        "days", partitioning="hive", filter=sm.col("day") > datetime.date(2026, 1, 1)
    ),
    "tokenizer object": lambda: sm.Tokenizer(pl),  # pyright: ignore[reportArgumentType]
    "tokenizer by the name of a repository": lambda: sm.Tokenizer("Qwen/Qwen3-0.6B"),
    "tokenizer by the name of a model": lambda: sm.Tokenizer("gpt2"),
    "tokenizer of an unknown type": lambda: sm.Tokenizer("lines.csv"),
    "tokenizer in a directory without one": lambda: sm.Tokenizer("mixed"),
    "partition key that is a column": lambda: sm.Dataset("hive", partitioning="hive"),
    "unknown partitioning": lambda: sm.Dataset(
        P,
        partitioning="x",  # pyright: ignore[reportArgumentType]
    ),
    "index that lists more samples": lambda: read("mds"),
    "index of another version": lambda: sm.Dataset("version"),
    "row out of range": lambda: sm.Dataset(P)[10],
    "slice of rows": lambda: sm.Dataset(P)[1:2],
    "column in place of a row": lambda: sm.Dataset(P)["x"],  # pyright: ignore[reportArgumentType]
    "taken row out of range": lambda: sm.Dataset(P).take([10]),
    # Paths.
    "scheme that is almost one": lambda: sm.Dataset("s4://b/x/index.json"),
    "scheme of no store": lambda: sm.Dataset("ftp://host/x"),
    "scheme without two slashes": lambda: sm.Dataset("s3:/bucket/x"),
    "file URL of another host": lambda: sm.Dataset("file://host/x"),
    "output at a read-only store": lambda: sm.Writer("https://host/x.parquet"),
    # Filters.
    "filter of an unknown column": lambda: sm.Dataset(P, filter=sm.col("y") > 1),
    "filter of another type": lambda: sm.Dataset(P, filter=sm.col("x") > "a"),
    "filter of two types": lambda: sm.Dataset(P, filter=sm.col("x") > sm.col("s")),
    "filter with null": lambda: sm.col("x") == None,  # noqa: E711
    "filter with a sign of another language": lambda: sm.Dataset(P, filter="x > 1 && x < 5"),
    "filter with like": lambda: sm.Dataset(P, filter="s like 'a%'"),
    "filter with a string in double quotes": lambda: sm.Dataset(P, filter='s = "a"'),
    "filter with a string in double quotes in a list": lambda: sm.Dataset(P, filter='s in ("a")'),
    "filter of a column that is not boolean": lambda: sm.Dataset(P, filter="x"),
    "filter that compares constants of two types": lambda: sm.Dataset(P, filter="1 = '1'"),
    "filter with a wide character": lambda: sm.Dataset(P, filter="s = '日本' x"),
    "filter with a space in a name": lambda: sm.Dataset(P, filter="row id > 3"),
    "filter with an unknown operator": lambda: sm.Dataset(P, filter=[("x", "=>", 1)]),
    "filter without parentheses": lambda: sm.col("x") > 1 & sm.col("x"),
    "number for a filter": lambda: sm.Dataset(P, filter=5),  # pyright: ignore[reportArgumentType]
    # Text files.
    "value of another type in CSV": lambda: read(
        "lines.csv", schema=pa.schema({"x": pa.int64(), "y": pa.int64()})
    ),
    "fields missing in CSV": lambda: read("fields.csv"),
    "quote that is not closed": lambda: read("quote.csv"),
    "column twice in a header": lambda: read("header.csv"),
    "JSON that ends": lambda: read("bad.jsonl"),
    "line that is not an object": lambda: read("list.jsonl"),
    "field of two types": lambda: read("types.jsonl"),
    "field twice": lambda: read("field.jsonl"),
    "array without a comma": lambda: read("array.json"),
    # Tars and records.
    "extension twice in a sample": lambda: read("repeated.tar"),
    "member that is not JSON": lambda: list(sm.Dataset("json.tar")),
    "member that is not a number": lambda: read("class.tar"),
    "member that is not UTF-8": lambda: read("latin.tar"),
    "record out of range": lambda: sm.arrayrecord.ArrayRecordReader("records.array_record").read(
        [7]
    ),
    "record of a data source out of range": lambda: sm.arrayrecord.ArrayRecordDataSource(
        "records.array_record"
    )[7],
    "pattern for a data source": lambda: sm.arrayrecord.ArrayRecordDataSource("*.array_record"),
    "text for a record key": lambda: sm.arrayrecord.ArrayRecordDataSource("records.array_record")[
        "x"  # pyright: ignore[reportArgumentType]
    ],
    "option of a record writer by name": lambda: sm.arrayrecord.ArrayRecordWriter(
        "x.array_record", group_size=3
    ),
    "option of a record reader": lambda: sm.arrayrecord.ArrayRecordReader(
        "records.array_record", "x:1"
    ),
    "closed record reader": lambda: closed_reader().read([0]),
    "damaged ArrayRecord": lambda: sm.arrayrecord.ArrayRecordReader("flipped.array_record").read(
        [0]
    ),
    "rows of a damaged ArrayRecord": lambda: read("flipped.array_record"),
    # MDS.
    "index that is not JSON": lambda: sm.Dataset("json_index"),
    "shard that is missing": lambda: read("no_shard"),
    "shard that is truncated": lambda: read("short"),
    "shard that is damaged": lambda: read("flipped"),
    # Stores.
    "store that refuses connections": lambda: unreachable(
        lambda _, options: sm.Dataset("s3://bucket/data/", storage_options=options)
    ),
    "file of a server that refuses connections": lambda: unreachable(
        lambda at, _: sm.Dataset(f"{at}/x.parquet", storage_options={"retry_timeout": "1"})
    ),
    "output in a store that refuses connections": lambda: unreachable(
        lambda _, options: written({"x": 1}, out="s3://bucket/new.parquet", storage_options=options)
    ),
    # Nulls.
    "name of a mask that exists": lambda: read(
        "names.parquet", columns=["x", "x__valid"], output=Output("numpy", nulls="mask")
    ),
    "name of the marks of padded rows": lambda: read("names.parquet", tail="pad"),
    "null": lambda: read("nulls.parquet", columns=["n"]),
    "column that a file lacks": lambda: read(["a.parquet", "nulls.parquet"]),
    "null list": lambda: read("nulls.parquet", columns=["l"]),
    "fill value of an unknown column": lambda: read(
        P, output=Output("numpy", nulls="fill", fill_values={"y": 1})
    ),
    "fill value of another type": lambda: read(
        P, output=Output("numpy", nulls="fill", fill_values={"x": "a"})
    ),
    "fill value without the policy": lambda: read(P, output=Output("numpy", fill_values={"x": 1})),
    "nulls of arrow": lambda: Output("arrow", nulls="mask"),
    "fill values that are a list": lambda: Output(
        "numpy",
        nulls="fill",
        fill_values=[1],  # pyright: ignore[reportArgumentType]
    ),
    # Options of a loader.
    "batch_size 0": lambda: read(P, batch_size=0),
    "batch_size True": lambda: read(P, batch_size=True),
    "lanes 0": lambda: read(P, lanes=0),
    "seed 1.5": lambda: read(P, seed=1.5),
    "tail x": lambda: read(P, tail="x"),
    "output x": lambda: read(P, output="x"),
    "shuffle 5": lambda: read(P, shuffle=5),
    "negative window": lambda: sm.Shuffle(-1),
    "window of an unknown unit": lambda: sm.Shuffle("5 parsecs"),
    "threads 2000": lambda: sm.Runtime(threads=2000),
    "stall_seconds 0": lambda: sm.Runtime(stall_seconds=0),
    "runtime 5": lambda: read(P, runtime=5),
    "errors 5": lambda: read(P, errors="skip"),
    "unknown policy": lambda: sm.ErrorPolicy(rows="ignore"),  # pyright: ignore[reportArgumentType]
    "delimiter of two characters": lambda: sm.TextOptions(delimiter="||"),
    "id beyond the vocabulary": lambda: list(
        sm.Dataset("pair", token_files=sm.TokenFiles(vocab_size=9))
    ),
    "index of other tokens": lambda: sm.Dataset("cut"),
    "index that lies about a sequence": lambda: sm.Dataset("lie")[0],
    "width of other tokens": lambda: sm.Dataset("width.ds"),
    "tokens of an unknown type": lambda: sm.Dataset("bytes.bin", format="bin"),
    "eos that no token can be": lambda: sm.Dataset(
        "bytes.bin", format="bin", token_files=sm.TokenFiles(dtype="uint8", eos=50256)
    ),
    "array of NumPy as tokens": lambda: sm.Dataset(
        "array.npy", format="npy", token_files=sm.TokenFiles(dtype="uint16")
    ),
    "documents with a gap": lambda: sm.Dataset(
        "gap.npy", format="npy", token_files=sm.TokenFiles(dtype="uint16")
    ),
    "mask of another length": lambda: sm.Dataset(
        "flat.npy",
        format="npy",
        token_files=sm.TokenFiles(dtype="uint16", label_mask_paths="mask.npy"),
    ),
    "masks of other files": lambda: sm.Dataset(
        "flat.npy",
        format="npy",
        token_files=sm.TokenFiles(dtype="uint16", label_mask_paths=["mask.npy", "flat.npy"]),
    ),
    "rows with two separators": lambda: sm.TokenFiles(bos=1, eos=2),
    "rows of batches": lambda: sm.TokenFiles(rows="batches"),  # pyright: ignore[reportArgumentType]
    "token files of Parquet": lambda: sm.Dataset(P, token_files=sm.TokenFiles()),
    "separator of a pair": lambda: sm.Dataset("pair", token_files=sm.TokenFiles(eos=2)),
    "delimiter of Parquet": lambda: sm.Dataset(P, text=sm.TextOptions(delimiter=";")),
    "limit that is neither a count nor a fraction": lambda: sm.ErrorPolicy(
        rows="skip", max_rows=2.5
    ),
    "options of a store for a local path": lambda: sm.storage.configure("/data", {"region": "x"}),
    "limit without a policy": lambda: sm.ErrorPolicy(max_rows=1),
    "transform 5": lambda: Transform(5),  # pyright: ignore[reportArgumentType]
    "pin_memory of NumPy": lambda: read(P, runtime=sm.Runtime(pin_memory=True)),
    "filter beside a data set": lambda: read(P, filter=sm.col("x") > 1),
    "audit that was not asked for": lambda: sm.Loader(
        P, output="numpy", rank=0, world_size=1
    ).audit(),
    "epoch -1": lambda: sm.Loader(P, output="numpy", rank=0, world_size=1).set_epoch(-1),
    "index of a loader": lambda: sm.Loader(P, output="numpy", rank=0, world_size=1)[0],
    "rank without world_size": lambda: with_environment(lambda: sm.Loader(P, rank=1)),
    "rank beyond the world": lambda: read(P, rank=2, world_size=2),
    "world_size without a rank": lambda: with_environment(lambda: sm.Loader(P, world_size=2)),
    "RANK without WORLD_SIZE": lambda: with_environment(lambda: sm.Loader(P), RANK="1"),
    "RANK that is not a number": lambda: with_environment(
        lambda: sm.Loader(P), RANK="one", WORLD_SIZE="2"
    ),
    "transform that fails": lambda: read(P, batch_size=4, transform=failing),
    "older iterator": iterated_after_a_newer_one,
    # States.
    "state that is not one": lambda: loaded({}),
    "state of another version": lambda: loaded(state(version=9)),
    "state of another order": lambda: loaded(state(order_version=99)),
    "state with a text for a number": lambda: loaded(state(consumed="1")),
    "state past the end": lambda: loaded(state(consumed=11)),
    "state with another data set": lambda: loaded(state(dataset="x")),
    "state with other rows": lambda: loaded(state(rows=11)),
    "state of other lanes": lambda: loaded(state(), lanes=2),
    "state of other files": lambda: loaded(state(), path="tokens.parquet"),
    # Mixtures and packing.
    "mixture without sources": lambda: Mixture({}),
    "mixture with a slash": lambda: Mixture({"a/b": P}),
    "weight of an unknown source": lambda: Mixture({"a": P}, weights={"b": 1}),
    "set weight of an unknown source": lambda: weighted_loader().set_weights({"webb": 1}),
    "set weights without names": lambda: weighted_loader().set_weights([1]),
    "set weights that are zero": lambda: weighted_loader().set_weights({"web": 0, "code": 0}),
    "set weights of a data set": lambda: sm.Loader(P).set_weights({"web": 1}),
    "set weights of repeats": lambda: sm.Loader(Mixture([P])).set_weights({"0": 1}),
    "set weights without a process group": lambda: weighted_loader(
        packing=Packing("t", length=4, plan="ahead", epoch_packs=4), rank=0, world_size=2
    ).set_weights({"web": 1, "code": 1}),
    "group of another kind": lambda: weighted_loader().set_weights({"web": 1}, group=3),
    "epoch before set weights": epoch_before_set_weights,
    "pack before set weights": lambda: epoch_before_set_weights(
        packing=Packing("t", length=4, plan="ahead", epoch_packs=4)
    ),
    "state of other given weights": lambda: weighted_loader(web=1).load_state_dict(
        weighted_loader().state_dict()
    ),
    "state with damaged weights": state_with_damaged_weights,
    "packing of numbers": lambda: read("tokens.parquet", packing=Packing("n", length=4)),
    "packing of null lists": lambda: read("tokens.parquet", packing=Packing("t", length=4)),
    "packing of null tokens": lambda: read("tokens.parquet", packing=Packing("u", length=4)),
    "packing of a long row": lambda: read(
        "long.parquet", packing=Packing("t", length=4, strategy="best_fit", long="raise")
    ),
    "images of packs of tokens": lambda: read(
        "tokens.parquet", packing=Packing("t", length=4, max_images=2)
    ),
    "images of packs with lengths": lambda: Packing("t", length=4, lengths="n", max_patches=9),
    "packing of one column twice": lambda: Packing(["t", "t"], length=4),
    "packing of long rows by an unknown policy": lambda: Packing(
        "t",
        length=4,
        strategy="best_fit",
        long="x",  # pyright: ignore[reportArgumentType]
    ),
    "packing and bad rows": lambda: sm.Loader(
        "long.parquet",
        packing=Packing("t", length=4),
        errors=sm.ErrorPolicy(rows="skip"),
        output="numpy",
    ),
    # Tokens of images.
    "rule of a function that is a number": lambda: sm.ImageTokens(3, version="1"),  # pyright: ignore[reportArgumentType]
    "function without a version": lambda: sm.ImageTokens(max, version=1),  # pyright: ignore[reportArgumentType]
    "image size that is text": lambda: sm.ImageTokens.fixed("224", 256),  # pyright: ignore[reportArgumentType]
    "placeholder that is empty": lambda: sm.ImageTokens.qwen2_vl(placeholder=""),
    "prefix that is a number": lambda: sm.ImageTokens.qwen2_vl(prefix=7),  # pyright: ignore[reportArgumentType]
    "heights that are floats": lambda: sm.ImageTokens.qwen2_vl().count([1.5], [2]),
    "heights without widths": lambda: sm.ImageTokens.qwen2_vl().count([1, 2], [2]),
    "image that cannot be planned": lambda: sm.ImageTokens.qwen2_vl().expansion(1, 201),
    "function that returns a list": lambda: image_sizes([]),
    "function with floats": lambda: image_sizes({"height": [1.5]}),
    "function below 0": lambda: image_sizes({"tokens": [-1]}),
    "function without a height": lambda: image_sizes({"height": [0]}),
    "model of images without files": lambda: sm.ImageTokens.from_pretrained("missing"),
    "model of images that is a number": lambda: sm.ImageTokens.from_pretrained(3),  # pyright: ignore[reportArgumentType]
    "processor of images that is not JSON": lambda: image_model(text="{"),
    "processor of images that is a list": lambda: image_model(text="[]"),
    "processor of images without a class": lambda: image_model(text="{}"),
    "processor of images of an unknown class": lambda: image_model(
        image_processor_type="BlipImageProcessor"
    ),
    "processor of images with an unknown key": lambda: image_model(max_pixel=1),
    "processor of images that does not resize": lambda: image_model(do_resize=False),
    "processor of images with a text": lambda: image_model(patch_size="14"),
    "processor of images with a number as a flag": lambda: image_model(do_resize=1),
    "processor of images without an edge": lambda: image_model(size={}),
    # Sequences of documents.
    "sequences without a token of images": lambda: sequences(placeholder="<image>"),
    "sequences with an id that is too large": lambda: sequences(placeholder=10**6),
    "messages without images": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer, messages="messages"
    ),
    "images of messages without messages": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer, images_from="images"
    ),
    "separator of messages": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer,
        messages="messages",
        images_from="images",
        images=sm.ImageTokens.qwen2_vl(),
        separator=" ",
    ),
    "labels of sequences that are answers": lambda: sequences(labels="assistant"),
    "two columns of one name": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer, output="labels"
    ),
    "rule without pixels": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer,
        images=sm.ImageTokens(lambda heights, widths: {}, version="1"),
    ),
    "rule without normalization": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer,
        images=sm.ImageTokens.fixed(224, 9, fit="stretch", placeholder=7),
    ),
    "rule that crops images to other shapes than squares": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer,
        images=sm.ImageTokens.fixed((224, 336), 9, placeholder=7),
    ),
    "marker without images": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer, marker="<image>"
    ),
    "sizes without images": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer, image_output=sm.ImageOutput(sizes=("width", "height"))
    ),
    "sizes that are one name": lambda: sm.ImageOutput(sizes=("width",)),  # pyright: ignore[reportArgumentType]
    "size in a column of parts": lambda: sequences(sizes=("width", "position")),
    "sizes that a file does not state": lambda: document(
        {"modality": "image"}, sequences=sequences(sizes=("width", "height"))
    ),
    "image of another size than stated": lambda: document(
        {
            "modality": "image",
            "binary_content": encoded(Image.new("RGB", (56, 28)), "PNG"),
            "width": 28,
            "height": 56,
        },
        sequences=sequences(sizes=("width", "height")),
    ),
    "positions of images without images": lambda: sm.Sequences(
        tokenizer=sequences().tokenizer, positions="mrope"
    ),
    "part of documents that is missing": lambda: sm.Dataset(
        P, sequences=sm.Sequences(tokenizer=sequences().tokenizer, parts=["missing"])
    ),
    "labels of texts for a text column": lambda: sm.Tokenize(
        "text", tokenizer=sequences().tokenizer, labels="text"
    ),
    "sequences with a file of rows": lambda: sm.Dataset(P, sequences=sequences()),
    "sequences beside images": lambda: sm.Dataset(
        P, sequences=sequences(), images=sm.Images("i", size=9)
    ),
    "part without a modality": lambda: document({}),
    "image without bytes": lambda: document({"modality": "image"}),
    "image of sequences without a rule": lambda: document(
        {"modality": "image"}, sequences=sm.Sequences(tokenizer=sequences().tokenizer)
    ),
    "part of another modality": lambda: document({"modality": "audio"}),
    "labels of placeholders that a packing makes": lambda: document(
        {"modality": "text", "text_content": "a"},
        packing=sm.Packing(["tokens"], length=8, strategy="best_fit", long="drop", next_token=True),
    ),
    "packs that repeat a token of an image": lambda: document(
        {"modality": "text"}, packing=sm.Packing("tokens", length=9, overlap=1)
    ),
    "packs that cut documents of stated lengths": lambda: document(
        {"modality": "text"}, packing=sm.Packing("tokens", length=9, lengths="source_ref")
    ),
    "document with too many patches": lambda: len(
        document(
            {"modality": "image", "binary_content": encoded(Image.new("RGB", (56, 28)), "PNG")},
            packing=sm.Packing(
                "tokens", length=9, strategy="best_fit", long="raise", max_patches=4
            ),
        )
    ),
    "coefficient below 0": lambda: sm.Cost(pair=-1),
    "coefficients that are all 0": lambda: sm.Cost(token=0),
    "coefficients that are too far apart": lambda: sm.Cost(pair=1e-12),
    "window without the cost of its pairs": lambda: sm.Cost(window=4096),
    "pairs of a window without the window": lambda: sm.Cost(window_pair=1e-5),
    "model of an unknown type": lambda: sm.Cost.from_config({"model_type": "mamba"}),
    "model without a number": lambda: sm.Cost.from_config({"model_type": "llama"}),
    "model that is an object": lambda: sm.Cost.from_config(object()),  # pyright: ignore[reportArgumentType]
    "model that is a repository": lambda: sm.Cost.from_config("Qwen/Qwen3-0.6B"),
    "model that is not JSON": lambda: sm.Cost.from_config("lines.csv"),
    "vision part of an unknown type": lambda: sm.Cost.from_config(
        model(vision_config={"model_type": "clip_vision_model"})
    ),
    "layers of an unknown type": lambda: sm.Cost.from_config(model(layer_types=["linear"])),
    "number of a model that is text": lambda: sm.Cost.from_config(model(hidden_size="64")),
    "term that is unknown": lambda: sm.Cost.fit({"tokens": [1, 2]}, [1, 2]),
    "steps with other terms": lambda: sm.Cost.fit([{"token": 1}, {"pair": 1}], [1, 2]),
    "steps without a time": lambda: sm.Cost.fit({"token": [1, 2]}, [1]),
    "steps that are too few": lambda: sm.Cost.fit({"token": [1, 2], "pair": [3, 7]}, [1, 2]),
    "steps that are all alike": lambda: sm.Cost.fit({"token": [8, 8]}, [1, 2]),
    "terms that are proportional": lambda: sm.Cost.fit(
        {"token": [1, 2, 4], "pair": [2, 4, 8]}, [1, 2, 3]
    ),
    "time that is not a number": lambda: sm.Cost.fit({"token": [1, 2]}, [1, float("nan")]),
    "time that does not grow": lambda: sm.Cost.fit({"token": [1, 2, 3]}, [3, 2, 1]),
    "packing length 0": lambda: Packing("t", length=0),
    "packs that cannot be divided": lambda: Packing("t", length=100, multiple_of=16),
    "packs that repeat a token of whole rows": lambda: Packing(
        "t", length=4, strategy="best_fit", overlap=1
    ),
    "labels across documents without labels": lambda: Packing("t", length=4, across=True),
    "documents that cannot be cut into chunks": lambda: packed_tokens("context_parallel", 0, 2),
    "labels of another name": lambda: packed_tokens("context_parallel", 0, 1, labels="x"),
    "more documents than expected": lambda: packed_tokens("varlen", style="flash", max_documents=1),
    "packs of another length": lambda: Packing("t", length=4).cu_seqlens(packed_tokens()),
    "balance of another type": lambda: Packing("t", length=4, balance=4),  # pyright: ignore[reportArgumentType]
    "balance with another cost": lambda: sm.Balance(1, 4),  # pyright: ignore[reportArgumentType]
    "balance of steps above the window": lambda: sm.Balance(sm.Cost(), 9, window_packs=8),
    "balance of windows of one pack": lambda: sm.Balance(sm.Cost(), 4, window_packs=1),
    "plan ahead without the length of an epoch": lambda: Packing("t", length=4, plan="ahead"),
    "plan ahead with two lengths of an epoch": lambda: Packing(
        "t", length=4, plan="ahead", epoch_packs=2, epoch_tokens=8
    ),
    "length of an epoch without plan ahead": lambda: Packing("t", length=4, epoch_packs=2),
    "lane without tokens": lambda: read(
        "long.parquet", packing=Packing("t", length=4, plan="ahead", epoch_packs=4), lanes=2
    ),
    "state of plan ahead": lambda: sm.Loader(
        "long.parquet", packing=Packing("t", length=4), output="numpy"
    ).load_state_dict(
        sm.Loader(
            "long.parquet", packing=Packing("t", length=4, plan="ahead", epoch_packs=4)
        ).state_dict()
    ),
    "pad value of another type": lambda: read(
        "long.parquet", packing=Packing("t", length=4, pad_value=0.5)
    ),
    "packing of another type": lambda: read("long.parquet", packing="t"),
    "batches of columns without names": lambda: TokenBatches([1]),  # pyright: ignore[reportArgumentType]
    "batches without columns": lambda: TokenBatches([]),
    "batches shorter than a multiple": lambda: TokenBatches("t", tokens=4, multiple_of=8),
    "batches of a size": lambda: read("long.parquet", packing=TokenBatches("t"), batch_size=4),
    "batches of dicts": lambda: read("long.parquet", packing=TokenBatches("t"), output="dict"),
    "batches that are padded twice": lambda: read(
        "long.parquet", packing=TokenBatches("t"), output=Output("numpy", pad=8)
    ),
    "batches without their column": lambda: read(
        "tokens.parquet", packing=TokenBatches("t"), columns=["n"]
    ),
    "batches of a long row": lambda: read("long.parquet", packing=TokenBatches("t", tokens=4)),
    "batches that pad numbers": lambda: read("tokens.parquet", packing=TokenBatches(["t", "n"])),
    "batches by lengths that are lists": lambda: read(
        "long.parquet", packing=TokenBatches([], lengths="t")
    ),
    "batches by a length that is null": lambda: read(
        "nulls.parquet", packing=TokenBatches([], lengths="n"), columns=["f"]
    ),
    "batches by floats with a multiple": lambda: read(
        "nulls.parquet", packing=TokenBatches([], lengths="f", multiple_of=8)
    ),
    # Writing.
    "file that exists": lambda: written({"x": 1}, out=P),
    "directory with files": lambda: written({"x": 1}, out="parts"),
    "extension of another format": lambda: sm.Writer("x.parquet", format="jsonl"),
    "extension that is unknown": lambda: sm.Writer("x.xyz"),
    "extension of a format that is only read": lambda: sm.Writer("x.csv"),
    "unknown written format": lambda: sm.Writer(
        "x",
        format="xlsx",  # pyright: ignore[reportArgumentType]
    ),
    "append to another format": lambda: sm.Writer("parts", format="jsonl", mode="append"),
    "append other columns": lambda: written({"y": 1}, out="parts", mode="append"),
    "append to a file": lambda: sm.Writer(P, mode="append"),
    "mode resume": lambda: sm.Writer("new", mode="resume"),  # pyright: ignore[reportArgumentType]
    "compression 5": lambda: sm.Writer("new", compression=5),  # pyright: ignore[reportArgumentType]
    "compression that is unknown": lambda: sm.Writer("new", compression="lz9"),
    "hashes of Parquet": lambda: sm.Writer("new", hashes=["sha1"]),
    "hash that is unknown": lambda: sm.Writer(
        "new", format="mds", columns={"x": "int"}, hashes=["sha0"]
    ),
    "group_size of Parquet": lambda: sm.Writer("new", group_size=2),
    "type that is unknown": lambda: sm.Writer("new", columns={"x": "int65"}),
    "encoding that is unknown": lambda: sm.Writer("new", format="mds", columns={"x": "int65"}),
    "column of pickles": lambda: sm.Writer("new", format="mds", columns={"x": "pkl"}),
    "types and a schema": lambda: sm.Writer(
        "new", columns={"x": "int"}, schema=pa.schema({"x": pa.int64()})
    ),
    "shard_bytes 0": lambda: sm.Writer("new", shard_bytes=0),
    "no rows and no schema": lambda: sm.Writer("new").close(),
    "row that is not a mapping": lambda: written([1]),
    "row without a column": lambda: written({"y": 1}, columns=["x"]),
    "row with another column": lambda: written({"x": 1, "y": 2}, columns={"x": "int32"}),
    "row with a column that the schema lacks": lambda: written(
        {"x": 1, "y": 2}, schema=pa.schema({"x": pa.int64()})
    ),
    "value of another type": lambda: written({"x": "a"}, schema=pa.schema({"x": pa.int64()})),
    "value that is rounded": lambda: written({"x": 1.5}, schema=pa.schema({"x": pa.int64()})),
    "object without a type": lambda: written({"x": len}),
    "columns of other lengths": lambda: written(batch={"x": [1], "y": [1, 2]}),
    "batch without Arrow data": lambda: written(batch=5),
    "null in MDS": lambda: written({"x": None}, format="mds", columns={"x": "int"}),
    "text of MDS that is not an integer": lambda: written(
        {"x": "a"}, format="mds", columns={"x": "str_int"}
    ),
    "array of another type": lambda: written(
        {"x": np.zeros(2)}, format="mds", columns={"x": "ndarray:int8"}
    ),
    "key of a map twice in MDS": lambda: written(
        batch=pa.table({"x": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8()))}),
        format="mds",
    ),
    "nan in JSONL": lambda: written({"x": float("nan")}, out="new.jsonl"),
    "bytes in JSONL": lambda: written({"x": b"a"}, out="new.jsonl"),
    "columns of ArrayRecord": lambda: written({"x": 1, "y": 2}, out="new.array_record"),
    "number in ArrayRecord": lambda: written(5, out="new.array_record"),
    "null in ArrayRecord": lambda: written({"x": None}, out="new.array_record"),
    "token that does not fit": lambda: written({"x": [70_000]}, **tokens(dtype="uint16")),
    "token beyond the vocabulary": lambda: written({"x": [9]}, **tokens(vocab_size=9)),
    "null in tokens": lambda: written({"x": [1]}, {"x": None}, **tokens()),
    "tokens that are text": lambda: written({"x": "a"}, **tokens()),
    "tokens with another column": lambda: written({"tokens": [1], "x": 1}, **tokens()),
    "sequences of other lengths": lambda: written(
        {"tokens": [1, 2], "sequence_lengths": [1, 2]}, **tokens()
    ),
    "modes of other sequences": lambda: written(
        {"tokens": [1, 2], "sequence_lengths": [1, 1], "modes": [1]}, **tokens()
    ),
    "pair without a name": lambda: written(out="parts/", **tokens()),
    "pair that exists": lambda: written({"x": [1]}, out="pair", **tokens()),
    "file of tokens over a pair": lambda: written(
        {"tokens": [1]}, out="pair.bin", mode="overwrite", **tokens("bin")
    ),
    "append to a pair": lambda: written({"x": [1]}, mode="append", **tokens()),
    "uint32 of Megatron-LM": lambda: written(**tokens(dtype="uint32")),
    "header of int32": lambda: written(**tokens("bin", header="llm.c", dtype="int32")),
    "shard without room for a token": lambda: written(
        shard_bytes=1024, **tokens("bin", header="llm.c")
    ),
    "header of a pair": lambda: written(**tokens(header="llm.c")),
    "layout of Parquet": lambda: written(**tokens("parquet")),
    "compressed tokens": lambda: written(compression="zstd", **tokens()),
    "layout of another class": lambda: written(token_layout="uint16", format="bin"),
    "merge of a pair and a directory": lambda: sm.merge("all", ["pair", "parts"]),
    "merge into a pair": lambda: sm.merge("pair", ["pair", "pair"]),
    "tokens without their column": lambda: written({"x": [1], "y": 1}, **tokens()),
    "source of tokens without provenance": lambda: sm.Provenance("pair"),
    "merge of other types": lambda: sm.merge("all", ["pair", other_pair()]),
    "number in a tar": lambda: written({"x": 0.5}, out="new.tar"),
    "sample without members": lambda: written(
        {"txt": None}, {"txt": None}, out="new.tar", schema=pa.schema({"txt": pa.string()})
    ),
    "closed writer": written_after_close,
    "merge of nothing": lambda: sm.merge("empty"),
    # Curation.
    "source that is a path": lambda: Pipeline(
        source="in",  # pyright: ignore[reportArgumentType]
        sink=ParquetSink("new"),
    ),
    "sink that is a path": lambda: Pipeline(
        source=TableSource("in"),
        sink="new",  # pyright: ignore[reportArgumentType]
    ),
    "stage that is a function": lambda: job(failing),
    "stage that is a class": lambda: job(Filter),
    "stage without a name": lambda: job(ImageStage()),
    "stages that are one stage": lambda: Pipeline(
        source=TableSource("in"),
        sink=ParquetSink("new"),
        stages=Map(failing),  # pyright: ignore[reportArgumentType]
    ),
    "sink that appends": lambda: ParquetSink(
        "new",
        mode="append",  # pyright: ignore[reportArgumentType]
    ),
    "sink of an unknown codec": lambda: job(sink=ParquetSink("new", compression="lz9")),
    "codec of a sink that is a number": lambda: ParquetSink(
        "new",
        compression=5,  # pyright: ignore[reportArgumentType]
    ),
    "row_group_size of text": lambda: ParquetSink(
        "new",
        row_group_size="5",  # pyright: ignore[reportArgumentType]
    ),
    "max_errors of text": lambda: job(max_errors="5"),
    "threads of text": lambda: job(run={"threads": "2"}),
    "executor that is unknown": lambda: job(run={"executor": "dask"}),
    "workers without Ray": lambda: job(run={"workers": 2}),
    "output that exists": lambda: job(sink=ParquetSink("parts")),
    "output inside the input": lambda: job(sink=ParquetSink("in/out", mode="resume")),
    "output that is overwritten": lambda: job(
        source=TableSource("in/a.parquet"), sink=ParquetSink("in", mode="overwrite")
    ),
    "no input": lambda: job(source=TableSource("empty")),
    "input of several formats": lambda: job(source=TableSource("mixed")),
    "unknown column of a source": lambda: job(source=TableSource("in", columns=["y"])),
    "stage that fails": lambda: job(Map(failing)),
    "stage that returns no table": lambda: job(Map(len)),
    "result of another type": lambda: job(returning([1], ["a"])),
    "result with a new column": lambda: job(returning([1], None)),
    "result without a type": lambda: job(returning([None], [1])),
    "result with two columns of one name": lambda: job(
        Map(lambda table: table.append_column(table.column_names[0], table.column(0)))
    ),
    "declared type that is too small": lambda: job(
        source=TableSource("in", schema_overrides={"x": pa.bool_()})
    ),
    "path of bytes of a job": lambda: TableSource(b"in"),
    "overrides that are a list": lambda: TableSource("in", schema_overrides=["x"]),
    "overrides of an unknown type": lambda: job(
        source=TableSource("in", schema_overrides={"x": "number"})
    ),
    "null in a column without nulls": lambda: job(
        sink=ParquetSink("exact", schema=pa.schema([pa.field("new", pa.int8(), nullable=False)]))
    ),
    "declared id column": lambda: job(
        source=TableSource("in", schema_overrides={"x": pa.string()}),
        checkpoint={"path": "ids", "id_column": "x"},
    ),
    "filter stage of an unknown column": lambda: job(Filter(sm.col("y") > 1)),
    "documents without samples": lambda: job(source=WebDatasetSource("empty")),
    "max_problems of text": lambda: verify(
        P,
        max_problems="5",  # pyright: ignore[reportArgumentType]
    ),
    "layout that is unknown": lambda: verify(P, layout="x"),  # pyright: ignore[reportArgumentType]
    "first of text": lambda: inspect(P, first="5"),  # pyright: ignore[reportArgumentType]
    "field that no sample has": lambda: job(
        source=WebDatasetSource("documents.tar", fields=["title"])
    ),
    "texts that no sample has": lambda: job(
        source=WebDatasetSource("documents.tar", keys=SampleKeys(texts_field="paragraphs"))
    ),
    "rows that are not documents": lambda: job(source=InterleavedParquetSource("in/a.parquet")),
    "objects that are not documents": lambda: job(source=InterleavedJsonlSource("types.jsonl")),
    "part that is named twice": lambda: DocumentKeys(parts=("image", "image")),
    "marker without a character": lambda: DocumentKeys(marker=""),
    "keys of another source": lambda: InterleavedParquetSource(
        P,
        keys=SampleKeys(),  # pyright: ignore[reportArgumentType]
    ),
    "reserved field": lambda: job(source=WebDatasetSource("documents.tar", fields=["sample_id"])),
    "input twice": lambda: job(source=TableSource(["in/a.parquet", "in/a.parquet"])),
    # Checkpoints.
    "checkpoint of another job": lambda: [
        job(Filter(sm.col("x") > bound), checkpoint="other") for bound in (1, 2)
    ],
    "checkpoint of an input that changed": checkpoint_of_a_changed_input,
    "checkpoint whose files are damaged": checkpoint_that_is_damaged,
    "checkpoint that is a number": lambda: Checkpoint(5),  # pyright: ignore[reportArgumentType]
    "done that is a number": lambda: Checkpoint(
        "state",
        "id",
        done=5,  # pyright: ignore[reportArgumentType]
    ),
    "done without ids": lambda: Checkpoint("state", done="x"),
    "checkpoint inside the output": lambda: job(checkpoint="curated/state"),
    "checkpoint of an unknown id": lambda: job(checkpoint=Checkpoint("state", "id")),
    "checkpoint of null ids": lambda: job(
        source=TableSource("ids.parquet"), checkpoint=Checkpoint("state2", "id")
    ),
    "checkpoint with an unknown option": lambda: job(checkpoint={"path": "state", "ids": "x"}),
    "checkpoint to relocate that is missing": lambda: Checkpoint("nothing").relocate(output="in"),
    "checkpoint of a job that is running": second_job_of_a_checkpoint,
    "id index that is damaged": lambda: IdIndex.open("flipped.ids"),
    "id index of another format": lambda: IdIndex.open("foreign.ids"),
    "id index that is missing": lambda: IdIndex.open("none.ids"),
    # Packages that are not installed.
    "Ray is missing": lambda: without("ray", lambda: job(run={"executor": "ray"})),
    "Ray is missing for a checkpoint": lambda: without(
        "ray", lambda: importlib.import_module("shardmill.integrations.ray_checkpoint")
    ),
    "PyTorch is missing": lambda: without(
        "torch", lambda: list(sm.Loader(P, rank=0, world_size=1))
    ),
    # Ray Data.
    "ids of Ray Data that are a number": lambda: of_ray("read")(P, ids=5),
    "ids of Ray Data that are a column": lambda: of_ray("read")(P, ids="x"),
    "ids of Ray Data and a filter": lambda: of_ray("read")(P, ids="_row", filter="x > 1"),
    "option of a data set for Ray Data": lambda: of_ray("read")(sm.Dataset(P), columns=["x"]),
    "checkpoint of Ray Data without ids": lambda: of_ray("read")(P, checkpoint="c"),
    "checkpoint of Ray Data in a store": lambda: of_ray("read")(
        P, ids="_row", checkpoint="s3://bucket/c"
    ),
    "checkpoint of a write of Ray Data alone": lambda: of_ray("write")(
        rows_of_ray(), "new", checkpoint="c"
    ),
    "rows of Ray Data to a store that is read only": lambda: of_ray("write")(
        rows_of_ray(), "hf://datasets/owner/name"
    ),
    "rows of Ray Data to a file": lambda: of_ray("write")(None, "out.parquet"),
    # Trainers.
    "state without LoaderState": lambda: loaded_by_loader_state({"epoch": 0}),
    "batches of a rank under Accelerate": shared_out_again,
    "loader of another rank in Megatron": lambda: external_loader(1, 2),
    "directory without a state of Megatron": lambda: external_loader(0, 1),
    # Meshes of ranks.
    "mesh that is a number": lambda: mesh_loader(mesh=2),
    "no mesh": mesh_loader,
    "mesh and data rank": lambda: mesh_loader("dp", data_parallel=(0, 1)),
    "mesh without a dimension of data": lambda: mesh_loader("tp", "pp"),
    "mesh with two dimensions of data": lambda: mesh_loader("dp", "batch"),
    "dimension of data that is unknown": lambda: mesh_loader("dp", data="pp"),
    "dimension of data without a mesh": lambda: mesh_loader(data="dp"),
    "data rank that is too large": lambda: mesh_loader(data_parallel=(2, 2)),
    "replica that is not a group": lambda: mesh_loader(data_parallel=(0, 1), replica=[0]),
    "columns of two dimensions": lambda: mesh_loader("dp", columns={"pp": [], "tp": []}),
    "columns of a dimension of data": lambda: mesh_loader("dp", columns={"dp": ["x"]}),
    "columns of ranks that read": lambda: mesh_loader("dp", columns={"dp": []}, share="read"),
    "timeout of a mesh that is 0": lambda: mesh_loader("dp", timeout=0),
    "loader of a mesh that is a path": lambda: mesh_loader("dp", loader="a.parquet"),
    "loader of a mesh that returns a path": lambda: mesh_loader("dp", loader=lambda: P),
    "loader of a mesh with another rank": lambda: mesh_loader(
        "dp", load={"rank": 1, "world_size": 2}
    ),
    "loader of a mesh that has begun": begun_mesh_loader,
    "mesh loader that is closed": closed_mesh_loader,
    # Names of other libraries.
    "epochs of a loader": lambda: sm.Loader(P, epochs=3),  # pyright: ignore[reportCallIssue]
    "images of a loader": lambda: sm.Loader(
        P,
        images=sm.Images("s", size=8),  # pyright: ignore[reportCallIssue]
    ),
    "tokenize of a loader": lambda: sm.Loader(P, tokenize=None),  # pyright: ignore[reportCallIssue]
    "filter of a mixture": lambda: sm.Mixture(
        [P],
        filter="x > 1",  # pyright: ignore[reportCallIssue]
    ),
    "steps of a loader as an option": lambda: sm.Loader(
        P,
        max_steps=3,  # pyright: ignore[reportCallIssue]
    ),
    "download_retry of a loader": lambda: sm.Loader(
        P,
        download_retry=3,  # pyright: ignore[reportCallIssue]
    ),
    "train_test_split of a data set": lambda: (
        sm.Dataset(P).train_test_split  # pyright: ignore[reportAttributeAccessIssue]
    ),
    "nulls of a loader": lambda: sm.Loader(P, nulls="fill"),  # pyright: ignore[reportCallIssue]
    "collate_fn of a loader": lambda: sm.Loader(
        P,
        collate_fn=list,  # pyright: ignore[reportCallIssue]
    ),
    "steps without rows": lambda: sm.Loader("empty", rank=0, world_size=1, output="numpy").steps(3),
    "steps that are all dropped": lambda: sm.Loader(
        P, rank=0, world_size=1, output="numpy", batch_size=99, tail="drop"
    ).steps(3),
    "subclass that changes rows": lambda: sm.Loader(subclass()(P)),
    "texts that are packed": lambda: sm.Loader(
        P, packing=sm.Packing("s", length=4), rank=0, world_size=1
    ),
    "field of a text": lambda: sm.Dataset(P, filter="s.en > 0.5"),
    "map of a data set": lambda: sm.Dataset(P).map,  # pyright: ignore[reportAttributeAccessIssue]
    "shuffle of a data set": lambda: (
        sm.Dataset(P).shuffle  # pyright: ignore[reportAttributeAccessIssue]
    ),
    "attribute that is unknown": lambda: (
        sm.Dataset(P).schemas  # pyright: ignore[reportAttributeAccessIssue]
    ),
    "directory of save_to_disk": lambda: sm.Dataset("arrow"),
    "Arrow file": lambda: sm.Dataset("arrow/data-00000-of-00001.arrow"),
    "directory of image files": lambda: sm.Dataset("photos"),
    "image file": lambda: sm.Dataset("photos/1.jpg"),
    # Commands.
    "command that is unknown": lambda: command("heads", P),
    "option of a command that is unknown": lambda: command("head", P, "--row", "5"),
    "command without a path": lambda: command("head"),
    "command with a path that is missing": lambda: command("head", "none.parquet"),
    "count that is not a number": lambda: command("head", P, "--rows", "five"),
    "filter of a command that is not valid": lambda: command("head", P, "--filter", "x >"),
    "column of a command that is unknown": lambda: command("head", P, "--columns", "y"),
    "output of a command that exists": lambda: command("convert", P, "nulls.parquet"),
    "format of a command that is unknown": lambda: command("convert", P, "new.xlsx"),
    "cost of a command without packs": lambda: command("explain", P, "--cost", "none.json"),
    "cost of a command on one rank": lambda: command(
        "explain", P, "--cost", "none.json", "--pack", "8", "--per-step", "4"
    ),
    "model of a command without packs": lambda: command("explain", P, "--model", "none"),
    "parts of a command without a model": lambda: command("explain", P, "--parts", "x"),
    "count of a command without a model": lambda: command("count", P),
    "documents of a loader without packs": lambda: sm.Loader(P, output="numpy").explain(
        documents=True
    ),
}


def outcome(call: Callable[[], Any]) -> str:
    """Class and whole text of what a call raises, with notes, without the temporary directory."""
    try:
        call()
    except Exception as error:
        notes = "".join(f"\nnote: {note}" for note in getattr(error, "__notes__", ()))
        text = f"{type(error).__name__}: {error}{notes}"
        return normalized(text)
    return "nothing"


def normalized(text: str) -> str:
    """Without what differs between machines and runs."""
    text = text.replace(f"{Path.cwd()}/", "")
    text = re.sub(r" at 0x\w+", "", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r"in [\d.]+m?s, after \d+ retries", "in TIME, after N retries", text)
    text = re.sub(r"os error \d+", "os error N", text)
    text = re.sub(r"process \d+ on [^\s,]+", "process PID on HOST", text)
    text = re.sub(r"\b[0-9a-f]{32}\b", "JOB", text)
    return re.sub(r"\n\n+", "\n", text)


def snapshot(found: dict[str, str]) -> str:
    """The outcomes as text."""
    return "".join(f"[{name}]\n{text}\n\n" for name, text in found.items())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(os.path.realpath(directory))
        write_files()
        SNAPSHOT.write_text(
            snapshot({name: outcome(call) for name, call in CASES.items()}), encoding="utf-8"
        )
    print(f"wrote {SNAPSHOT.name}", file=sys.stderr)
