"""Prose is in plain technical English: phrases that must be read twice do not come back."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/[!b]*/*.md")])
SOURCES = sorted(
    [
        *ROOT.glob("python/shardmill/**/*.py"),
        *ROOT.glob("crates/*/src/**/*.rs"),
        *ROOT.glob("python/src/**/*.rs"),
    ]
)
#: Phrase, and what to write. In pages, code and messages are not prose; in sources, the whole text
#: is checked, names included. The first pattern is split, so that a search and replace does not
#: change it.
PHRASES = {
    r"\w*fold" + r"ers?\w*": "directory",
    r"so many": "the number, or the size",
    r"who(?:so)?ever": "the process, thread or user",
    r"(?:no|some)body": "the process, thread or user",
    r"of ours": "of shardmill",
    r"(?<!there )is no (?:valid )?(?:file|directory|path|number|text|string|list|name)\b": (
        "is not a valid …"
    ),
    r"goes? on where": "continues where",
    r"one behind the other": "one after the other",
    r"(?:lies?|lie|stands?) behind": "is after, or is past the end of",
    r"behind the (?:end|last|first)": "after, or past the end of",
    r"what becomes of": "what happens to",
    r"cannot be had": "cannot be read",
}
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)


_ANY = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)


def _found(name: str, text: str) -> set[str]:
    # One search for all phrases takes a fraction of the time of one for each.
    if not _ANY.search(text):
        return set()
    return {
        f"{name}:{text[: match.start()].count(chr(10)) + 1}: {match.group()!r}: {instead}"
        for phrase, instead in PHRASES.items()
        for match in re.finditer(rf"\b(?:{phrase})\b", text, re.IGNORECASE)
    }


def test_no_page_has_a_phrase_that_is_banned() -> None:
    found: set[str] = set()
    for page in PAGES:
        prose = _CODE.sub(lambda code: "\n" * code.group().count("\n"), page.read_text())
        found |= _found(str(page.relative_to(ROOT)), prose)
    assert not found


def test_no_source_has_a_phrase_that_is_banned() -> None:
    assert not set().union(
        *(_found(str(source.relative_to(ROOT)), source.read_text()) for source in SOURCES)
    )
