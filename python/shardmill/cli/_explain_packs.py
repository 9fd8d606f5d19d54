"""What ``shardmill explain --cost`` prints: the work of ranks without and with a balance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from shardmill._extras import pyarrow_for
from shardmill._terminal import aligned, counted, size_text
from shardmill.cli._options import parameters, refuse, write_json
from shardmill.cli._packs import balance_of
from shardmill.cli._tables import open_files, titled
from shardmill.cli._token_sources import (
    counts_option,
    source_options,
    tokenize_of,
    tokenizer_options,
)

if TYPE_CHECKING:
    from shardmill import Balance, Dataset

_ORDERS = ("as_packed", "balanced")
_FIGURES = (
    "packs_of_epoch",
    "tokens_of_epoch",
    "fill_rate",
    "steps",
    "steps_after_first_end",
    "cost_imbalance",
    "balance_bytes",
    "is_equal_work",
    "unequal_because",
)
_OPTIONS = ("strategy", "world_size", "shuffle", "seed", "epoch")


def explain_packs(options: dict[str, Any], shuffle: Any, *, as_json: bool) -> None:
    """Print how equal the work of ranks is.

    Args:
        options: the options of the command.
        shuffle: ``shuffle`` of the loader.
        as_json: whether to print JSON.

    Raises:
        click.UsageError: If an option is missing or does not fit.
    """
    from shardmill import Loader, Packing

    refuse({"step", "rank"}, "cannot be used with --cost, which is for all steps and ranks")
    balance, batch_size = balance_of(options), options["batch_size"] or 1
    dataset, columns = _token_rows(options)
    loader = Loader(
        dataset,
        packing=Packing(
            columns,
            length=options["pack"],
            strategy=options["strategy"],
            lengths=options["lengths"],
            balance=balance,
        ),
        batch_size=batch_size,
        output="numpy",
        shuffle=shuffle,
        rank=0,
        **{name: options[name] for name in ("lanes", "world_size", "tail", "seed")},
    )
    explained = loader.explain(epoch=options["epoch"])
    if not explained["steps"]:
        raise click.UsageError(
            f"{counted(explained['packs_of_epoch'], 'pack')} do not fill a step of all ranks\n"
            "hint: lower --pack, --batch-size or --world-size"
        )
    mix = explained["step_mix"]
    plan = {name: options[name] for name in _OPTIONS} | {
        "length": options["pack"],
        "batch_size": batch_size,
        "lanes": loader.state_dict()["lanes"],
        **{name: explained[name] for name in _FIGURES},
        "step_mix": {order: {"documents": mix[order]["documents"]} for order in _ORDERS},
        "cost": vars(balance.cost),
        **{name: options[name] for name in ("per_step", "window_packs", "within")},
    }
    if as_json:
        write_json(plan)
        return
    for line in _page(plan, balance):
        click.echo(line)


def _token_rows(options: dict[str, Any]) -> tuple[Dataset, list[str]]:
    """Open the data set, and return it with the names of its columns of tokens and labels."""
    pyarrow_for("--cost")
    from shardmill.view import TokenColumns

    if options["tokenizer"] is not None:
        tokenize = tokenize_of(options)
        return open_files(options, tokenize=tokenize), TokenColumns.computed(tokenize).names
    refuse(
        parameters(tokenizer_options, source_options, counts_option) - {"text_columns"},
        "requires --tokenizer",
    )
    dataset = open_files(options)
    names = options["text_columns"] or ()
    stored = TokenColumns.stored(dataset.schema, *names) if len(names) < 2 else None
    if stored is None:
        looked_for = ", ".join(names) or "tokens or input_ids"
        raise click.UsageError(
            f"there is no column {looked_for} of lists of integers\n"
            "hint: name the column of tokens with --column, or tokenize a text with --tokenizer"
        )
    return dataset, stored.names


def _page(plan: dict[str, Any], balance: Balance) -> Iterator[str]:
    yield (
        f"Epoch {plan['epoch']}: {counted(plan['packs_of_epoch'], 'pack')} of "
        f"{plan['length']:,} tokens by {plan['strategy']}, {plan['fill_rate']:.1%} full; "
        f"{counted(plan['steps'], 'step')} "
        f"of {counted(plan['batch_size'], 'pack')} on each of {plan['world_size']:,} ranks"
    )
    yield ""
    yield from aligned(list(_figures(plan)), to_the_right=[False, True, True])
    yield ""
    yield from titled("What the balance takes", _needs(plan, balance))


def _figures(plan: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    def both(name: str, title: str, of: Any = "{:.3f}".format) -> tuple[str, str, str]:
        now, then = (of(plan["cost_imbalance"][order][name]) for order in _ORDERS)
        return title, now, then

    yield "largest cost of a rank over the mean", "without balance", "with balance"
    yield both("all_steps", "  all steps")
    yield both("worst_step", "  worst step")
    yield both("before_first_end", "  steps before the first lane ends")
    yield both("all_steps", "time that ranks wait", lambda ratio: f"{1 - 1 / ratio:.1%}")
    bounds = (plan["step_mix"][order]["documents"] for order in _ORDERS)
    now, then = (f"{low:,.1f} – {high:,.1f}" if high else "–" for low, high in bounds)
    yield "documents a pack, over optimizer steps", now, then


def _needs(plan: dict[str, Any], balance: Balance) -> Iterator[tuple[str, str]]:
    yield (
        "order",
        f"{counted(balance.per_step, 'pack')} of a lane in an optimizer step, "
        f"windows of {counted(balance.window_packs, 'pack')}, {balance.within}",
    )
    yield "memory", f"up to {size_text(plan['balance_bytes'])} on each rank"
    if plan["unequal_because"]:
        yield "not equal", plan["unequal_because"]
    if plan["steps_after_first_end"]:
        yield (
            "end",
            f"{counted(plan['steps_after_first_end'], 'step')} after the first lane has ended "
            "are less equal",
        )
