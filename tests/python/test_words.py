"""The documentation is written in plain technical English: phrases that a reader has to read twice do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/[!b]*/*.md")])
#: Phrase, and what to write. Names of code and messages are not prose.
PHRASES = {
    r"so many": "the number, or the size",
    r"who(?:so)?ever": "the process, thread or user",
    r"(?:no|some)body": "the process, thread or user",
    r"of ours": "of shardmill",
    r"folders?": "directory",
    r"is no (?:valid )?(?:file|directory|path|number|text|string|list|name)\b": "is not a valid …",
    r"goes? on where": "continues where",
}
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_has_no_phrase_that_is_banned(page: Path) -> None:
    prose = _CODE.sub(lambda code: "\n" * code.group().count("\n"), page.read_text())
    found = {
        f"{page.name}:{prose[: match.start()].count(chr(10)) + 1}: {match.group()!r}: {instead}"
        for phrase, instead in PHRASES.items()
        for match in re.finditer(rf"\b(?:{phrase})\b", prose, re.IGNORECASE)
    }
    assert not found
