"""What ``shardmill explain --model`` prints: the documents and images in the packs of a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from shardmill._terminal import aligned, counted
from shardmill.cli._options import write_json
from shardmill.cli._sequences import sequences_of
from shardmill.cli._tables import open_files

_EPOCH = ("packs_of_epoch", "tokens_of_epoch", "fill_rate", "dropped_rows", "steps")


def explain_documents(options: dict[str, Any], shuffle: Any, *, as_json: bool) -> None:
    """Print the documents of a batch and their images.

    Args:
        options: the options of the command.
        shuffle: ``shuffle`` of the loader.
        as_json: whether to print JSON.

    Raises:
        click.UsageError: If an option is missing or does not fit, or there is no such step.
    """
    from shardmill import Loader, Packing

    if options["pack"] is None:
        raise click.UsageError(
            "--model requires --pack, the number of tokens of a pack\nhint: for example --pack 8192"
        )
    dataset = open_files(options, sequences=sequences_of(options))
    loader = Loader(
        dataset,
        packing=Packing("tokens", length=options["pack"], strategy="best_fit", long="drop"),
        batch_size=options["batch_size"] or 1,
        output="numpy",
        shuffle=shuffle,
        **{name: options[name] for name in ("rank", "world_size", "lanes", "tail", "seed")},
    )
    step, epoch = options["step"], options["epoch"]
    plan = loader.explain(step=step, epoch=epoch)
    if plan["rows"] is None:
        raise click.UsageError(f"step {step:,} does not exist: the epoch has {plan['steps']:,}")
    documents = loader.explain(step=step, epoch=epoch, documents=True)["documents"]
    if as_json:
        named = {name: options[name] for name in ("step", "epoch", "rank", "world_size", "pack")}
        epoch_figures = {name: plan[name] for name in _EPOCH}
        write_json(named | epoch_figures | {"documents": documents})
        return
    for line in _page(options, plan, documents):
        click.echo(line)


def _page(
    options: dict[str, Any], plan: dict[str, Any], documents: list[dict[str, Any]]
) -> Iterator[str]:
    yield (
        f"Epoch {options['epoch']}, step {options['step']:,} of {plan['steps']:,}, "
        f"rank {options['rank']} of {options['world_size']}: "
        f"{counted(len(plan['packs']), 'pack')} of {options['pack']:,} tokens"
    )
    yield (
        f"The epoch has {counted(plan['packs_of_epoch'], 'pack')}, {plan['fill_rate']:.1%} full; "
        f"{counted(plan['dropped_rows'], 'document')} longer than a pack left out"
    )
    yield ""
    lines = [("pack", "file", "row", "document", "first token", "tokens", "grid", "patches")]
    for document in documents:
        place = str(document["pack"]), document["file"], f"{document['row']:,}"
        shown = document["sample_id"] or "", f"{document['first_token']:,}"
        lines.append((*place, *shown, f"{document['tokens']:,}", "", ""))
        for image in document["images"]:
            grid = image["grid"] and " × ".join(map(str, image["grid"]))
            sizes = f"{image['first_token']:,}", f"{image['tokens']:,}"
            lines.append(("", "", "", "  image", *sizes, grid or "", f"{image['patches']:,}"))
    yield from aligned(lines, to_the_right=[True, False, True, False, True, True, True, True])
