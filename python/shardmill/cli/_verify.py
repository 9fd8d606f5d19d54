"""The command ``shardmill verify``."""

from __future__ import annotations

from typing import Any, get_args

import click

from shardmill._terminal import counted, escape
from shardmill.cli._messages import is_quiet, tell
from shardmill.cli._options import (
    DIRECTORY,
    FROM_1,
    PATH,
    json_option,
    limit_option,
    one_of,
    paths_argument,
    progress_option,
    refuse,
    sample_options,
    storage_option,
    threads_option,
    write_json,
)
from shardmill.data._token_files import TokenDtype


@click.command(name="verify")
@paths_argument("PATH...")
@click.option(
    "--layout",
    **one_of("auto", "source", "written"),
    help="Rules for tars: of any source, or of those that `curate` wrote.",
)
@click.option(
    "--renumbered", is_flag=True, help="Positions must be exactly 0 to n-1, as filters write them."
)
@click.option(
    "--max-problems", **FROM_1, default=100, help="Maximum number of problems shown per file."
)
@click.option(
    "--vocab-size", **FROM_1, help="Number of ids of the vocabulary, to check those of token files."
)
@click.option(
    "--dtype",
    type=click.Choice(get_args(TokenDtype)),
    help="How token files without a header store an id.",
)
@click.option(
    "--label-masks",
    "label_mask_paths",
    multiple=True,
    type=PATH,
    metavar="PATH",
    help="Masks of .npy files, one for each, in the same order; may be repeated.",
)
@click.option(
    "--source",
    type=DIRECTORY,
    metavar="DIR",
    help="Directory of the texts that `tokenize` read, to tokenize a sample of them again.",
)
@click.option(
    "--sample",
    **FROM_1,
    default=1000,
    help="Number of documents that --source tokenizes again, drawn at random.",
)
@click.option(
    "--tokenizer",
    type=PATH,
    metavar="PATH",
    help="Tokenizer for --source, if it is not at the path that `tokenize` read.",
)
@sample_options
@threads_option
@progress_option
@json_option
@limit_option
@storage_option
def command(paths: tuple[str, ...], renumbered: bool, as_json: bool, **options: Any) -> int:
    """Check files completely. PATH is a file, a directory or a glob.

    Reads all rows of Parquet, ORC, CSV, JSONL, ArrayRecord, MDS, WebDataset and token files, and
    compares every checksum. Interleaved documents are also checked for order, structure and image
    headers. A directory may hold several formats. Each problem is one line. The exit code is 1 if a
    file has a problem.

    \b
    Example:
      shardmill verify curated/ train.array_record table.parquet
      shardmill verify curated/*.tar --layout written --json > checks.json
      shardmill verify tokens/ --vocab-size 50257
      shardmill verify corpus --source texts/
    """
    from shardmill import Provenance
    from shardmill.curate._verification import problem_table, verify

    given = {name: options.pop(name) for name in ("source", "sample", "tokenizer")}
    provenance, files = None, list(paths)
    if given["source"] is None:
        refuse({"sample", "tokenizer"}, "requires --source")
    else:
        path, *others = paths
        if others:
            raise click.UsageError("--source takes one PATH, that of the token files")
        provenance = Provenance(path)
        files, options["dtype"] = provenance.files, options["dtype"] or provenance.dtype
    options["label_mask_paths"] = list(options["label_mask_paths"]) or None
    checks = verify(files, is_renumbered=renumbered, **options)
    bad = [check for check in checks if not check.is_valid]
    compared = None if provenance is None else provenance.verify(**given)
    if as_json:
        found = [check.to_dict() for check in checks]
        write_json(found if compared is None else {"files": found, "source": compared.to_dict()})
    elif bad:
        click.echo(problem_table(bad))
    notes = [f"note: {check.path}: {note}" for check in checks for note in check.notes]
    if notes and not as_json:
        click.echo("\n".join(notes))
    samples, rows = (
        sum(check.samples for check in checks),
        sum(sum(check.rows.values()) for check in checks),
    )
    problems = sum(check.problem_count for check in checks)
    # An index stands for all of its shards, and its problems may be in any number of them.
    where = "" if any(check.shards for check in bad) else f" in {counted(len(bad), 'file')}"
    outcome = f"{counted(problems, 'problem')}{where}" if bad else "no problems"
    files = sum(check.shards or 1 for check in checks)
    counts = f"{counted(files, 'file')}, {counted(samples, 'sample')}, {counted(rows, 'row')}"
    if as_json:
        tell(f"{counts}: {outcome}")
    elif not is_quiet():
        click.echo(f"{counts}: {outcome}")
    if compared is None:
        return 1 if bad else 0
    if not as_json:
        for mismatch in compared.mismatches:
            click.echo(escape(str(mismatch)))
    outcome = f"{len(compared.mismatches):,} differ" if compared.mismatches else "all are equal"
    tell(
        f"{counted(compared.documents, 'document')} of {counted(compared.tokens, 'token')} "
        f"tokenized again: {outcome}"
    )
    return 1 if bad or compared.mismatches else 0
