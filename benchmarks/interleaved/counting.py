"""Counts and checks interleaved files on disk, whoever wrote them.

Enters: a folder and its format. Leaves: ``Side``: counts, and what is wrong. Called by ``check``. Invariant: every
file is looked at, and no image payload is read.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet

_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
_LARGEST_PROBLEM_LIST = 20


@dataclass
class Side:
    """What one folder holds.

    Attributes:
        problems: Violations of the order of rows or of the layout of tar files, each naming its file.
    """

    num_files: int = 0
    total_bytes: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    materialize_errors: int = 0
    order_problems: list[str] = field(default_factory=list)
    layout_problems: list[str] = field(default_factory=list)

    def metrics(self, prefix: str) -> dict[str, Any]:
        """Returns the counts under the names of ``metrics.json``."""
        counts = {
            "num_files": self.num_files,
            "total_bytes": self.total_bytes,
            "total_mb": self.total_bytes / 1e6,
            "num_rows": self.rows.total(),
            "num_samples": self.rows["metadata"],
            "num_texts": self.rows["text"],
            "num_images": self.rows["image"],
            "num_metadata": self.rows["metadata"],
            "modality_counts": dict(sorted(self.rows.items())),
            "materialize_error_count": self.materialize_errors,
        }
        return {f"{prefix}_{name}": value for name, value in counts.items()}


def count_folder(folder: Path, kind: str, *, is_renumbered: bool, has_own_members: bool) -> Side:
    """Counts a folder.

    Args:
        folder: Searched recursively.
        kind: ``wds`` or ``parquet``.
        is_renumbered: Positions must be 0 to n-1 without gaps, because a filter ran.
        has_own_members: Tokens of a WebDataset are member names, as a writer leaves them; the input's
            tokens name pages of a TIFF instead.
    """
    side = Side()
    for path in _files(folder, kind):
        side.num_files += 1
        side.total_bytes += path.stat().st_size
        if kind == "parquet":
            _count_parquet(path, side, is_renumbered)
        else:
            _count_tar(path, side, is_renumbered, has_own_members)
    del side.order_problems[_LARGEST_PROBLEM_LIST:]
    del side.layout_problems[_LARGEST_PROBLEM_LIST:]
    return side


def _files(folder: Path, kind: str) -> Iterator[Path]:
    suffixes = (".parquet",) if kind == "parquet" else _TAR_SUFFIXES
    for path in sorted(folder.rglob("*")):
        if path.name.lower().endswith(suffixes) and not path.name.startswith(".") and path.is_file():
            yield path


def _count_parquet(path: Path, side: Side, is_renumbered: bool) -> None:
    columns = ["sample_id", "position", "modality", "materialize_error"]
    table = pyarrow.parquet.ParquetFile(path).read(columns=columns)
    ids, positions, modalities = (table[name].to_pylist() for name in columns[:3])
    side.rows.update(modalities)
    side.materialize_errors += len(table) - table["materialize_error"].null_count

    seen: set[str] = set()
    previous_id, previous = None, -1
    for sample_id, position, modality in zip(ids, positions, modalities, strict=True):
        # Ids are unique in the data sets of the benchmark, so a second metadata row is a merged or doubled document.
        if sample_id != previous_id or modality == "metadata":
            if modality != "metadata" or sample_id in seen:
                side.order_problems.append(f"{path.name}: {sample_id} does not start with its one metadata row")
            seen.add(sample_id)
            previous_id, previous = sample_id, -1
        if modality == "metadata":
            is_fine = position == -1
        else:
            is_fine = position == previous + 1 if is_renumbered else position >= max(previous, 0)
            previous = position
        if not is_fine:
            side.order_problems.append(f"{path.name}: {sample_id} has {modality} at {position} after {previous}")


def _count_tar(path: Path, side: Side, is_renumbered: bool, has_own_members: bool) -> None:
    documents: list[tuple[str, dict[str, Any]]] = []
    images: set[str] = set()
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".json"):
                    payload = tar.extractfile(member)
                    documents.append((member.name, json.loads(payload.read() if payload else b"")))
                else:
                    images.add(member.name)
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        side.layout_problems.append(f"{path.name}: {error}")
    used: Counter[str] = Counter()
    for name, document in documents:
        texts, tokens = document.get("texts") or [], document.get("images") or []
        side.rows["metadata"] += 1
        side.rows["text"] += sum(text is not None for text in texts)
        side.rows["image"] += sum(token is not None for token in tokens)
        used.update(str(token) for token in tokens if token is not None)
        if has_own_members:
            _check_lists(f"{path.name}: {name}", document, side, is_renumbered)
    if has_own_members:
        side.layout_problems += [f"{path.name}: {token} is no member" for token in used if token not in images]
        side.layout_problems += [
            f"{path.name}: {image} is named {used[image]} times" for image in images if used[image] != 1
        ]


def _check_lists(where: str, document: dict[str, Any], side: Side, is_renumbered: bool) -> None:
    texts, images = document.get("texts"), document.get("images")
    if "sample_id" not in document:
        side.layout_problems.append(f"{where} has no sample_id")
    if not isinstance(texts, list) or not isinstance(images, list) or len(texts) != len(images):
        side.layout_problems.append(f"{where} has no texts and images of equal length")
        return
    filled = [(text is not None) + (image is not None) for text, image in zip(texts, images, strict=True)]
    if is_renumbered and any(count != 1 for count in filled):
        side.order_problems.append(f"{where} has an index that is empty or filled twice")
