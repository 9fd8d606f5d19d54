"""The modules of the project form layers: a reader who follows the data never comes back to where he was."""

from pathlib import Path

import grimp
import pytest
from rust_modules import cycles, module_graph

ROOT = Path(__file__).parents[2]
CRATES = sorted(path.parent for path in [*ROOT.glob("crates/*/src"), ROOT / "python/src"])


def test_python_modules_have_no_import_cycle() -> None:
    graph = grimp.build_graph("shardmill", exclude_type_checking_imports=True)
    imports = {(name,): {(other,) for other in graph.find_modules_directly_imported_by(name)} for name in graph.modules}
    assert cycles(imports) == []


#: Each room may import those before it. Integrations are not listed: expressions and curation ask them for objects of other libraries.
ROOMS = [
    "errors",
    "metrics",
    "storage",
    "arrayrecord",
    "expressions",
    "data",
    "load",
    "write",
    "resume",
    "curate",
    "view",
    "cli",
]


def test_python_room_imports_no_room_above_it() -> None:
    graph = grimp.build_graph("shardmill", exclude_type_checking_imports=True)
    for room in ROOMS:
        if graph.find_children(f"shardmill.{room}"):
            graph.squash_module(f"shardmill.{room}")
    above = [(room, other) for number, room in enumerate(ROOMS) for other in ROOMS[number + 1 :]]
    assert [
        f"{room} imports {other}"
        for room, other in above
        if graph.direct_import_exists(importer=f"shardmill.{room}", imported=f"shardmill.{other}")
    ] == []


@pytest.mark.parametrize("crate", CRATES, ids=lambda path: path.name)
def test_crate_has_no_cycle_of_more_than_two_files(crate: Path) -> None:
    assert [group for group in cycles(module_graph(crate / "src")) if len(group) > 2] == []


def test_cycle_is_found(tmp_path: Path) -> None:
    files = {"a": "use crate::b::{self, B};", "b": "fn f() { super::c::g() }", "c": "use super::a as other;"}
    for name, text in files.items():
        (tmp_path / f"{name}.rs").write_text(text)
    assert cycles(module_graph(tmp_path)) == [{("a",), ("b",), ("c",)}]
