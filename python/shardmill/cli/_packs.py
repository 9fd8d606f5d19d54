"""Options of commands for packs of tokens and for the balance of their cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from shardmill.cli._options import FROM_1, PATH, one_of, together

if TYPE_CHECKING:
    from shardmill import Balance

pack_options = together(
    click.option(
        "--pack",
        type=click.IntRange(min=1),
        metavar="LENGTH",
        help="Pack rows of tokens into packs of this number of tokens.",
    ),
    click.option(
        "--strategy", **one_of("concat", "best_fit", "first_fit"), help="How --pack packs the rows."
    ),
)

balance_options = together(
    click.option(
        "--cost",
        type=PATH,
        metavar="PATH",
        help="config.json of a model, or its directory: compare the work of ranks with and "
        "without a balance.",
    ),
    click.option(
        "--per-step",
        **FROM_1,
        help="Packs of a lane in an optimizer step: batch size × accumulation if each rank "
        "has a lane.",
    ),
    click.option(
        "--window-packs",
        type=click.IntRange(min=2),
        default=256,
        metavar="N",
        show_default=True,
        help="Packs of a lane that are ordered together.",
    ),
    click.option(
        "--within",
        **one_of("mixed", "alike"),
        help="Whether an optimizer step has packs of all costs, or of about the same.",
    ),
)


def balance_of(options: dict[str, Any]) -> Balance:
    """Return the ``Balance`` of the options.

    Raises:
        click.UsageError: If an option is missing.
    """
    from shardmill import Balance, Cost

    for name, meaning in (
        ("pack", "the number of tokens of a pack"),
        ("per_step", "the number of packs of a lane in an optimizer step"),
    ):
        if options[name] is None:
            raise click.UsageError(
                f"--cost requires --{name.replace('_', '-')}, {meaning}\n"
                "hint: for example --pack 8192 --per-step 4 --world-size 64; --per-step is batch "
                "size × ranks × accumulation / lanes"
            )
    if options["world_size"] < 2:
        raise click.UsageError(
            "--cost compares ranks, and --world-size is 1\n"
            "hint: pass the number of data ranks, such as --world-size 8"
        )
    names = ("per_step", "window_packs", "within")
    return Balance(Cost.from_config(options["cost"]), **{name: options[name] for name in names})
