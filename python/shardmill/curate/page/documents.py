"""A few documents of the output and a few rejected images of the input, read back from the files themselves.

Paths of a finished run enter, documents in reading order leave. What was written is read with the standard library (tar) and pyarrow
(Parquet), not with the code that wrote it. Damage is never an error here: a file that cannot be read has no documents to show.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmill._native import images as native

_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz")
_IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".gif", ".avif")
# So many documents of a file are looked at before the most telling ones are chosen.
_CANDIDATES = 32
_TELLING_LENGTH = 6
_LARGEST_MEMBER_BYTES = 64 << 20
_MOST_MEMBERS = 400


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Picture:
    """An image; ``payload`` is None where the document lists one that has no bytes."""

    payload: bytes | None
    name: str

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height by the header."""
        return size_of(self.payload) if self.payload else None


@dataclass(frozen=True)
class Document:
    """One sample in reading order, each entry with its position; positions may have gaps."""

    sample_id: str
    path: str
    entries: tuple[tuple[int, Text | Picture], ...]


@dataclass(frozen=True)
class Rejected:
    """An image of the input that an aspect ratio filter drops."""

    payload: bytes
    name: str
    width: int
    height: int

    @property
    def ratio(self) -> float:
        """Width over height."""
        return self.width / self.height


@dataclass
class _Outline:
    """A document before its images are read: in place of each stands what leads to it."""

    sample_id: str
    entries: list[tuple[int, Text | Any]] = field(default_factory=list)

    def score(self) -> tuple[bool, int, int]:
        """Documents with text and several images that are neither tiny nor endless tell most."""
        texts = sum(isinstance(entry, Text) for _, entry in self.entries)
        images = len(self.entries) - texts
        return texts > 0 and images > 0, min(images, 3), -abs(len(self.entries) - _TELLING_LENGTH)

    def document(self, path: str, picture: Callable[[Any], Picture]) -> Document:
        """The document with its images, each read by ``picture``."""
        entries = ((at, entry if isinstance(entry, Text) else picture(entry)) for at, entry in self.entries)
        return Document(self.sample_id, path, tuple(entries))


def documents_of(outputs: list[dict[str, Any]], count: int) -> list[Document]:
    """Up to ``count`` documents, taken from as many output files as there are.

    Args:
        outputs: what :attr:`Report.outputs` says.
        count: how many documents are wanted.
    """
    files = [output["path"] for output in outputs if output["rows"]][:count]
    found: list[Document] = []
    for index, path in enumerate(files):
        # Later files make up for earlier ones that have too few.
        share = -(-(count - len(found)) // (len(files) - index))
        reader = _tar_documents if path.endswith(_TAR_SUFFIXES) else _parquet_documents
        try:
            found += reader(path, share)
        except (OSError, ValueError, LookupError, tarfile.TarError):
            continue
    return found


def rejected_images(paths: list[str], low: float, high: float, count: int) -> list[Rejected]:
    """Up to ``count`` images of the input whose ratio is outside of ``low`` … ``high``, judged by the same headers as in the run."""
    found: list[Rejected] = []
    seen = 0
    for path in paths:
        reader = _tar_images if path.endswith(_TAR_SUFFIXES) else _parquet_images
        try:
            for name, payload in reader(path):
                seen += 1
                size = size_of(payload)
                if size and size[1] and not low <= size[0] / size[1] <= high:
                    found.append(Rejected(payload, name, *size))
                if len(found) >= count or seen >= _MOST_MEMBERS:
                    return found
        except (OSError, ValueError, LookupError, tarfile.TarError):
            continue
    return found


def size_of(payload: bytes) -> tuple[int, int] | None:
    """Width and height, or None where no header tells them."""
    try:
        return native.image_size(payload)
    except ValueError:
        return None


def has_pyarrow() -> bool:
    """Whether Parquet can be read back."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return False
    return True


def _tar_documents(path: str, count: int) -> list[Document]:
    outlines: list[_Outline] = []
    with tarfile.open(path) as tar:
        members: dict[str, tarfile.TarInfo] = {}
        for member in tar:
            if not member.name.endswith(".json"):
                members[member.name] = member
                continue
            outlines.append(_tar_outline(json.loads(_read(tar, member) or b"{}")))
            if len(outlines) >= _CANDIDATES:
                break

        def picture(name: str) -> Picture:
            member = members.get(name)
            return Picture(None if member is None else _read(tar, member), name)

        return [outline.document(path, picture) for outline in _telling(outlines, count)]


def _tar_outline(document: dict[str, Any]) -> _Outline:
    outline = _Outline(str(document["sample_id"]))
    for position, (text, image) in enumerate(zip(document["texts"], document["images"], strict=True)):
        if text is not None:
            outline.entries.append((position, Text(str(text))))
        if image is not None:
            outline.entries.append((position, str(image)))
    return outline


def _parquet_documents(path: str, count: int) -> list[Document]:
    if not has_pyarrow():
        return []
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        rows = file.read_row_group(0, columns=["sample_id", "modality", "text_content", "position"]).to_pylist()
        images = file.read_row_group(0, columns=["binary_content"]).column(0)
    outlines: list[_Outline] = []
    for index, row in enumerate(rows):
        if row["modality"] == "metadata" or not outlines or outlines[-1].sample_id != row["sample_id"]:
            if len(outlines) >= _CANDIDATES:
                break
            outlines.append(_Outline(row["sample_id"]))
        if row["modality"] == "text":
            outlines[-1].entries.append((row["position"], Text(row["text_content"] or "")))
        elif row["modality"] == "image":
            outlines[-1].entries.append((row["position"], index))

    def picture(index: int) -> Picture:
        return Picture(images[index].as_py(), f"row {index}")

    return [outline.document(path, picture) for outline in _telling(outlines, count)]


def _telling(outlines: list[_Outline], count: int) -> list[_Outline]:
    best = sorted(range(len(outlines)), key=lambda index: outlines[index].score(), reverse=True)[:count]
    return [outlines[index] for index in sorted(best)]


def _tar_images(path: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as tar:
        for member in tar:
            if not member.name.lower().endswith(_IMAGE_SUFFIXES):
                continue
            payload = _read(tar, member)
            if payload is not None:
                yield from _pages(member.name, payload)


def _pages(name: str, payload: bytes) -> Iterator[tuple[str, bytes]]:
    if not name.lower().endswith((".tif", ".tiff")):
        yield name, payload
        return
    try:
        pages = native.tiff_pages(payload)
    except ValueError:
        return
    for page in range(pages):
        try:
            yield f"{name}, page {page + 1}", native.extract_page(payload, page)
        except ValueError:
            continue


def _parquet_images(path: str) -> Iterator[tuple[str, bytes]]:
    if not has_pyarrow():
        return
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=256, columns=["sample_id", "position", "binary_content"]):
            for row in batch.to_pylist():
                if row["binary_content"] is not None:
                    yield f"{Path(path).name}, {row['sample_id']} at {row['position']}", row["binary_content"]


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
    if not member.isfile() or member.size > _LARGEST_MEMBER_BYTES:
        return None
    file = tar.extractfile(member)
    return None if file is None else file.read()
