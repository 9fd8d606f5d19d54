"""The modules form layers: a reader who follows the data never comes back to where he was."""

from pathlib import Path

import grimp
import pytest
from rust_modules import arrows_back_up, cycles, module_graph

ROOT = Path(__file__).parents[2]
CRATES = sorted(path.parent for path in [*ROOT.glob("crates/*/src"), ROOT / "python/src"])


def test_python_modules_have_no_import_cycle() -> None:
    graph = grimp.build_graph("shardmill", exclude_type_checking_imports=True)
    imports = {
        (name,): {(other,) for other in graph.find_modules_directly_imported_by(name)}
        for name in graph.modules
    }
    assert cycles(imports) == []


#: Each room may import those before it. Integrations are not listed: expressions and curation ask
#: them for objects of other libraries.
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


#: Number of arrows back up among the rooms of a crate, which must not grow.
BACK_UP = {"engine": 1, "formats": 6, "jobs": 1, "load": 4, "plan": 3, "resume": 1, "storage": 4}


@pytest.mark.parametrize("crate", CRATES, ids=lambda path: path.name)
def test_crate_has_no_cycle_and_no_more_arrows_back_up_than_it_had(crate: Path) -> None:
    graph = module_graph(crate / "src")
    assert [group for group in cycles(graph) if len(group) > 2] == []
    assert arrows_back_up(graph) <= BACK_UP.get(crate.name, 0)


def test_uses_after_the_declaration_of_tests_are_seen(tmp_path: Path) -> None:
    declared = "#[cfg(test)]\nmod tests;\n\nuse crate::b::B;"
    inline = "use crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}"
    for name, text in {"a": declared, "b": inline, "c": ""}.items():
        (tmp_path / f"{name}.rs").write_text(text)
    assert module_graph(tmp_path) == {("a",): {("b",)}, ("b",): {("a",)}, ("c",): set()}


def test_circle_is_found(tmp_path: Path) -> None:
    files = {
        "a": "use crate::b::{self, B};",
        "b": "fn f() { super::c::g() }",
        "c": "use super::a as other;",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.rs").write_text(text)
    assert cycles(module_graph(tmp_path)) == [{("a",), ("b",), ("c",)}]


def write_rooms(source: Path) -> None:
    """A crate whose room `low` uses what `high` re-exports, and what `high/mod.rs` defines."""
    files = {
        "lib.rs": "mod high;\nmod low;\npub use high::Inner;",
        "high/mod.rs": "mod inner;\npub use inner::Inner;\n"
        "use crate::low::Low;\npub struct Own(Low);",
        "high/inner.rs": "pub struct Inner;",
        "low.rs": "use crate::Inner;\nuse crate::high::Own;\npub struct Low;",
    }
    (source / "high").mkdir(parents=True)
    for name, text in files.items():
        (source / name).write_text(text)


def test_path_leads_to_the_file_that_defines_its_last_name(tmp_path: Path) -> None:
    write_rooms(tmp_path)
    graph = module_graph(tmp_path)
    assert graph["low",] == {("high", "inner"), ("high",)}
    assert graph["high",] == {("low",)}


def test_arrow_back_up_is_counted_in_the_best_order_of_the_rooms(tmp_path: Path) -> None:
    write_rooms(tmp_path)
    assert arrows_back_up(module_graph(tmp_path)) == 1
    (tmp_path / "high" / "mod.rs").write_text("mod inner;\npub use inner::Inner;\npub struct Own;")
    assert arrows_back_up(module_graph(tmp_path)) == 0
