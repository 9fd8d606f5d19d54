"""Several data sets as one, blended row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from shardmill._native import load as _native
from shardmill._option_values import whole
from shardmill._threads import checked_threads
from shardmill.data._arrow import as_pyarrow
from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._images import Images
from shardmill.data._opened_files import OpenedFiles
from shardmill.data._own_methods import refuse_own_rows
from shardmill.data._sequences import Sequences
from shardmill.errors import OptionError
from shardmill.load import _blend as blend
from shardmill.storage._paths import PathLike

Source = Dataset | PathLike | Sequence[PathLike]


class Mixture:
    """Rows of several data sets, for a ``Loader``.

    The source of each row depends only on the seed, on any number of ranks.

    In each window of 1024 rows of a lane, each source has its share, rounded up or down, and an
    epoch has exact counts. Each source is read in its own order, or shuffled separately, and
    continues in the next epoch where it stopped: no row of a source is repeated before all of its
    rows have been drawn.

    The size and contents of an epoch are set by one of ``weights``, ``repeat`` and ``choose``.
    Without any of them, an epoch has every row of every source once.

    Args:
        sources: data sets by name, or a list of them, which are named by their indices. A source
            may be a mixture; its sources are then named ``outer/inner``. Formats may differ;
            columns are matched by name, as for several files.
        weights: shares of the rows, by name or in order, on any scale. A list of ``(row, weights)``
            changes them during a run: each entry applies from that row of the global sequence on,
            counted over all epochs. A step has ``batch_size * world_size`` rows.
        repeat: how often each source is repeated in an epoch, by name or one number for all;
            fractions are allowed.
        choose: number of rows of each source in an epoch.
        epoch_rows: number of rows of an epoch; only with ``weights``. The total of all sources by
            default.
        interpolate: ``"linear"`` changes weights linearly from one stage to the next; by default
            they change at once.
        source_column: name of a column to add, with the index of the source of each row.

    Raises:
        ValueError: If a number is not valid, a source has weight but no rows, or schemas conflict.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(100))}), "web.parquet")
        >>> pq.write_table(pa.table({"x": list(range(100, 110))}), "code.parquet")
        >>> import shardmill as sm
        >>> sources = {"web": "web.parquet", "code": "code.parquet"}
        >>> mixture = sm.Mixture(sources, weights={"web": 0.75, "code": 0.25}, epoch_rows=40)
        >>> mixture.counts()
        {'web': 30, 'code': 10}
        >>> loader = sm.Loader(mixture, batch_size=8, output="numpy")
        >>> sum(int((batch["x"] >= 100).sum()) for batch in loader)
        10
    """

    def __init__(
        self,
        sources: Mapping[str, Source | Mixture] | Sequence[Source | Mixture],
        *,
        weights: Any = None,
        repeat: Any = None,
        choose: Any = None,
        epoch_rows: int | None = None,
        interpolate: Literal["linear"] | None = None,
        source_column: str | None = None,
    ) -> None:
        # Copies: the caller may go on to change its own.
        self._arguments = {
            name: _copied(value)
            for name, value in locals().items()
            if name not in ("self", "sources")
        }
        given = [
            name for name in ("weights", "repeat", "choose") if self._arguments[name] is not None
        ]
        if len(given) > 1:
            raise OptionError(f"{' and '.join(given)} are mutually exclusive")
        for name, value in (("epoch_rows", epoch_rows), ("interpolate", interpolate)):
            if value is not None and given != ["weights"]:
                raise OptionError(f"{name} requires weights")
        parts = {name: _opened(source) for name, source in _named(sources)}
        names = list(parts)
        self._sources: dict[str, Dataset] = {}
        for name, part in parts.items():
            self._sources |= (
                {name: part}
                if isinstance(part, Dataset)
                else {f"{name}/{inner}": own for inner, own in part._sources.items()}
            )
        rows = [part.num_rows for part in parts.values()]
        if weights is not None:
            all_rows = sum(source.num_rows for source in self._sources.values())
            outer = blend.weighted(
                names,
                weights,
                all_rows if epoch_rows is None else whole("epoch_rows", epoch_rows, 0, 2**62),
                interpolate,
            )
        elif choose is not None:
            outer = blend.fixed("choose", blend.chosen(names, choose))
        else:
            outer = blend.fixed(
                "repeat", blend.repeated(names, 1 if repeat is None else repeat, rows)
            )
        self._blend = blend.nested(
            outer, [part._blend if isinstance(part, Mixture) else None for part in parts.values()]
        )
        self._check_images()
        self._check_tokenizers()
        files = [opened_files(source) for source in self._sources.values()]
        columns = [
            part.numbers_of(source.columns)
            for part, source in zip(files, self._sources.values(), strict=True)
        ]
        native = _native.Dataset.mixed(
            list(zip(self._sources, (part.native for part in files), columns, strict=True)),
            number_column=source_column,
        )
        self._files = OpenedFiles(
            native,
            [path for part in files for path in part.paths],
            partial(_mixed, native, files, self._blend),
            threads=checked_threads(None),
            is_filtered=_is_filtered(files, self._blend),
            tokenize=[tokenize for part in files for tokenize in part.tokenize],
            images=[images for part in files for images in part.images],
        )
        self._check_sources(self._blend)
        self._parts = parts

    @property
    def sources(self) -> dict[str, Dataset]:
        """The data sets by name; nested mixtures are replaced by their sources."""
        return dict(self._sources)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return self._files.native.column_names

    @property
    def schema(self) -> Any:
        """Arrow schema of the rows; see ``Dataset.schema``."""
        return as_pyarrow(self._files.native.schema(self._files.numbers_of(self.columns)))

    @property
    def files(self) -> list[str]:
        """Paths of the files of all sources, in order."""
        return [path for path, *_ in self._files.native.files]

    @property
    def num_rows(self) -> int:
        """Number of rows of an epoch."""
        return self._blend.rows

    def __len__(self) -> int:
        return self.num_rows

    def counts(self, epoch: int = 0) -> dict[str, int]:
        """Return the number of rows of each source in an epoch."""
        return dict(
            zip(self._sources, self._files.row_plan().counts(whole("epoch", epoch, 0)), strict=True)
        )

    def __repr__(self) -> str:
        return f"Mixture({', '.join(self._sources)}: {self.num_rows} rows an epoch)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._parts, self._arguments)

    def _check_images(self) -> None:
        """Check that the images of a column look alike in all sources."""
        first: dict[str, tuple[str, dict[str, Any]]] = {}
        for name, source in self._sources.items():
            for images, form in _forms(opened_files(source)):
                other, known = first.setdefault(images, (name, form))
                for option, value in form.items():
                    if known[option] != value:
                        raise OptionError(
                            f"{images} have {option}={known[option]!r} in source {other!r}, "
                            f"and {option}={value!r} in source {name!r}\n"
                            f"hint: give the sources the same {option}"
                        )

    def _check_tokenizers(self) -> None:
        """Ids of two vocabularies must not meet in a batch.

        A source without a tokenizer may have any.
        """
        known: dict[str, str] = {}
        for name, source in self._sources.items():
            [tokenize] = opened_files(source).tokenize
            if tokenize is not None and tokenize.tokenizer is not None:
                known.setdefault(tokenize.tokenizer.fingerprint, name)
        if len(known) > 1:
            (one, first), (other, second), *_ = known.items()
            raise OptionError(
                f"sources {first!r} and {second!r} have different tokenizers, "
                f"with the fingerprints {one} and {other}\n"
                "hint: tokenize all sources of a mixture with the same tokenizer"
            )

    def _check_sources(self, shares: blend.Blend) -> None:
        for number, (name, source) in enumerate(self._sources.items()):
            if shares.is_drawn(number) and source.num_rows == 0:
                raise OptionError(
                    f"source {name!r} has no rows\nhint: leave it out, or give it the weight 0"
                )
        if len(shares.stages) != 1:
            return
        ((_, parts),) = shares.stages
        counts = shares.counts or blend.apportioned(shares.rows, parts)
        for number, (name, count) in enumerate(zip(self._sources, counts, strict=True)):
            if shares.is_drawn(number) and count == 0:
                raise OptionError(
                    f"source {name!r} has a weight of {float(parts[number]):.3g}, "
                    f"which gives it none of the {self.num_rows} rows of an epoch\n"
                    "hint: raise epoch_rows, or give it the weight 0"
                )


def _mixed(
    native: _native.Dataset, sources: list[OpenedFiles], shares: blend.Blend
) -> _native.RowPlan:
    """Return the rows of all sources after their filters, blended."""
    return _native.RowPlan.mixed(
        native,
        [source.row_plan() for source in sources],
        rows=shares.rows,
        stages=shares.native_stages,
        is_linear=shares.interpolate == "linear",
    )


def _is_filtered(sources: list[OpenedFiles], shares: blend.Blend) -> bool:
    # Also rows of a source that is not drawn are not delivered.
    return any(part.is_filtered or not shares.is_drawn(at) for at, part in enumerate(sources))


def _forms(files: OpenedFiles) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the images of a source, with the options that they must share with other sources."""
    for images in files.images[0]:
        yield f"the images of column {images.column!r}", _form(images)
    [sequences] = files.tokenize
    if isinstance(sequences, Sequences) and sequences.images is not None:
        own = {"images": sequences.images, "positions": sequences.positions}
        yield "the images of documents", own | vars(sequences.image_output)


def _form(images: Images) -> dict[str, Any]:
    """Return the options that decide what the rows of a batch look like."""
    form = {
        "dtype": images.dtype,
        "layout": images.layout,
        "channels": images.channels,
        "on_error": images.on_error,
    }
    varies = images.layout == "bytes" or images.fit in ("longest", "keep")
    return form | {"size": None if varies else images.size}


def _named(sources: Any) -> list[tuple[str, Any]]:
    if isinstance(sources, Mapping):
        named = list(sources.items())
    elif isinstance(sources, Sequence) and not isinstance(sources, str):
        named = [(str(number), source) for number, source in enumerate(sources)]
    else:
        raise OptionError(f"sources are data sets by name, or a list of them, not {sources!r}")
    if not named:
        raise OptionError("a mixture needs at least one source")
    for name, _ in named:
        if not isinstance(name, str) or not name or "/" in name:
            raise OptionError(f"a source name must be a string without '/', not {name!r}")
    return named


def _opened(source: Any) -> Dataset | Mixture:
    if not isinstance(source, Dataset | Mixture):
        return Dataset(source)
    refuse_own_rows(source, "a Mixture")
    return source


def _copied(values: Any) -> Any:
    """Return a copy of numbers by name or in order, or of stages of them."""
    if isinstance(values, Mapping):
        return {name: _copied(value) for name, value in values.items()}
    if isinstance(values, Sequence) and not isinstance(values, str):
        return [_copied(value) for value in values]
    return values


def _reopened(parts: dict[str, Any], arguments: dict[str, Any]) -> Mixture:
    return Mixture(parts, **arguments)


def reweighted(mixture: Mixture, weights: Any) -> tuple[blend.Blend, bool]:
    """Return the shares of the sources by new weights, which are checked like the original ones.

    Returns:
        The shares, and whether some rows of the files may not be delivered.

    Raises:
        ValueError: If the mixture has no weights that can be set, a number is not valid, or a
            source has a positive weight but no rows.
    """
    given = mixture._blend  # pyright: ignore[reportPrivateUsage]
    if given.mode != "weights" or given.interpolate:
        by = f'interpolate="{given.interpolate}"' if given.interpolate else "no weights"
        raise OptionError(
            f"set_weights requires a mixture with weights, but this one has {by}\n"
            "hint: create the Mixture with weights=, by name"
        )
    if not isinstance(weights, Mapping):
        raise OptionError(
            f"set_weights takes a weight for each source by name, not {weights!r}\n"
            f"hint: the sources are {', '.join(mixture.sources)}"
        )
    shares = blend.weighted(list(mixture.sources), weights, given.rows, None)
    mixture._check_sources(shares)  # pyright: ignore[reportPrivateUsage]
    return shares, _is_filtered([opened_files(one) for one in mixture.sources.values()], shares)


def blend_of(mixture: Mixture) -> blend.Blend:
    """Return the shares of the sources."""
    return mixture._blend  # pyright: ignore[reportPrivateUsage]
