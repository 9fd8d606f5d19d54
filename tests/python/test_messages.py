"""Every message as a user reads it.

After a change that was reviewed,
``python tests/python/message_cases.py`` rewrites ``messages.txt``.
"""

from __future__ import annotations

import re

import pytest
from breadth import in_one
from message_cases import CASES, SNAPSHOT, outcome, write_files

EXPECTED = dict(
    re.findall(r"^\[(.+)\]\n((?:.+\n)+)", SNAPSHOT.read_text(encoding="utf-8"), re.MULTILINE)
)
#: Debug output of Rust, and errors of libraries that parse options.
RAW = re.compile(r"Some\(|invalid type|dunder|Error \{|object is not")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("messages").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        write_files()
        yield path


def test_each_situation_has_a_message_and_each_message_a_situation() -> None:
    assert list(EXPECTED) == list(CASES)


def test_no_message_shows_what_only_a_developer_reads() -> None:
    assert [
        name for name, text in EXPECTED.items() if RAW.search(text) or text == "nothing\n"
    ] == []


@pytest.mark.filterwarnings("ignore")
@in_one("name", CASES)
def test_message(directory, name: str) -> None:
    assert outcome(CASES[name]) + "\n" == EXPECTED[name]
