"""Curates a small data set four ways and writes a report to look at: ``make demo``.

Makes shards shaped like MINT-1T-PDF (JSON and a multi-page JPEG-in-TIFF per document), keeps the
images with a width between one and two heights, and checks that all four paths wrote the same rows
and that the pixels are those of the source pages.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The generator of the data set lies beside this directory and is not part of the installed package.
sys.path.insert(0, str(ROOT))

FILTER = (1.0, 2.0)
CHECKED_PICTURES = 24


@dataclass(frozen=True)
class Row:
    """One row of a document, as far as every format can hold it."""

    sample_id: str
    position: int
    modality: str
    text: str | None
    image_digest: str | None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo_output"),
        help="directory for everything that is made",
    )
    parser.add_argument(
        "--shards", type=int, default=4, help="tar files of about 85 documents each"
    )
    options = parser.parse_args()
    try:
        import shardmill as sm
        from PIL import features
        from shardmill._terminal import counted
        from shardmill.curate._page import write_page

        from benchmarks.mint1t import write_dataset
    except ImportError as error:
        return fail(
            f"{error}",
            "run `make demo`: it builds the native module and installs what the demo needs",
        )
    if not features.check("libtiff"):
        return fail(
            "this Pillow was built without libtiff, which draws the data set",
            "pip install --upgrade pillow",
        )
    if not 1 <= options.shards <= 80:
        return fail("--shards must be between 1 and 80", "four are enough to see everything")

    try:
        shards = options.out / "shards"
        say(f"Making {counted(options.shards, 'shard')} of illustrated documents under {shards} …")
        record = write_dataset(shards, shards=options.shards)

        say("Storing them as Parquet too, unfiltered, for the paths that start there …")
        parquet = options.out / "shards_parquet"
        convert(shards, parquet)

        say("Curating four ways …\n")
        reports = {
            name: curate(*path) for name, path in paths(options.out, shards, parquet).items()
        }
        print_table(reports)

        outputs = {name: rows_of(options.out / directory_of(name)) for name in reports}
        print("\n" + check_rows(outputs, record))
        print(check_pixels(options.out / directory_of("WebDataset → Parquet"), shards))
        print(load(options.out / directory_of("WebDataset → Parquet")))

        page = write_page(
            options.out / "report.html",
            reports,
            title="Four paths, one result",
            introduction=(
                f"{record['samples']:,} documents in {counted(options.shards, 'shard')}: "
                f"{record['texts']:,} texts and {record['images']:,} images, "
                "drawn by a generator in the shape of MINT-1T-PDF. "
                "Each path keeps the images whose width is one to two heights, "
                "and all four wrote the same rows."
            ),
        )
    except sm.Error as error:
        return fail(
            str(error),
            f"if {options.out} was made by something else, choose another directory with --out",
        )
    except OSError as error:
        return fail(
            str(error),
            f"the demo needs about 200 MB and the right to write in {options.out.resolve()}",
        )
    except MismatchError as error:
        return fail(
            str(error), "this is a bug of shardmill: please report it with the output above"
        )
    print(f"\nReport to open in a browser:\n{page.resolve()}")
    return 0


class MismatchError(Exception):
    """Two outputs that must be equal are not."""


def paths(out: Path, shards: Path, parquet: Path) -> dict[str, tuple]:
    """Source and sink of each path, by its name."""
    from shardmill.curate import (
        InterleavedParquetSource,
        ParquetSink,
        WebDatasetSink,
        WebDatasetSource,
    )

    sources = {
        "WebDataset": WebDatasetSource(shards, per_image_fields=("image_metadata",)),
        "Parquet": InterleavedParquetSource(parquet),
    }
    sinks = {"Parquet": ParquetSink, "WebDataset": WebDatasetSink}
    return {
        (name := f"{source_name} → {sink_name}"): (
            source,
            sink(out / directory_of(name), mode="overwrite"),
        )
        for source_name, source in sources.items()
        for sink_name, sink in sinks.items()
    }


def directory_of(name: str) -> str:
    return name.lower().replace(" → ", "_to_")


def curate(source, sink):
    from shardmill.curate import AspectRatioFilter, Pipeline

    low, high = FILTER
    return Pipeline(source=source, stages=[AspectRatioFilter(min=low, max=high)], sink=sink).run(
        progress=False
    )


def convert(shards: Path, parquet: Path) -> None:
    from shardmill.curate import ParquetSink, Pipeline, WebDatasetSource

    source = WebDatasetSource(shards, per_image_fields=("image_metadata",))
    Pipeline(source=source, sink=ParquetSink(parquet, mode="overwrite")).run(progress=False)


def print_table(reports: dict) -> None:
    print(
        f"{'path':26}{'samples/s':>11}{'rows in':>10}{'rows out':>10}"
        f"{'MB in':>9}{'MB out':>9}{'seconds':>9}"
    )
    for name, report in reports.items():
        metrics = report.to_dict()
        print(
            f"{name:26}{metrics['throughput_samples_per_sec']:11,.0f}"
            f"{metrics['input_num_rows']:10,}{metrics['output_num_rows']:10,}"
            f"{metrics['input_total_mb']:9.1f}{metrics['output_total_mb']:9.1f}"
            f"{metrics['time_taken_s']:9.2f}"
        )


def load(directory: Path) -> str:
    """Feed the curated rows to a loop, as to a trainer, and say how fast they came."""
    import shardmill as sm

    loader = sm.Loader(
        directory, batch_size=64, shuffle=True, output=sm.Output("numpy", nulls="mask")
    )
    started = time.perf_counter()
    rows = sum(len(batch["modality"]) for _ in range(5) for batch in loader)
    seconds = time.perf_counter() - started
    return (
        f"load:   {rows:,} rows of texts and image bytes, shuffled, "
        f"in batches of 64: {rows / seconds:,.0f} rows/s"
    )


def check_rows(outputs: dict[str, list[Row]], record: dict) -> str:
    """Says that the outputs agree.

    Raises:
        MismatchError: they do not.
    """
    first, *others = outputs
    for name in others:
        if outputs[name] != outputs[first]:
            differing = len(set(outputs[name]) ^ set(outputs[first]))
            raise MismatchError(f"{name} and {first} differ in {differing} rows")
    expected = record["texts"] + record["kept_images"]
    if len(outputs[first]) != expected:
        raise MismatchError(
            f"{len(outputs[first]):,} texts and images were written, "
            f"the data set has {expected:,} to keep"
        )
    return (
        f"rows:   all four outputs hold the same {expected:,} texts and images, "
        "in the same order in each document"
    )


def rows_of(directory: Path) -> list[Row]:
    """Texts and images of an output directory, sorted.

    Read by pyarrow and tarfile, not by shardmill.
    """
    rows: list[Row] = []
    for path in directory.iterdir():
        rows += parquet_rows(path) if path.suffix == ".parquet" else tar_rows(path)
    return sorted(rows, key=lambda row: (row.sample_id, row.position))


def parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    columns = ["sample_id", "position", "modality", "text_content", "binary_content"]
    for row in pq.read_table(path, columns=columns).to_pylist():
        if row["position"] >= 0:
            yield Row(*list(row.values())[:4], digest(row["binary_content"]))


def tar_rows(path: Path) -> Iterator[Row]:
    images: dict[str, str | None] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            payload = tar.extractfile(member).read()
            if not member.name.endswith(".json"):
                images[member.name] = digest(payload)
                continue
            document = json.loads(payload)
            for position, (text, image) in enumerate(
                zip(document["texts"], document["images"], strict=True)
            ):
                modality = "text" if image is None else "image"
                yield Row(document["sample_id"], position, modality, text, images.get(image))


def digest(payload: bytes | None) -> str | None:
    return None if payload is None else hashlib.sha256(payload).hexdigest()


def check_pixels(output: Path, shards: Path) -> str:
    """Says that images of the output have the pixels of their source pages, as Pillow decodes both.

    Raises:
        MismatchError: one has not.
    """
    import numpy as np
    import pyarrow.parquet as pq
    from PIL import Image

    checked = 0
    for path in sorted(output.glob("*.parquet")):
        table = pq.read_table(path, columns=["modality", "binary_content", "source_ref"])
        images = [row for row in table.to_pylist() if row["modality"] == "image"]
        for row in images[: CHECKED_PICTURES // 4]:
            ref = json.loads(row["source_ref"])
            with tarfile.open(ref["path"]) as tar:
                source = Image.open(io.BytesIO(tar.extractfile(ref["member"]).read()))
            source.seek(ref["frame_index"])
            with Image.open(io.BytesIO(row["binary_content"])) as copy:
                if not np.array_equal(np.asarray(source), np.asarray(copy)):
                    raise MismatchError(
                        f"page {ref['frame_index']} of {ref['member']} changed on its way"
                    )
            checked += 1
    return f"pixels: {checked} copied pages are bit-identical to their source pages in {shards}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def fail(problem: str, hint: str) -> int:
    say(f"demo: {problem}\nhint: {hint}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
