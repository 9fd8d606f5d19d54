"""The pictures of the page: documents as a reader of the data set will meet them, and images that were dropped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shardmill.curate.page.documents import (
    Document,
    Picture,
    Rejected,
    Text,
    documents_of,
    has_pyarrow,
    rejected_images,
)
from shardmill.curate.page.markup import Html, element
from shardmill.curate.page.pictures import Thumbnail, Thumbnailer

if TYPE_CHECKING:
    from shardmill.curate.report import Report

_MOST_CHARACTERS = 280
_MOST_ENTRIES = 8
_REJECTED = 10


def document_section(report: Report, thumbnailer: Thumbnailer, count: int, *, origin: str) -> Html:
    """Documents of the output in reading order.

    Args:
        report: the finished run.
        thumbnailer: makes the pictures.
        count: how many documents to show at most.
        origin: name of the run, for the heading's note.
    """
    documents = documents_of(report.outputs, count)
    note = f"Read back from what was written ({origin}): texts and images in reading order, numbered by position."
    children = [element("h2", "Documents of the output"), element("p", note, class_="note")]
    if not thumbnailer.is_available:
        children.append(_without_pillow())
    if documents:
        cards = [_card(document, thumbnailer) for document in documents]
        children.append(element("div", cards, class_="documents"))
    else:
        parquet = any(output["path"].endswith(".parquet") for output in report.outputs)
        needs_pyarrow = parquet and not has_pyarrow()
        reason = (
            "pyarrow is not installed, so Parquet cannot be read back." if needs_pyarrow else "There are none to show."
        )
        children.append(element("p", reason))
    return element("section", children)


def rejected_section(report: Report, thumbnailer: Thumbnailer) -> Html | None:
    """Images of the input that the aspect ratio filter drops, or None when the run had no such filter or dropped none."""
    bounds = _bounds(report)
    if bounds is None or not thumbnailer.is_available:
        return None
    paths = [path for split in report.splits for path in split["files"]]
    images = rejected_images(paths, *bounds, _REJECTED)
    if not images:
        return None
    low, high = bounds
    note = (
        f"Images of the input whose width over height is outside of {low:g} … {high:g}. The filter judged them by their "
        "headers; their pixels were not read. They are decoded only here, to be looked at."
    )
    return element(
        "section",
        element("h2", "Images that were dropped"),
        element("p", note, class_="note"),
        element("ul", [element("li", _rejected(image, bounds, thumbnailer)) for image in images], class_="rejected"),
    )


def _card(document: Document, thumbnailer: Thumbnailer) -> Html:
    shown = document.entries[:_MOST_ENTRIES]
    entries = [
        element("li", element("span", str(position), class_="position"), _entry(entry, position, thumbnailer))
        for position, entry in shown
    ]
    more = len(document.entries) - len(shown)
    texts = sum(isinstance(entry, Text) for _, entry in document.entries)
    contents = (
        f"{_counted(texts, 'text')}, {_counted(len(document.entries) - texts, 'image')} · {Path(document.path).name}"
    )
    return element(
        "article",
        element("h3", element("span", document.sample_id, class_="id")),
        element("p", contents),
        element("ol", entries),
        element("p", f"… and {more} more", class_="more") if more > 0 else None,
        class_="document",
    )


def _entry(entry: Text | Picture, position: int, thumbnailer: Thumbnailer) -> Html:
    if isinstance(entry, Text):
        return _paragraph(entry.text)
    size = entry.size
    facts = [f"{size[0]} × {size[1]}", f"ratio {size[0] / size[1]:.2f}"] if size and size[1] else ["size unknown"]
    if entry.payload is not None:
        facts.append(f"{_kind(entry.payload)}, {len(entry.payload) / 1e3:,.1f} kB")
    caption = " · ".join(facts)
    return _figure(thumbnailer.thumbnail(entry.payload), f"Image at position {position}: {caption}", caption)


def _paragraph(text: str) -> Html:
    # A cut that hides only a few words is not worth its sentence.
    is_cut = len(text) > _MOST_CHARACTERS * 4 // 3
    shown = text[:_MOST_CHARACTERS] if is_cut else text
    if is_cut and " " in shown:
        shown = shown.rsplit(None, 1)[0]
    more = element("span", f" … {len(text) - len(shown):,} more characters", class_="more") if is_cut else None
    if not text:
        more = element("span", "(empty text)", class_="more")
    return element("p", shown, more, class_="text", dir="auto")


def _rejected(image: Rejected, bounds: tuple[float, float], thumbnailer: Thumbnailer) -> Html:
    low, high = bounds
    verdict = f"below {low:g}" if image.ratio < low else f"above {high:g}"
    caption = [
        element("strong", f"ratio {image.ratio:.2f}, {verdict}"),
        element("br"),
        Html(f"{image.width} × {image.height}"),
    ]
    alternative = f"Dropped image of {image.width} × {image.height} pixels, {image.name}"
    return _figure(thumbnailer.thumbnail(image.payload), alternative, caption)


def _figure(thumbnail: Thumbnail | str, alternative: str, caption: str | list[Html]) -> Html:
    if isinstance(thumbnail, str):
        picture = element("p", thumbnail, class_="unseen")
    else:
        picture = element(
            "img",
            src=thumbnail.uri,
            alt=alternative,
            # Half of the pixels: the other half is for dense screens.
            width=-(-thumbnail.width // 2) if thumbnail.width > 400 else thumbnail.width,
            height=-(-thumbnail.height // 2) if thumbnail.width > 400 else thumbnail.height,
        )
    return element("figure", picture, element("figcaption", caption))


def _bounds(report: Report) -> tuple[float, float] | None:
    for stage in report.params.get("stage_options") or []:
        if "aspect_ratio" in stage:
            return stage["aspect_ratio"]["min"], stage["aspect_ratio"]["max"]
    return None


def _kind(payload: bytes) -> str:
    starts = {b"\xff\xd8": "JPEG", b"\x89PNG": "PNG", b"II": "TIFF", b"MM": "TIFF", b"GIF8": "GIF", b"BM": "BMP"}
    if payload[:4] == b"RIFF" and payload[8:12] == b"WEBP":
        return "WebP"
    return next((name for start, name in starts.items() if payload.startswith(start)), "image")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _without_pillow() -> Html:
    message = "Pillow is not installed, so there are no pictures on this page: pip install 'shardmill[images]'"
    return element("p", message, class_="alarm")
