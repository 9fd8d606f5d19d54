"""One pack for the page: its documents in order."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from shardmill.view._packed_pictures import PackedPicture
from shardmill.view._packs import Pack, Packs
from shardmill.view._png import NO_PILLOW
from shardmill.view._query import Query, Refused
from shardmill.view._session import Opened

#: Documents of a pack that a page lists, tokens of one document, and tokens of all of them.
_MOST_DOCUMENTS = 500
_MOST_OF_DOCUMENT = 2_000
_MOST_OF_PAGE = 20_000


def packs_page(opened: Opened, query: Query) -> dict[str, Any]:
    """Return pack ``start``: its documents in order, and the costs of steps if there is a balance.

    Each document has file, row, range of tokens, and cell.
    """
    packs = _packs(opened)
    epoch, length = packs.epoch(), packs.packing.length
    total = epoch["packs_of_epoch"]
    answer = {
        "total": total,
        "length": length,
        "strategy": packs.packing.strategy,
        "rows": epoch["rows_of_epoch"],
        "tokens": epoch["tokens_of_epoch"],
        "fill_rate": epoch["fill_rate"],
        "left_out": epoch["truncated_tokens"] + epoch["dropped_tokens"],
    }
    if not total:
        return answer | {"pack": None}
    if opened.step_costs is not None:
        answer["step_costs"] = opened.step_costs.content
    number = min(query.number("start", 0), total - 1)
    pack = packs.pack(number)
    documents: list[dict[str, Any]] = []
    left = _MOST_OF_PAGE
    for at, ((file, row, first, tokens), start) in enumerate(
        zip(pack.pieces, _starts(packs, pack), strict=False)
    ):
        facts = {
            "document": at,
            "file": file,
            "file_row": row,
            "first_token": first,
            "start": start,
            "tokens": tokens,
        }
        if at < _MOST_DOCUMENTS:
            cell = _cell(opened, pack, at, min(left, _MOST_OF_DOCUMENT))
            left -= len(cell["tokens"])
            # A document of several rows has no single row to link to.
            place = None if opened.source.joins_rows else opened.position_of(file, row)
            facts |= {"row": place, "cell": cell}
        documents.append(facts)
    filled = sum(document["tokens"] for document in documents)
    return answer | {
        "pack": number,
        "filled": filled,
        "padding": length - filled,
        "documents": documents,
        "pictures": [(picture.start, picture.tokens) for picture in pack.pictures],
    }


def whole_document(opened: Opened, pack: int, document: int, most: int) -> dict[str, Any]:
    """Return the cell of one document of a pack."""
    found = _packs(opened).pack(pack)
    if document >= len(found.pieces):
        raise Refused(404, "there is no such document")
    return _cell(opened, found, document, most)


def packed_picture(opened: Opened, query: Query) -> tuple[str, bytes]:
    """Return the media type and the bytes of image ``picture`` of ``pack``."""
    pictures = _packs(opened).pack(query.number("pack")).pictures
    number = query.number("picture")
    if number >= len(pictures):
        raise Refused(404, "there is no such image")
    png = pictures[number].png
    if png is None:
        raise Refused(415, NO_PILLOW)
    return "image/png", png


def _packs(opened: Opened) -> Packs:
    if opened.packs is None:
        raise Refused(
            404, "this data set is not shown as packs\nhint: pass --pack with a number of tokens"
        )
    return opened.packs


def _starts(packs: Packs, pack: Pack) -> list[int]:
    multiple = packs.packing.multiple_of
    lengths = (-(-tokens // multiple) * multiple for *_, tokens in pack.pieces)
    return list(accumulate(lengths, initial=0))


def _cell(opened: Opened, pack: Pack, document: int, most: int) -> dict[str, Any]:
    columns, texts = opened.source.token_columns, opened.texts
    assert columns is not None and texts is not None
    start, tokens = _starts(_packs(opened), pack)[document], pack.pieces[document][3]
    ids, *labels = [
        pack.columns[name].slice(start, tokens) for name in columns.names if name in pack.columns
    ]
    pictures = [
        {"pack": pack.number, "picture": number} | _picture(picture, start)
        for number, picture in enumerate(pack.pictures)
        if start <= picture.start < start + tokens
    ]
    return texts.cell(ids, labels[0] if labels else None, most, pictures)


def _picture(picture: PackedPicture, start: int) -> dict[str, Any]:
    """Return what the page shows of an image in the document that begins at token ``start``."""
    height, width = picture.sides
    return {
        "kind": "picture",
        "start": picture.start - start,
        "tokens": picture.tokens,
        "width": width,
        "height": height,
        "valid": picture.is_valid,
    }
