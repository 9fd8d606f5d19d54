"""Images among the bytes of a row: what they are, and how a browser gets them.

Whatever the data claims, bytes go out only under one of the types below, and only when they begin as such a file does.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from shardmill._native import images as native
from shardmill.view.errors import Refused

#: Formats that every browser shows, with the type under which they are sent.
SHOWN_TYPES = {"jpeg": "image/jpeg", "png": "image/png", "webp": "image/webp", "gif": "image/gif"}

_KEPT_BYTES = 128 << 20


def image_format(buffer: Any) -> str | None:
    """By the first bytes: jpeg, png, webp, gif or tiff."""
    start = bytes(buffer[:16])
    if start.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "webp"
    return "tiff" if start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+") else None


def measured(buffer: Any, kind: str) -> dict[str, Any]:
    """Format and size, by the header; pages of a TIFF."""
    facts: dict[str, Any] = {"format": kind}
    payload = bytes(buffer)
    try:
        facts["width"], facts["height"] = native.image_size(payload)
        if kind == "tiff":
            facts["pages"] = native.tiff_pages(payload)
    except ValueError:
        facts["note"] = "its header cannot be read"
    return facts


def displayable(payload: bytes, page: int | None) -> tuple[str, bytes]:
    """Type and bytes for a browser; a TIFF is converted where Pillow is installed.

    Raises:
        Refused: with the reason, when the image cannot be shown.
    """
    kind = image_format(payload)
    if kind in SHOWN_TYPES:
        return SHOWN_TYPES[kind], payload
    if kind is None:
        raise Refused(415, "these bytes are no image that a browser shows")
    from shardmill.curate.page.pictures import picture_of

    if page is not None:
        try:
            payload = native.extract_page(payload, page)
        except ValueError as error:
            raise Refused(415, f"page {page + 1} of the TIFF cannot be read: {error}") from error
    picture = picture_of(payload)
    if isinstance(picture, str):
        raise Refused(415, f"browsers show no TIFF. {picture}")
    return f"image/{picture.kind}", picture.payload


class ImageStore:
    """Bytes of the images of the latest pages, so that showing them reads no file again."""

    def __init__(self) -> None:
        self._payloads: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def put(self, key: tuple[Any, ...], payload: bytes) -> None:
        """Keeps it until newer ones need the room."""
        with self._lock:
            if key in self._payloads or len(payload) > _KEPT_BYTES:
                return
            self._payloads[key] = payload
            self._bytes += len(payload)
            while self._bytes > _KEPT_BYTES:
                _, oldest = self._payloads.popitem(last=False)
                self._bytes -= len(oldest)

    def get(self, key: tuple[Any, ...]) -> bytes | None:
        """The bytes, if they are still there."""
        with self._lock:
            return self._payloads.get(key)
