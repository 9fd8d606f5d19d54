"""Hooks of mkdocs.

The home page is the README; the commands, the tables of options and the index of errors follow from
the code. Links that leave ``docs`` lead to the repository, whose address is in ``pyproject.toml``.
"""

import ast
import posixpath
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from options import with_tables
from shardmill.cli._commands import shardmill

ROOT = Path(__file__).parents[2]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)\s]+)(\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the addresses from the metadata of the package."""
    config.site_url = URLS["Homepage"]
    config.repo_url = URLS["Repository"]
    config.repo_name = "shardmill"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=LINK.sub(_from_docs, readme)))
    files.append(File.generated(config, "reference/cli.md", content=command_reference()))
    files.append(File.generated(config, "reference/errors.md", content=error_index()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links out of ``docs`` to the repository, and drop marks of code that no test runs."""
    directory = posixpath.dirname(page.file.src_uri)

    def target(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", directory, match[2]))
        return (
            match[0]
            if path.startswith("docs/")
            else f"{match[1]}{URLS['Repository']}/blob/main/{path}{match[3]}"
        )

    return LINK.sub(target, with_tables(markdown.replace("```python no-run", "```python")))


def _from_docs(match: re.Match[str]) -> str:
    path = posixpath.relpath(match[2], "docs")
    return f"{match[1]}{path}{match[3]}"


def error_index() -> str:
    """The public errors: what to catch, the cause, and the remedy."""
    lines = [
        "# Errors",
        "",
        (
            "Every exception class of shardmill derives from `shardmill.Error` "
            "and from a builtin exception."
        ),
        (
            "The message says what failed, where, and after `hint:` what to do. "
            "It never contains a secret."
        ),
        (
            "Wrong calls, such as an unknown keyword argument, raise a plain `TypeError`, "
            "and a missing package raises an `ImportError`."
        ),
    ]
    module = ast.parse((ROOT / "python/shardmill/errors.py").read_text(encoding="utf-8"))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            cause, _, remedy = (ast.get_docstring(node) or "").partition("\n\n")
            bases = ", ".join(f"`{ast.unparse(base)}`" for base in node.bases)
            lines += [
                "",
                f"## {node.name}",
                "",
                _line(cause),
                "",
                f"**Remedy:** {_line(remedy)}",
                "",
                f"**Derives from** {bases}.",
            ]
    return "\n".join(lines) + "\n"


def command_reference() -> str:
    """The help texts of all commands."""
    lines = [
        "# Command line",
        "",
        "Data is written to stdout, messages to stderr.",
        (
            "Exit codes: 0 success; 1 an error, or problems were found; "
            "2 wrong usage; 130 interrupted."
        ),
    ]
    settings = shardmill.context_settings | {"max_content_width": 110}
    for context in _contexts(click.Context(shardmill, info_name="shardmill", **settings)):
        level = "##" + "#" * context.command_path.count(" ")
        lines += ["", f"{level} {context.command_path}", "", "```text", context.get_help(), "```"]
    return "\n".join(lines) + "\n"


def _contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            if command is not None:
                yield from _contexts(click.Context(command, parent=context, info_name=name))


def _line(docstring: str) -> str:
    return " ".join(docstring.replace("``", "`").split())
