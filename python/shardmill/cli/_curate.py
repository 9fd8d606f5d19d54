"""The command ``shardmill curate``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from shardmill._terminal import escape
from shardmill.cli._messages import is_quiet, tell
from shardmill.cli._options import (
    DIRECTORY,
    FROM_0,
    FROM_1,
    PATH,
    Names,
    Range,
    Size,
    json_option,
    one_of,
    options_of,
    paths_argument,
    progress_option,
    sample_options,
    storage_option,
    threads_option,
    write_json,
)
from shardmill.cli._tables import source_and_destination
from shardmill.storage._paths import is_remote

if TYPE_CHECKING:
    from shardmill.curate._report import Report

_OF_SOURCES = (
    *("fields", "files_per_partition", "partition_bytes"),
    *("max_batch_bytes", "max_decoded_bytes", "allowed_roots"),
)
_REPEATS = (
    "note: without --checkpoint, --mode resume processes all inputs again; "
    "files of the same inputs are replaced, others are kept\n"
    "hint: to skip what earlier runs have done, use --checkpoint DIR in each run"
)
#: What only tars have.
_TAR_ONLY = (
    *("image_member_field", "json_extension", "per_text_field"),
    *("ignore_zeros", "materialize_on_read"),
)
#: What names the content of documents that are rows or JSON objects.
_RECORDS_ONLY = ("part", "image_root")


@click.command(name="curate")
@paths_argument("SRC... DST")
@click.option(
    "--to",
    "sink_format",
    type=click.Choice(["parquet", "webdataset"]),
    required=True,
    help="Output format.",
)
@click.option(
    "--from",
    "source_format",
    **one_of("auto", "webdataset", "parquet", "jsonl"),
    help="What is read; auto looks at the names.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="EXPR",
    help="Keep samples for which EXPR is true; may be repeated.",
)
@click.option("--aspect-ratio", type=Range(), help="Keep images with width / height in this range.")
@click.option(
    "--blur", type=float, metavar="N", help="Keep images with at least this sharpness, such as 100."
)
@click.option(
    "--qr",
    type=float,
    metavar="N",
    help="Keep images with less than this fraction covered by QR codes, such as 0.05.",
)
@click.option(
    "--image-to-text-ratio", type=Range(), help="Keep samples with images / words in this range."
)
@click.option(
    "--mode",
    **one_of("error", "overwrite", "resume"),
    help="What to do if the output directory has files: refuse it, empty it, or keep the files. "
    "Without --checkpoint, resume repeats all work and replaces the files of the same inputs.",
)
@click.option(
    "--checkpoint",
    type=DIRECTORY,
    metavar="DIR",
    help="Record in DIR what is done. "
    "The same command then continues a stopped run and processes only new inputs.",
)
@click.option(
    "--on-materialize-error",
    **one_of("raise", "warn", "drop_row", "drop_sample"),
    help="What happens to rows whose image cannot be read.",
)
@click.option(
    "--materialize-on-read/--no-materialize-on-read",
    default=None,
    help="Provide image bytes to every stage.",
)
@click.option(
    "--materialize-on-write/--no-materialize-on-write",
    default=True,
    help="Fetch missing image bytes before writing.",
)
@click.option("--fields", type=Names(), help="Columns or keys to copy to the output; default: all.")
@click.option(
    "--per-image-field",
    multiple=True,
    metavar="NAME",
    help="Key whose list has one value per image; may be repeated.",
)
@click.option(
    "--per-text-field",
    multiple=True,
    metavar="NAME",
    help="Key whose list has one value per text; may be repeated.",
)
@sample_options
@click.option(
    "--part",
    multiple=True,
    metavar="NAME",
    help="Column or key with texts or images of documents, in reading order; may be repeated. "
    "Those with paths of images are named images, image, or by --images-field.",
)
@click.option(
    "--image-root",
    type=DIRECTORY,
    metavar="PATH",
    help="Directory or prefix that paths of images are relative to; default: that of the file.",
)
@click.option(
    "--json-extension",
    multiple=True,
    metavar="EXT",
    help="How names of members that are documents end, such as .meta.json; "
    "may be repeated; default: .json.",
)
@click.option(
    "--files-per-partition", **FROM_1, help="Number of input files that make one output file."
)
@click.option("--partition-bytes", type=Size(), help="Or pack input files up to this size.")
@click.option("--max-batch-bytes", type=Size(), help="Cut output files at about this size.")
@click.option(
    "--allowed-root",
    "allowed_roots",
    multiple=True,
    type=DIRECTORY,
    metavar="PATH",
    help="Directory or prefix, besides SRC, that paths in rows may refer to; may be repeated.",
)
@click.option(
    "--max-decoded-bytes",
    type=Size(),
    help="Reject a page, document or image with a larger decoded size; default: 1 GiB.",
)
@click.option(
    "--compression", metavar="CODEC", help="Parquet: zstd, snappy, gzip, brotli, lz4 or none."
)
@click.option(
    "--image-sizes", is_flag=True, help="Parquet: add width and height of images as columns."
)
@click.option("--executor", **one_of("local", "ray"), help="Where splits run.")
@threads_option
@click.option(
    "--workers", **FROM_1, help="Number of tasks of --executor ray; default: one per CPU."
)
@click.option("--max-errors", **FROM_0, help="Stop after more quarantined items than this.")
@click.option(
    "--fail-on-quarantine",
    is_flag=True,
    help="Exit with 1 if anything was quarantined, not only if everything was.",
)
@click.option(
    "--report",
    type=PATH,
    metavar="DIR|FILE.html",
    help="Write metrics.json, params.json and quarantine.jsonl to DIR, "
    "or an HTML page to FILE.html.",
)
@json_option
@progress_option
@storage_option
def command(paths: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Filter interleaved documents from SRC and write them to the directory DST.

    SRC is a file, a directory or a glob of tars, Parquet or JSONL files. Stages run in this order:
    filter, aspect ratio, blur, QR codes, image-to-text ratio. Bad samples and shards are
    quarantined and reported; the rest is written.

    \b
    Example:
      shardmill curate shards/ curated/ --to parquet --aspect-ratio 1:2
      shardmill curate shards/ out/ --to webdataset --filter "previous_word_count > 100"
      shardmill curate in/*.parquet out/ --to parquet --fail-on-quarantine --report metrics/
      shardmill curate shards/ out/ --to parquet --checkpoint state/ --report run.html
    """
    from shardmill.curate import Pipeline
    from shardmill.curate._report import Report
    from shardmill.curate._spec import params_of
    from shardmill.errors import Error

    src, dst = source_and_destination(paths)
    _check(options)
    source_format = _source_format(src, options["source_format"])
    try:
        pipeline = Pipeline(
            source=_source(src, source_format, options),
            stages=_stages(options),
            sink=_sink(dst, options),
            checkpoint=options["checkpoint"],
            max_errors=options["max_errors"],
        )
    except Error as error:
        raise click.UsageError(str(error)) from error
    if options["mode"] == "resume" and options["checkpoint"] is None:
        tell(_REPEATS)
    run = {name: options[name] for name in ("executor", "threads", "workers")}
    try:
        report = pipeline.run(**run, progress=options["progress"])
    except Error as error:
        if options["report"]:
            params = params_of(
                pipeline, options["executor"], options["threads"] or options["workers"]
            )
            _write_report(Report(params=params, error=str(error)), options["report"])
        raise
    if as_json:
        write_json(report.to_dict())
    elif not is_quiet():
        click.echo(str(report))
    if options["report"]:
        _write_report(report, options["report"])
    for item in report.quarantined[:10]:
        member = f" {item['member']}" if item["member"] else ""
        print(escape(f"quarantined: {item['path']}{member}: {item['reason']}"), file=sys.stderr)
    has_nothing = bool(report.quarantined) and not report.counts("output")["samples"]
    return 1 if has_nothing or (options["fail_on_quarantine"] and report.quarantined) else 0


def _check(options: dict[str, Any]) -> None:
    """Reject options that exclude each other, before any path is accessed."""
    if options["files_per_partition"] and options["partition_bytes"]:
        raise click.UsageError("--files-per-partition and --partition-bytes are mutually exclusive")
    for name, executor in (("threads", "local"), ("workers", "ray")):
        if options[name] and options["executor"] != executor:
            raise click.UsageError(f"--{name} requires --executor {executor}")
    if options["image_sizes"] and options["sink_format"] != "parquet":
        raise click.UsageError("--image-sizes requires --to parquet; tars have no columns")
    if options["compression"] and options["sink_format"] != "parquet":
        raise click.UsageError("--compression requires --to parquet; tars are written uncompressed")
    if _is_page(options["report"]):
        # So that a missing extra fails now, and not after hours of work.
        from shardmill.curate._templates import environment

        environment("curate/_page", extra="report")
        if is_remote(options["report"]):
            raise click.UsageError(
                f"--report is {options['report']!r}; a page must be a local file"
            )


def _is_page(path: str | None) -> bool:
    return path is not None and path.lower().endswith((".html", ".htm"))


def _write_report(report: Report, path: str) -> None:
    if _is_page(path):
        report.write_html(path)
    else:
        report.write(path)


def _source_format(src: tuple[str, ...], chosen: str) -> str:
    if chosen != "auto":
        return chosen
    from shardmill._native.check import data_formats

    found = set(data_formats(list(src)))
    formats = found & {"parquet", "webdataset"} or found & {"jsonl"}
    if not formats:
        raise click.UsageError(
            f"SRC contains files of {', '.join(sorted(found))}; "
            "`curate` reads tars, Parquet and JSONL"
        )
    if len(formats) > 1:
        raise click.UsageError(
            "SRC contains both tars and Parquet files; "
            "choose with --from webdataset or --from parquet"
        )
    return formats.pop()


def _source(src: tuple[str, ...], source_format: str, options: dict[str, Any]) -> Any:
    from shardmill.curate import SampleKeys, WebDatasetSource

    shared = {name: options[name] for name in _OF_SOURCES}
    if source_format != "webdataset":
        _refuse(_TAR_ONLY, options, "only for tars, but SRC is not")
        return _record_source(src, source_format, options, shared)
    _refuse(_RECORDS_ONLY, options, "only for Parquet and JSONL, but SRC are tars")
    return WebDatasetSource(
        src,
        **shared,
        keys=SampleKeys(
            **options_of(SampleKeys, options),
            json_extensions=options["json_extension"] or (".json",),
        ),
        ignore_zeros=options["ignore_zeros"],
        per_image_fields=options["per_image_field"],
        per_text_fields=options["per_text_field"],
        materialize_on_read=bool(options["materialize_on_read"]),
    )


def _refuse(names: Sequence[str], options: dict[str, Any], why: str) -> None:
    given = [f"--{name.replace('_', '-')}" for name in names if options[name]]
    if given:
        raise click.UsageError(f"{', '.join(given)}: {why}")


def _record_source(
    src: tuple[str, ...], source_format: str, options: dict[str, Any], shared: dict[str, Any]
) -> Any:
    from shardmill.curate import (
        DocumentKeys,
        InterleavedJsonlSource,
        InterleavedParquetSource,
        SampleKeys,
    )

    # The options of tars have defaults, where rows are recognised.
    texts, images = options["texts_field"], options["images_field"]
    keys = DocumentKeys(
        texts_field=None if texts == SampleKeys.texts_field else texts,
        images_field=None if images == SampleKeys.images_field else images,
        sample_id_field=options["sample_id_field"],
        parts=options["part"] or None,
        per_image_fields=options["per_image_field"],
        image_root=options["image_root"],
    )
    source = InterleavedJsonlSource if source_format == "jsonl" else InterleavedParquetSource
    return source(src, **shared, keys=keys)


def _stages(options: dict[str, Any]) -> list[Any]:
    from shardmill.curate import (
        AspectRatioFilter,
        BlurFilter,
        Filter,
        ImageToTextRatioFilter,
        QRCodeFilter,
    )
    from shardmill.errors import OptionError
    from shardmill.expressions import parse_filter

    stages: list[Any] = []
    for text in options["filters"]:
        try:
            stages.append(Filter(parse_filter(text)))
        except OptionError as error:
            raise click.BadParameter(str(error), param_hint="--filter") from error
    if options["aspect_ratio"]:
        stages.append(AspectRatioFilter(*options["aspect_ratio"]))
    if options["blur"] is not None:
        stages.append(BlurFilter(options["blur"]))
    if options["qr"] is not None:
        stages.append(QRCodeFilter(options["qr"]))
    if options["image_to_text_ratio"]:
        stages.append(ImageToTextRatioFilter(*options["image_to_text_ratio"]))
    return stages


def _sink(dst: str, options: dict[str, Any]) -> Any:
    from shardmill.curate import ParquetSink, WebDatasetSink

    shared = {
        name: options[name] for name in ("mode", "on_materialize_error", "materialize_on_write")
    }
    if options["sink_format"] == "webdataset":
        return WebDatasetSink(dst, **shared)
    shared["image_sizes"] = options["image_sizes"]
    return ParquetSink(
        dst, **shared, **({"compression": options["compression"]} if options["compression"] else {})
    )
