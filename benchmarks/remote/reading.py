"""A table from the store against the same files on the disk, and against what the server gives: without latency and with it.

Enters: the options. Leaves: figures, by output and place. Called by the entry script. Invariant: all passes are by fresh loaders of
one process, in turn; requests are those that the proxy has seen, opening included.
"""

from __future__ import annotations

from typing import Any

from benchmarks.remote.ceiling import server_rates
from benchmarks.remote.clock import figure, in_turn
from benchmarks.remote.options import Options
from benchmarks.remote.store import started

OUTPUTS = ("arrow", "torch")
LOCAL, NEAR, FAR = "local files", "S3", "S3, far away"


def measure(options: Options) -> dict[str, Any]:
    """Each output from each place."""
    import shardmill as sm

    one = options.rows
    # Without the kernel's first look at the files, which is nobody's.
    for file in options.data.glob("*.parquet"):
        file.read_bytes()
    with started() as store:
        path = store.publish(options.data)
        bytes_of_set = sum(size for _, size in store.objects(options.data.name))
        least = 256 << 20 if options.share == 1 else 1
        rates = [server_rates(store, options.data.name, least_bytes=least)]
        figures: dict[str, Any] = {}
        requests: dict[str, dict[str, int]] = {}

        def loader(source: str, output: str) -> Any:
            given: dict[str, Any] = {"storage_options": store.options()} if source.startswith("s3:") else {}
            return sm.Loader(source, batch_size=options.batch_size, output=output, rank=0, world_size=1, **given)

        for output in OUTPUTS:
            kinds = {
                LOCAL: lambda output=output: loader(str(options.data), output),
                NEAR: lambda output=output: loader(path, output),
                # The last one, so what is counted is its last pass.
                FAR: lambda output=output: loader(path, output),
            }
            passes = in_turn(
                one,
                kinds,
                options.runs,
                before=lambda place: store.away(options.round_trip_s if place == FAR else 0.0),
            )
            figures |= {f"{output}, {place}": figure(done, bytes=bytes_of_set) for place, done in passes.items()}
            requests[output] = store.asked()
        store.away(0.0)
        rates.append(server_rates(store, options.data.name, least_bytes=least))
    row_groups = sum(-(-rows // one.row_group) for rows in one.rows)
    return {
        "figures": figures,
        "set_bytes": bytes_of_set,
        "row_groups": row_groups,
        "requests": requests,
        "requests_per_row_group": max(asked["requests"] for asked in requests.values()) / row_groups,
        "server_rates": {name: max(rate[name] for rate in rates) for name in rates[0]},
        "server_bytes_per_s": max(max(rate.values()) for rate in rates),
    }
