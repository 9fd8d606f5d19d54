"""The command ``shardmill view``."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from typing import Any

import click

from shardmill.cli.options import limit_option, storage_option
from shardmill.cli.tables import dataset_options
from shardmill.errors import OptionError


@click.command(name="view")
@dataset_options
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, metavar="N", help="Of the page; else one that is free."
)
@click.option("--no-open", is_flag=True, help="Only print the address.")
@limit_option
@storage_option
def command(port: int, no_open: bool, **options: Any) -> None:
    """Page through samples in the browser: texts, images, columns, filters. PATH is a file, a folder or a glob.

    The page is served to this machine alone, at an address that nobody can guess. Nothing is written; rows are read when they are shown.
    Ctrl-C ends it.

    \b
    Example:
      shardmill view data/
      shardmill view shards/*.parquet --columns text,label --port 8000 --no-open
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("the page needs pyarrow\nhint: pip install 'shardmill[arrow]'") from error
    from shardmill.view import Session, Source, ViewServer

    source = Source(
        paths=options["paths"],
        columns=options["columns"],
        filter=options["filter"],
        format=options["format"],
        partitioning="hive" if options["hive"] else None,
        ignore_zeros=options["ignore_zeros"],
    )
    session = Session(source)
    try:
        server = ViewServer(session, port=port)
    except OSError as error:
        raise OptionError(
            f"port {port} cannot be used: {error.strerror}\nhint: leave --port out to get a free one"
        ) from error
    try:
        print("Ctrl-C ends it.", file=sys.stderr)
        click.echo(server.address)
        sys.stdout.flush()
        if not no_open:
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        print("ended", file=sys.stderr)
    sys.stderr.flush()
    # A thread may be in the middle of a long read, and there is nothing that it could leave undone.
    os._exit(0)
