"""The command ``shardmill curate``."""

from __future__ import annotations

import sys
from typing import Any

import click

from shardmill.cli.options import Names, Range, Size, progress_option, sample_options, storage_option, workers_option
from shardmill.terminal import escape

#: What `verify` and `inspect` find beside tars and Parquet.
_TAR_ONLY = ("sample_id_field", "image_member_field", "per_image_field", "per_text_field", "ignore_zeros")


@click.command(name="curate")
@click.argument("src", nargs=-1, required=True, metavar="SRC...")
@click.argument("dst")
@click.option(
    "--to", "sink_format", type=click.Choice(["parquet", "webdataset"]), required=True, help="What is written."
)
@click.option(
    "--from",
    "source_format",
    type=click.Choice(["auto", "webdataset", "parquet"]),
    default="auto",
    show_default=True,
    help="What is read; auto looks at the names.",
)
@click.option(
    "--filter", "filters", multiple=True, metavar="EXPR", help="Keep samples for which EXPR is true; repeatable."
)
@click.option("--aspect-ratio", type=Range(), help="Keep images with width / height in this range.")
@click.option("--blur", type=float, metavar="N", help="Keep images with at least this sharpness, such as 100.")
@click.option("--qr", type=float, metavar="N", help="Keep images of which QR codes cover less, such as 0.05.")
@click.option("--image-to-text-ratio", type=Range(), help="Keep samples with images / words in this range.")
@click.option(
    "--mode",
    type=click.Choice(["ignore", "overwrite", "error"]),
    default="ignore",
    show_default=True,
    help="An output folder that exists: keep other files, empty it, or refuse.",
)
@click.option(
    "--on-materialize-error",
    type=click.Choice(["error", "warn", "drop_row", "drop_sample"]),
    default="error",
    show_default=True,
    help="What becomes of images that cannot be had.",
)
@click.option(
    "--materialize-on-read/--no-materialize-on-read", default=None, help="Image bytes are there for every stage."
)
@click.option(
    "--materialize-on-write/--no-materialize-on-write", default=True, help="Fetch missing image bytes before writing."
)
@click.option("--fields", type=Names(), help="Carry these values along; all, when nothing is said.")
@click.option(
    "--per-image-field", multiple=True, metavar="NAME", help="Key whose list has one value an image; repeatable."
)
@click.option(
    "--per-text-field", multiple=True, metavar="NAME", help="Key whose list has one value a text; repeatable."
)
@sample_options
@click.option(
    "--files-per-partition", type=click.IntRange(min=1), metavar="N", help="So many input files make one output file."
)
@click.option("--blocksize", type=Size(), help="Or pack input files up to this size.")
@click.option("--max-batch-bytes", type=Size(), help="Cut output files at about this size.")
@click.option(
    "--allowed-root",
    "allowed_roots",
    multiple=True,
    metavar="PATH",
    help="Directory or prefix, besides SRC, that paths in rows may refer to; repeatable.",
)
@click.option(
    "--max-decoded-bytes",
    type=Size(),
    help="Refuse a page, document or image with a larger decoded size; default 1 GiB.",
)
@click.option("--compression", metavar="CODEC", help="Parquet: zstd, snappy, gzip, brotli, lz4 or none.")
@click.option(
    "--executor", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="Where splits run."
)
@workers_option
@click.option(
    "--max-errors", type=click.IntRange(min=0), metavar="N", help="Stop after more quarantined items than this."
)
@click.option(
    "--fail-on-quarantine",
    is_flag=True,
    help="Exit with 1 when anything was quarantined, and not only when everything was.",
)
@click.option(
    "--report", "report_folder", metavar="DIR", help="Write metrics.json, params.json and quarantine.jsonl there."
)
@progress_option
@storage_option
def command(src: tuple[str, ...], dst: str, **options: Any) -> int:
    """Filter interleaved documents from SRC and write them to the folder DST.

    SRC is a file, a folder or a glob of tars or Parquet files. Stages run in this order: filter, aspect ratio,
    blur, QR codes, image-to-text ratio. Bad samples and shards are left out and reported; the rest is written.

    \b
    Example:
      shardmill curate shards/ curated/ --to parquet --aspect-ratio 1:2
      shardmill curate shards/ out/ --to webdataset --filter "previous_word_count > 100"
      shardmill curate in/*.parquet out/ --to parquet --fail-on-quarantine --report metrics/
    """
    from shardmill.curate import Pipeline
    from shardmill.curate.report import Report
    from shardmill.errors import Error

    _check(options)
    source_format = _source_format(src, options["source_format"])
    try:
        pipeline = Pipeline(
            source=_source(src, source_format, options),
            stages=_stages(options),
            sink=_sink(dst, options),
            max_errors=options["max_errors"],
        )
    except Error as error:
        raise click.UsageError(str(error)) from error
    try:
        report = pipeline.run(options["executor"], workers=options["workers"], progress=options["progress"])
    except Error as error:
        if options["report_folder"]:
            params = pipeline._params(options["executor"], options["workers"])
            Report(params=params, error=str(error)).write(options["report_folder"])
        raise
    click.echo(str(report))
    if options["report_folder"]:
        report.write(options["report_folder"])
    for item in report.quarantined[:10]:
        member = f" {item['member']}" if item["member"] else ""
        print(escape(f"quarantined: {item['path']}{member}: {item['reason']}"), file=sys.stderr)
    has_nothing = bool(report.quarantined) and not report.counts("output")["samples"]
    return 1 if has_nothing or (options["fail_on_quarantine"] and report.quarantined) else 0


def _check(options: dict[str, Any]) -> None:
    """Refuses options that exclude each other, before a path is touched."""
    if options["files_per_partition"] and options["blocksize"]:
        raise click.UsageError("--files-per-partition and --blocksize exclude each other")
    if options["compression"] and options["sink_format"] != "parquet":
        raise click.UsageError("--compression is for --to parquet; tars are written uncompressed")


def _source_format(src: tuple[str, ...], chosen: str) -> str:
    if chosen != "auto":
        return chosen
    from shardmill._native.verify import data_formats

    found = set(data_formats(list(src)))
    formats = found & {"parquet", "webdataset"}
    if not formats:
        raise click.UsageError(f"SRC holds files of {', '.join(sorted(found))}; `curate` reads tars and Parquet")
    if len(formats) > 1:
        raise click.UsageError("SRC holds both tars and Parquet files; choose with --from webdataset or --from parquet")
    return formats.pop()


def _source(src: tuple[str, ...], source_format: str, options: dict[str, Any]) -> Any:
    from shardmill.curate import InterleavedParquetSource, WebDatasetSource

    shared = {
        name: options[name]
        for name in (
            "fields",
            "files_per_partition",
            "blocksize",
            "max_batch_bytes",
            "max_decoded_bytes",
            "allowed_roots",
        )
    }
    if source_format == "webdataset":
        return WebDatasetSource(
            src,
            **shared,
            per_image_fields=options["per_image_field"],
            per_text_fields=options["per_text_field"],
            sample_id_field=options["sample_id_field"],
            texts_field=options["texts_field"],
            images_field=options["images_field"],
            image_member_field=options["image_member_field"],
            ignore_zeros=options["ignore_zeros"],
            materialize_on_read=bool(options["materialize_on_read"]),
        )
    given = [name for name in _TAR_ONLY if options[name]] + (
        ["materialize_on_read"] if options["materialize_on_read"] else []
    )
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{names}: for tars only, and SRC is Parquet")
    return InterleavedParquetSource(src, **shared)


def _stages(options: dict[str, Any]) -> list[Any]:
    from shardmill.cli.filter_text import parse_filter
    from shardmill.curate import AspectRatioFilter, BlurFilter, Filter, ImageToTextRatioFilter, QRCodeFilter
    from shardmill.errors import OptionError

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

    shared = {name: options[name] for name in ("mode", "on_materialize_error", "materialize_on_write")}
    if options["sink_format"] == "webdataset":
        return WebDatasetSink(dst, **shared)
    return ParquetSink(dst, **shared, **({"compression": options["compression"]} if options["compression"] else {}))
