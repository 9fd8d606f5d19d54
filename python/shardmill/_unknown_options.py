"""Errors for unknown options. They name the option to use instead, also for option names of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

_Target = TypeVar("_Target", bound=Callable[..., Any])

#: Options of files, which are set on the data set of a loader.
_OF_FILES = {
    name: f"use sm.Loader(sm.Dataset(path, {name}=…)): the options of files belong to the data set"
    for name in (
        *("format", "schema", "text", "partitioning", "pickles", "ignore_zeros", "max_decoded_bytes"),
        *("tokenize", "images"),
    )
}
_PROCESSES = "remove it: native threads replace worker processes"
_ORDER = "use shuffle=True, filter=… or sm.Mixture(…, weights=…) for rows, and rank= and world_size= for ranks"
_PATHS = {
    "split": 'name its files, such as "data/train-*.parquet"',
    "data_files": "pass the paths first: a file, a directory, a glob, or a list of these",
    "data_dir": "pass the directory first",
    "local": "pass the path first, local or remote",
    "remote": "pass the path first, local or remote; storage_options= configures its store",
    "name": "pass the files of this configuration, such as its directory",
    "streaming": "remove it: rows are always read on access",
    "trust_remote_code": "remove it: no code is run",
    "cache_dir": 'use storage_options={"cache_dir": …}',
    "token": 'use storage_options={"token": …}',
    **dict.fromkeys(
        ("filesystem", "fs"), "pass the file system as path, or the options of its store as storage_options="
    ),
    "usecols": "use columns=…",
    "on_bad_files": 'use errors=sm.ErrorPolicy(files="skip")',
    **dict.fromkeys(("on_bad_lines", "bad_lines"), 'use errors=sm.ErrorPolicy(lines="skip")'),
}
_SEED = dict.fromkeys(("generator", "shuffle_seed", "random_state"), "use seed=…")
_WINDOW = "use shuffle=sm.Shuffle(window_bytes=…): the rows of a window of this size are shuffled together"

LOADER = {
    **_OF_FILES,
    **_PATHS,
    **_SEED,
    **{
        name: f"use runtime=sm.Runtime({name}=…)"
        for name in ("threads", "prefetch_bytes", "device", "pin_memory", "stall_seconds", "audit")
    },
    **dict.fromkeys(
        ("num_workers", "workers"), "use runtime=sm.Runtime(threads=…): native threads replace worker processes"
    ),
    **dict.fromkeys(("persistent_workers", "worker_init_fn", "multiprocessing_context", "in_order"), _PROCESSES),
    **dict.fromkeys(
        ("prefetch_factor", "predownload"),
        "use runtime=sm.Runtime(prefetch_bytes=…): prefetching is limited by size in bytes",
    ),
    "timeout": "use runtime=sm.Runtime(stall_seconds=…), which warns about late batches",
    "pin_memory_device": "use runtime=sm.Runtime(device=…)",
    **dict.fromkeys(("drop_last", "drop_last_batch"), 'use tail="drop"'),
    "collate_fn": 'use output="rows", transform=…: the function gets a list of samples, each a dict',
    "transform_workers": "use transform=sm.Transform(function, workers=…)",
    **dict.fromkeys(("sampler", "batch_sampler"), _ORDER),
    **dict.fromkeys(("shuffle_buffer_size", "buffer_size", "shuffle_window_bytes", "window_bytes"), _WINDOW),
    **dict.fromkeys(("num_replicas", "num_ranks", "num_shards"), "use world_size=…"),
    "num_canonical_nodes": "use lanes=…",
    **dict.fromkeys(
        ("nulls", "fill_values"),
        "set the policy for nulls in the output: "
        'output=sm.Output("torch", nulls="fill", fill_values={"column": 0}), or nulls="mask"',
    ),
    **{
        name: f"use output=sm.Output({kind}, {name}=…)"
        for name, kind in (("pad", '"torch"'), ("pad_value", '"torch"'), ("lists", '"torch"'))
    },
    "output_format": "use output=…",
    **dict.fromkeys(("on_bad_rows", "max_bad_rows"), "use errors=sm.ErrorPolicy(rows=…, max_rows=…)"),
    "epoch": "call set_epoch(…)",
    **dict.fromkeys(
        ("epochs", "num_epochs", "max_epochs"), "write a loop around the loader: each pass over it is one epoch"
    ),
    **dict.fromkeys(("dataset", "path", "paths"), "pass the data first"),
    **dict.fromkeys(
        ("steps", "max_steps", "num_steps", "steps_per_epoch", "max_batches", "limit_batches"),
        "iterate over loader.steps(n), which returns the next n batches, also across epochs",
    ),
    "streams": "use sm.Mixture",
    "epoch_size": "use sm.Mixture(…, epoch_rows=…)",
    **dict.fromkeys(("shuffle_algo", "shuffle_block_size"), _WINDOW),
    "cache_limit": 'use storage_options={"cache_bytes": …}',
    **dict.fromkeys(("download_retry", "download_timeout"), 'use storage_options={"retry_timeout": …}'),
    "validate_hash": "run `shardmill verify`, which checks all hashes",
}
_TEXT = {
    **dict.fromkeys(("delimiter", "sep", "separator"), "delimiter"),
    **dict.fromkeys(("quote", "quotechar", "quote_char"), "quote"),
    "encoding": "encoding",
}
DATASET = {
    **_PATHS,
    "num_workers": "use threads=…: native threads replace worker processes",
    "num_proc": "use threads=…: native threads replace processes",
    "use_threads": "use threads=…",
    **dict.fromkeys(("dtype", "dtypes", "features"), "use schema=…, an Arrow schema, for CSV and JSONL files"),
    "on_bad_rows": 'use sm.Loader(…, errors=sm.ErrorPolicy(rows="skip"))',
    **{name: f"use text=sm.TextOptions({option}=…)" for name, option in _TEXT.items()},
    "nrows": "call take(range(…))",
    "sampler": "use sm.Loader(dataset, shuffle=True)",
    **{
        name: f"use sm.Loader(dataset, {name}=…): the options of batches belong to the loader"
        for name in (
            *("batch_size", "shuffle", "seed", "lanes", "tail", "rank", "world_size"),
            *("output", "packing", "transform", "runtime"),
        )
    },
}
_TRANSFORM = "use sm.Loader(dataset, transform=…): a function that is called with each batch"
_FILTER = 'open it with filter=…, such as sm.Dataset(path, filter="x > 0")'
_COLUMNS = "open it with columns=[…]"
_BATCHES = "use sm.Loader(dataset, batch_size=…)"
_ARROW = "pass the data set itself: pa.table(dataset), pl.DataFrame(dataset) and pandas.DataFrame.from_arrow read it"
DATASET_ATTRIBUTES = {
    "select": "open it with columns=[…] for columns, or filter=… for rows; take([…]) returns rows by index",
    **dict.fromkeys(("map", "apply", "with_transform", "set_transform", "map_batches"), _TRANSFORM),
    **dict.fromkeys(("filter", "query", "where", "skip_while"), _FILTER),
    **dict.fromkeys(
        ("shuffle", "repeat", "shard", "sampler"), "use sm.Loader(dataset, shuffle=True, rank=…, world_size=…)"
    ),
    **dict.fromkeys(("batch", "iter", "iter_batches", "to_iterable_dataset", "prefetch"), _BATCHES),
    **dict.fromkeys(("with_format", "set_format", "format_type"), 'use sm.Loader(dataset, output="numpy")'),
    **dict.fromkeys(("select_columns", "remove_columns", "project", "drop"), _COLUMNS),
    **dict.fromkeys(("column_names", "names"), "use columns"),
    **dict.fromkeys(("features", "dtypes", "dtype"), "use schema"),
    **dict.fromkeys(("shape", "size", "count", "count_rows"), "use len(dataset) and len(dataset.columns)"),
    **dict.fromkeys(("head", "limit", "slice"), "use take(range(…))"),
    **dict.fromkeys(("to_table", "to_arrow", "to_pandas", "to_polars", "to_batches", "collect", "read"), _ARROW),
    **dict.fromkeys(
        ("train_test_split", "random_split", "split"), "open two data sets, each with its files or a filter"
    ),
    **dict.fromkeys(("save_to_disk", "to_parquet", "push_to_hub", "write"), "use sm.Writer(path).write_batch(dataset)"),
    "concatenate": "open one data set with a list of paths",
}
ITERATE = {
    **_SEED,
    **dict.fromkeys(("buffer_size", "window_bytes"), "use sm.Loader(…, shuffle=sm.Shuffle(window_bytes=…))"),
    **dict.fromkeys(("batch_size", "batched"), "use sm.Loader(dataset, batch_size=…)"),
}
_REPLACE = 'use mode="overwrite", which replaces existing files, or mode="append"'
_SHARDS = 'use shard_bytes=…, such as "64MiB": a new file begins at this size'
WRITER = {
    "size_limit": _SHARDS,
    **dict.fromkeys(("maxsize", "max_shard_size", "file_size", "maxcount", "num_shards", "max_rows_per_file"), _SHARDS),
    **dict.fromkeys(("exist_ok", "overwrite", "append", "existing_data_behavior"), _REPLACE),
    **dict.fromkeys(("path", "where", "directory", "pattern"), "pass the path first"),
    **dict.fromkeys(("max_workers", "num_workers", "use_threads"), "use threads=…, or write_rows(…, workers=…)"),
    "row_group_size": "remove it: the size of row groups is limited in bytes",
    "compression_level": 'use compression="zstd:7"; Parquet has no levels',
    "codec": "use compression=…",
    "keep_local": "remove it: a remote path is uploaded without a local copy",
    "progress_bar": "remove it: num_rows is the number of rows written so far",
    "retry": "use storage_options=…",
    **dict.fromkeys(("filesystem", "fs"), "pass a URL such as s3://bucket/dir, and storage_options=…"),
    **dict.fromkeys(("dtype", "dtypes", "features"), "use schema=…, an Arrow schema, or columns= with types"),
    **dict.fromkeys(("partition_cols", "partitioning", "partition_by"), "write one directory for each value"),
}
MERGE = {
    **dict.fromkeys(("index_file_urls", "dirs", "root"), "pass the directory, and the parts after it"),
    "keep_local": WRITER["keep_local"],
}
MIXTURE = {
    **dict.fromkeys(("probabilities", "proportions", "ratios"), "use weights=…"),
    **dict.fromkeys(("datasets", "streams"), "pass the sources first, by name"),
    "stopping_strategy": "use epoch_rows=…, or repeat=…",
    **{
        name: f"set it on the sources: sm.Mixture({{name: sm.Dataset(path, {name}=…)}})"
        for name in ("tokenize", "images", "filter", "columns", "format", "schema", "errors", "storage_options")
    },
    "seed": "use sm.Loader(mixture, seed=…)",
}
RUNTIME = {
    "num_workers": "use threads=…: native threads replace worker processes",
    **dict.fromkeys(("prefetch_factor", "prefetch"), "use prefetch_bytes=…"),
    "timeout": "use stall_seconds=…",
}
SHUFFLE = {
    **dict.fromkeys(("buffer_size", "shuffle_buffer_size", "shuffle_window_bytes"), "use window_bytes=…"),
    **dict.fromkeys((*_SEED, "seed"), "use sm.Loader(…, seed=…)"),
}
OUTPUT = {
    **dict.fromkeys(("format", "type", "output_format"), "use kind=…"),
    "columns": "use sm.Loader(…, columns=…)",
}
TRANSFORM = {
    **dict.fromkeys(("num_workers", "num_proc", "transform_workers"), "use workers=…"),
    **dict.fromkeys(("fn", "func"), "pass the function first"),
}
PACKING: dict[str, str] = dict.fromkeys(
    ("max_length", "seq_length", "sequence_length", "seq_len", "max_seq_len"), "use length=…"
)
IMAGES = {
    **dict.fromkeys(("columns", "key"), "pass the column first"),
    **dict.fromkeys(("interpolation", "resize", "filter"), "use resample=…"),
    **dict.fromkeys(("mean", "std", "image_mean", "image_std"), "use normalize=(mean, std)"),
    **dict.fromkeys(("transform", "transforms"), "use fit=, flip= and normalize=, or transform= of the loader"),
    **dict.fromkeys(("crop", "random_crop"), "use fit=sm.RandomCrop(…)"),
    **dict.fromkeys(("horizontal_flip", "hflip", "flip_p"), "use flip=…"),
    **dict.fromkeys(("exif", "apply_exif_orientation"), "use orientation=…"),
    **dict.fromkeys(
        ("strict", "ignore_errors"), "use on_error='null', or errors=sm.ErrorPolicy(rows='skip') of the loader"
    ),
}

TOKENIZE = {
    **dict.fromkeys(
        ("columns", "column", "text_column", "text_field", "dataset_text_field"), "pass the text column first"
    ),
    **dict.fromkeys(
        ("eos_token", "add_eos_token", "append_eod", "append_eos"), "use eos=True, or eos= a token or an id"
    ),
    **dict.fromkeys(("bos_token", "add_bos_token", "add_bos"), "use bos=True, or bos= a token or an id"),
    **dict.fromkeys(
        ("max_length", "truncation", "padding"), "use sm.Packing(…, length=…), or Output(pad=…) on the loader"
    ),
    **dict.fromkeys(("num_proc", "num_workers", "batched"), "remove it: the threads of the loader tokenize"),
}
ERROR_POLICY = {
    "on_bad_rows": "use rows=…",
    "max_bad_rows": "use max_rows=…",
    "on_bad_lines": "use lines=…",
    "on_bad_files": "use files=…",
}
TEXT_OPTIONS = {name: f"use {option}=…" for name, option in _TEXT.items()}
PIPELINE = {
    **{name: f"pass it to run({name}=…)" for name in ("executor", "threads", "workers", "progress")},
    "num_workers": "pass it to run(threads=…), or to run(executor='ray', workers=…)",
    "mode": "set it on the sink",
    "memory": "use memory_bytes=…",
}
SOURCE = {
    **dict.fromkeys(("blocksize", "input_partition_bytes"), "use partition_bytes=…"),
    **dict.fromkeys(("threads", "num_workers"), "pass it to Pipeline.run(threads=…)"),
}
SINK = {
    **dict.fromkeys(("exist_ok", "overwrite"), 'use mode="overwrite", which empties the directory, or mode="resume"'),
    **dict.fromkeys(("out", "output_path"), "pass the path first"),
    **dict.fromkeys(("size_limit", "shard_bytes"), "set partition_bytes=… on the source: a partition becomes one file"),
    "compression_level": "remove it: the codecs have no levels",
}


def explains(hints: Mapping[str, str], *, also: Iterable[str] = ()) -> Callable[[_Target], _Target]:
    """Decorate a function, method or class so that its ``TypeError`` for an unknown option says which option to use.

    Args:
        hints: the hint for each unknown name. A name that is similar to an option needs no entry.
        also: options that the function takes as ``**options``.
    """

    def decorated(target: Any) -> Any:
        if isinstance(target, type):
            target.__init__ = _checked(target.__init__, hints, also)
            return target
        return _checked(target, hints, also)

    return decorated


def unknown_attribute(owner: object, name: str, hints: Mapping[str, str]) -> AttributeError:
    """Return the error for an unknown attribute, with what to use instead."""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if hint := hints.get(name):
        message = f"{message}\nhint: {hint}"
    elif not name.startswith("_"):
        from difflib import get_close_matches

        known = [attribute for attribute in dir(type(owner)) if not attribute.startswith("_")]
        if close := get_close_matches(name, known, n=1):
            message = f"{message}\nhint: did you mean {close[0]!r}?"
    return AttributeError(message, name=name, obj=owner)


def _checked(function: Any, hints: Mapping[str, str], also: Iterable[str]) -> Any:
    code = function.__code__
    options = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]).union(also)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not options.issuperset(kwargs):
            name = _shown_name(function, args)
            unknown = next(option for option in kwargs if option not in options)
            raise TypeError(_message(name, unknown, hints, sorted(options - {"self"})))
        return function(*args, **kwargs)

    return checked


def _shown_name(function: Any, args: Sequence[Any]) -> str:
    """Return the name as the user wrote it: of the class of the object, not of a base class that has the method."""
    if not args or function.__code__.co_varnames[0] != "self":
        return function.__name__
    owner = type(args[0]).__name__
    return owner if function.__name__ == "__init__" else f"{owner}.{function.__name__}"


def _message(name: str, unknown: str, hints: Mapping[str, str], options: list[str]) -> str:
    message = f"{name}() got an unexpected keyword argument {unknown!r}"
    if unknown in hints:
        return f"{message}\nhint: {hints[unknown]}"
    from difflib import get_close_matches

    if close := get_close_matches(unknown, options, n=1):
        return f"{message}\nhint: did you mean {close[0]!r}?"
    return f"{message}\nhint: the options are {', '.join(options)}"
