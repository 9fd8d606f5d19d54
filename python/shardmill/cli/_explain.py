"""The command ``shardmill explain``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from shardmill._terminal import aligned, counted, size_text
from shardmill.cli._explain_documents import explain_documents
from shardmill.cli._explain_packs import explain_packs
from shardmill.cli._options import (
    FROM_0,
    FROM_1,
    PATH,
    Size,
    json_option,
    limit_option,
    parameters,
    refuse,
    storage_option,
    together,
    write_json,
)
from shardmill.cli._packs import balance_options, pack_options
from shardmill.cli._sequences import model_option, parts_option
from shardmill.cli._tables import dataset_options, open_files, titled, token_files_option
from shardmill.cli._token_sources import counts_option, source_options, tokenizer_options

_RUNS_SHOWN = 20
_RANKS_SHOWN = 16
_LANES_SHOWN = 3
_ROWS_PER_BATCH = 1024

#: For packs, which are explained by their cost.
_of_packs = together(
    balance_options,
    pack_options,
    click.option("--lengths", metavar="NAME", help="Column with the number of tokens of each row."),
    click.option(
        "--tokenizer",
        type=PATH,
        metavar="PATH",
        help="Tokenizer of the texts to pack, if tokens are not stored.",
    ),
    tokenizer_options,
    source_options,
    counts_option,
)


@click.command(name="explain")
@dataset_options
@token_files_option
@click.option("--step", **FROM_0, default=0, help="Which step of the epoch.")
@click.option("--rank", **FROM_0, default=0, help="Rank whose batch is shown.")
@click.option("--world-size", **FROM_1, default=1, help="How many ranks.")
@click.option(
    "--batch-size",
    **FROM_1,
    help=f"Rows of one rank; default: {_ROWS_PER_BATCH}. With --cost or --model, packs; "
    "default: 1.",
)
@click.option(
    "--lanes",
    **FROM_1,
    help="Number of runs that each step takes rows from; default: one per rank.",
)
@click.option(
    "--tail", type=click.Choice(["uneven", "drop", "pad"]), help="How the last rows are handled."
)
@click.option("--shuffle", is_flag=True, help="A new order in every epoch.")
@click.option(
    "--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of the order."
)
@click.option("--window", type=Size(least=0), help="Size of the shuffle window, in decoded bytes.")
@click.option("--epoch", **FROM_0, default=0, help="Which epoch.")
@_of_packs
@model_option
@parts_option
@json_option
@limit_option
@storage_option
def command(as_json: bool, **options: Any) -> None:
    """Show which rows a rank gets in one step, and why. No row is read, except for a filter.

    The options are those of shardmill.Loader for rows; Loader.explain also explains packs and
    mixtures. PATH is a file, a directory or a glob.

    With --cost, show how long ranks wait for the rank with the most work, without and with
    shardmill.Balance. Packs are made from the column tokens or input_ids, from the list column
    --column, or from the texts that --tokenizer tokenizes, with the options of shardmill tokenize.

    With --model, show the documents and images in the packs of the step. Their texts and the
    headers of their images are read, and no pixel is decoded.

    \b
    Example:
      shardmill explain data/ --step 3 --rank 1 --world-size 4 --batch-size 256
      shardmill explain data/ --shuffle --seed 7 --window 1GiB --epoch 2 --filter "label = 0" --json
      shardmill explain tokens/ --cost model/config.json --pack 8192 --per-step 4 --world-size 64
      shardmill explain curated/ --model model/ --eos "<|im_end|>" --pack 8192 --step 3
    """
    from shardmill import Loader, Shuffle

    if options["window"] is not None and not options["shuffle"]:
        raise click.UsageError("--window requires --shuffle")
    shuffle = options["shuffle"] if options["window"] is None else Shuffle(options["window"])
    if options["cost"] is not None:
        refuse({"model", "parts"}, "cannot be used with --cost")
        explain_packs(options, shuffle, as_json=as_json)
        return
    if options["rank"] >= options["world_size"]:
        raise click.UsageError(
            f"--rank must be below --world-size, which is {options['world_size']}"
        )
    if options["model"] is not None:
        others = {"pack", "bos", "eos"}
        refuse(parameters(_of_packs) - others, "cannot be used with --model")
        explain_documents(options, shuffle, as_json=as_json)
        return
    refuse({"parts"}, "requires --model")
    refuse(parameters(_of_packs), "requires --cost")
    options["batch_size"] = options["batch_size"] or _ROWS_PER_BATCH
    dataset = open_files(options)
    loader = Loader(
        dataset,
        # The output that takes all types without pyarrow.
        output="dict",
        shuffle=shuffle,
        **{
            name: options[name]
            for name in ("batch_size", "lanes", "rank", "world_size", "tail", "seed")
        },
    )
    plan = loader.explain(step=options["step"], epoch=options["epoch"])
    if plan["rows"] is None:
        raise click.UsageError(
            _missing_step(plan, options, is_filtered=dataset.row_filter is not None)
        )
    state = loader.state_dict()
    plan |= {
        "global_batch": options["batch_size"] * options["world_size"],
        "filter": None if dataset.row_filter is None else repr(dataset.row_filter),
        "lanes_of_job": state["lanes"],
        "window_limit": state["shuffle_window_bytes"],
    }
    if as_json:
        names = ("step", "epoch", "rank", "world_size", "batch_size", "shuffle", "seed")
        write_json({name: options[name] for name in names} | plan)
        return
    for line in _page(plan, options, len(dataset.files)):
        click.echo(line)


def _missing_step(plan: dict[str, Any], options: dict[str, Any], *, is_filtered: bool) -> str:
    """Return why the epoch does not have the step, and what to do."""
    rows, steps = plan["rows_of_epoch"], plan["steps"]
    if not rows:
        return (
            "the filter selects no row\nhint: change --filter"
            if is_filtered
            else "the files have no rows"
        )
    if not steps:
        shown = (
            "--tail drop leaves out steps "
            f"with fewer than {counted(options['batch_size'], 'row')} a rank"
        )
        return (
            f"{shown}, and the data has {counted(rows, 'row')}\n"
            "hint: lower --batch-size, or pass --tail uneven or pad"
        )
    shown = f"{counted(steps, 'step')} of {counted(options['batch_size'], 'row')} a rank"
    return (
        f"step {options['step']:,} does not exist: the epoch has {shown}\n"
        f"hint: the last one is --step {steps - 1}"
    )


def _page(plan: dict[str, Any], options: dict[str, Any], files: int) -> Iterator[str]:
    rank, ranks = options["rank"], options["world_size"]
    rows = sum(count for *_, count in plan["rows"])
    yield (
        f"Epoch {options['epoch']}, step {options['step']:,} of {plan['steps']:,}, "
        f"rank {rank} of {ranks}: {counted(rows, 'row')}"
    )
    yield ""
    yield from _rows(plan)
    yield ""
    yield from titled("Why these rows", _reasons(plan, options, files))
    yield ""
    yield from titled("What the epoch costs", _costs(plan, ranks))
    if ranks > 1:
        yield ""
        yield from _ranks(plan)


def _rows(plan: dict[str, Any]) -> list[str]:
    runs = plan["rows"]
    lines = [
        ("file", "first row", "rows"),
        *((file, f"{first:,}", f"{count:,}") for file, first, count in runs[:_RUNS_SHOWN]),
    ]
    shown = aligned(lines, to_the_right=[False, True, True])
    left = runs[_RUNS_SHOWN:]
    if left:
        files = len({file for file, *_ in left})
        rows = counted(sum(count for *_, count in left), "more row")
        shown.append(f"… and {rows}, in {counted(files, 'file')}; --json lists them")
    return shown


def _reasons(
    plan: dict[str, Any], options: dict[str, Any], files: int
) -> Iterator[tuple[str, str]]:
    lanes, ranks = plan["lanes_of_job"], options["world_size"]
    filtered = f", where {plan['filter']}" if plan["filter"] else ""
    yield (
        "row set",
        f"{counted(plan['rows_of_epoch'], 'row')} in {counted(plan['blocks'], 'block')} "
        f"of {counted(files, 'file')}{filtered}",
    )
    if options["shuffle"]:
        yield (
            "order",
            f"seed {options['seed']}, epoch {options['epoch']}: blocks in random order, "
            "rows mixed within windows of blocks",
        )
        yield (
            "windows",
            f"{plan['windows']:,} of at most {size_text(plan['window_limit'])} with all columns;"
            f" a row moves by {plan['mixing_distance']:,} rows on average",
        )
    else:
        yield "order", "as in the files"
    if lanes > 1:
        yield (
            "lanes",
            f"that order is cut into {lanes:,} lanes of equal length; "
            "one row of each in turn is the global sequence",
        )
    start, end = plan["places"]
    yield (
        "step",
        f"{counted(end - start, 'row')}, places {start:,} to {end - 1:,} "
        f"of the {'global sequence, lane after lane' if lanes > 1 else 'order'}",
    )
    yield f"rank {options['rank']} of {ranks}", _slice_text(plan)
    if plan["repeats"]:
        yield (
            "repeats",
            f"{counted(plan['repeats'], 'row')} at the end, "
            "repeated from the start of the epoch and marked in `__padded`",
        )


def _slice_text(plan: dict[str, Any]) -> str:
    taken = [
        f"{counted(count, 'row')}{f' of lane {lane}' if plan['lanes_of_job'] > 1 else ''} "
        f"from place {position:,} of the order on"
        for lane, position, count in plan["lanes"][:_LANES_SHOWN]
    ]
    more = len(plan["lanes"]) - _LANES_SHOWN
    return (
        "; ".join([*taken, *([f"so on for {counted(more, 'more lane')}"] if more > 0 else [])])
        or "no new row"
    )


def _costs(plan: dict[str, Any], ranks: int) -> Iterator[tuple[str, str]]:
    yield "tail", _tail_text(plan)
    batches = {rank["batches"] for rank in plan["ranks"]}
    if len(batches) > 1:
        yield "batches", f"{max(batches):,} on some ranks, {min(batches):,} on others"
    else:
        yield "batches", f"{max(batches):,} on {'every rank' if ranks > 1 else 'the one rank'}"
    if plan["windows"]:
        first, last = plan["lanes_of_rank"]
        yield (
            "memory",
            f"the largest window takes {size_text(plan['window_bytes'])}; "
            f"this rank holds one for each of its {counted(last - first, 'lane')}",
        )
    yield "decoding", f"{plan['decode_amplification']:.2f} × the data, all ranks together"


def _tail_text(plan: dict[str, Any]) -> str:
    left = plan["rows_of_epoch"] % plan["global_batch"]
    if not left:
        return "none: the rows fill every step"
    return {
        "drop": f"drop: {counted(left, 'row')} at the end left out",
        "pad": f"pad: the last step has {counted(left, 'row')}, "
        f"filled up by {counted(plan['global_batch'] - left, 'repeat')}",
        "uneven": f"uneven: the last step has {counted(left, 'row')}"
        + (", shared by the ranks" if len(plan["ranks"]) > 1 else ""),
    }[plan["tail"]]


def _ranks(plan: dict[str, Any]) -> list[str]:
    lines = [("rank", "batches", "blocks", "decoded", "in the files")]
    for number, rank in enumerate(plan["ranks"][:_RANKS_SHOWN]):
        sizes = size_text(rank["decoded_bytes"]), size_text(rank["stored_bytes"])
        lines.append((str(number), f"{rank['batches']:,}", f"{rank['blocks']:,}", *sizes))
    shown = aligned(lines, to_the_right=[True] * 5)
    left = len(plan["ranks"]) - _RANKS_SHOWN
    return [*shown, f"… and {counted(left, 'more rank')}; --json lists them"] if left > 0 else shown
