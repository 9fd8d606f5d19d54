"""Contents of an ArrayRecord file, as lines of a page."""

from __future__ import annotations

from typing import Any


def arrayrecord_lines(summary: dict[str, Any]) -> list[str]:
    """Return the lines for display."""
    records, decoded, stored = summary["records"], summary["decoded_bytes"], summary["stored_bytes"]
    lines = [
        f"  records     {records:,} in {summary['chunks']:,} chunks of {summary['group_size']:,}"
    ]
    if summary["codec"]:
        lines.append(
            f"  codec       {summary['codec']}{', transposed' if summary['is_transposed'] else ''}"
        )
    lines.append(f"  options     {summary['writer_options'] or 'unknown'}")
    if summary["measured"]:
        some = "" if summary["measured"] == records else f", of the first {summary['measured']:,}"
        mean = decoded / max(records, 1)
        lines.append(
            f"  lengths     {summary['shortest']:,} to {summary['longest']:,}{some}; "
            f"mean {mean:,.1f}"
        )
    lines.append(f"  bytes       {decoded:,} of records, {stored:,} in the file")
    if decoded:
        lines[-1] += f" ({100 * stored / decoded:.1f} %)"
    if summary["first"]:
        lines.append("  first records")
        lines += [f"    {_record(record)}" for record in summary["first"]]
    return lines


def _record(record: dict[str, Any]) -> str:
    if record["text"] is None:
        cut = "…" if 2 * record["bytes"] > len(record["hex"]) else ""
        return f"{record['bytes']:,} bytes: {record['hex']}{cut}"
    text = " ".join(record["text"].split())
    return f"{record['bytes']:,} bytes: {text if len(text) <= 100 else text[:99] + '…'}"
