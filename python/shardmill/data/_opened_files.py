"""The files of a data set or a mixture, for the rooms that read their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from shardmill._digests import digest
from shardmill._native.load import OutputConverter
from shardmill._native.packing import Lengths
from shardmill._warnings import warn_caller
from shardmill.data._decodings import Decoding, decodings_of
from shardmill.data._images import Images, saved_images
from shardmill.errors import FormatError, OptionError

if TYPE_CHECKING:
    from shardmill._native.load import Dataset as NativeDataset
    from shardmill._native.load import RowPlan
    from shardmill.data._sequences import Sequences
    from shardmill.data._tokenize import Tokenize

#: The most tokens and patches of an image; ``None`` is any number.
ImageLimits = tuple[int, "int | None"]


class OpenedFiles:
    """Files that native code has opened, and the columns that are computed from theirs.

    Args:
        native: the files.
        paths: where they were found.
        plan: makes the plan of the rows after the filter.
        threads: number of reading threads.
        is_filtered: whether some rows of the files may not be delivered.
        tokenize: how each source computes tokens, ``None`` if it does not.
        images: how each source computes pixels.
    """

    def __init__(
        self,
        native: NativeDataset,
        paths: Sequence[str],
        plan: Callable[[], RowPlan],
        *,
        threads: int,
        is_filtered: bool,
        tokenize: Sequence[Tokenize | Sequences | None] = (None,),
        images: Sequence[Sequence[Images]] = ((),),
    ) -> None:
        self.native, self.paths, self.is_filtered = native, paths, is_filtered
        self.tokenize, self.images = tokenize, images
        #: Returns the plan of the rows after the filter, in file order.
        self.row_plan = cache(plan)
        self._threads = max(threads, 1)
        self._lengths: dict[tuple[int, str, bool, ImageLimits | None], Lengths] = {}
        self._limited: dict[ImageLimits, NativeDataset] = {}

    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of these columns."""
        # An empty directory has no columns, but the job that will fill it may select some.
        return self.native.column_numbers(list(names)) if self.native.files else []

    def converter(self, columns: list[int], kind: str) -> OutputConverter:
        """Return what converts these columns to an output, with the values of the files."""
        return OutputConverter(
            self.native,
            columns=columns,
            form={
                "kind": kind,
                "nulls": "raise",
                "fill_values": {},
                "pad": None,
                "list_lengths": {},
            },
            is_padded=False,
            is_filtered=self.is_filtered,
        )

    def decodings_of(self, columns: Sequence[str]) -> list[Decoding | None]:
        """Return the decoders of these columns, for values stored as strings or bytes."""
        return decodings_of(self.native.metadata(self.numbers_of(columns)))

    def delivered(self, columns: Sequence[str]) -> list[str]:
        """Return these columns, each with what is computed with it."""
        outputs = {one.column: one.outputs for images in self.images for one in images}
        return list(
            dict.fromkeys(output for name in columns for output in outputs.get(name, [name]))
        )

    def limited(self, limits: ImageLimits | None) -> NativeDataset:
        """Return the files whose documents have no images that exceed these limits."""
        if limits is None:
            return self.native
        if limits not in self._limited:
            self._limited[limits] = self.native.with_image_limits(*limits)
        return self._limited[limits]

    def lengths_of(
        self,
        column: int,
        *,
        source: str,
        nulls_are_empty: bool,
        limits: ImageLimits | None = None,
    ) -> Lengths:
        """Return how many tokens the rows have, without images that exceed the limits.

        The numbers come from the lists of a column, or from a column that contains them. They are
        computed once, and shared by all packings.
        """
        key = column, source, nulls_are_empty, limits
        if key not in self._lengths:
            rows = self.row_plan()
            self._lengths[key] = Lengths(
                rows if limits is None else rows.with_dataset(self.limited(limits)),
                column=column,
                source=source,
                nulls_are_empty=nulls_are_empty,
                threads=self._threads,
            )
            for warning in self._lengths[key].warnings:
                warn_caller(warning)
        return self._lengths[key]

    def refuse_pickles(self, columns: Sequence[str]) -> None:
        """Check that none of these columns would be returned as pickles.

        Raises:
            ValueError: If one would. The message names the column.
        """
        for name, metadata in zip(
            columns, self.native.metadata(self.numbers_of(columns)), strict=False
        ):
            if metadata.get("mds.encoding") == "pkl":
                raise FormatError(
                    f"column {name!r} of {', '.join(self.paths)} holds pickles, "
                    "which are never decoded\n"
                    "hint: exclude it with columns=, or read its bytes with "
                    "ErrorPolicy(pickles='bytes')"
                )

    def refuse_bits(self, columns: Sequence[str]) -> None:
        """Refuse columns whose type only torch has.

        Called where they would be delivered as the bits of their numbers.

        Raises:
            ValueError: If there is one.
        """
        if name := next((name for name in columns if name in self.bfloat16_columns), None):
            raise OptionError(
                f"column {name!r} has dtype='bfloat16', which requires a Loader with output='torch'"
            )

    @property
    def bfloat16_columns(self) -> set[str]:
        """The columns whose numbers are the bits of a type that only torch has."""
        return {one.column for images in self.images for one in images if one.dtype == "bfloat16"}

    @property
    def label_pads(self) -> dict[str, int]:
        """The columns of computed labels, with the label that a loss ignores.

        Empty if sources differ in this.
        """
        labels = [one.labels for one in self.tokenize if one is not None and one.labels is not None]
        each = [{one.output: one.ignore_index} for one in labels]
        return each[0] if each and all(pads == each[0] for pads in each) else {}

    @property
    def has_document_images(self) -> bool:
        """Whether rows are documents with images."""
        return self.document_images is not None

    @property
    def document_images(self) -> Sequences | None:
        """How rows become documents with images: the same for all sources that have images."""
        made = (one for one in self.tokenize if getattr(one, "images", None) is not None)
        return cast("Sequences | None", next(made, None))

    @property
    def tokenization(self) -> str | None:
        """Fingerprint of how the sources compute tokens, ``None`` if none does."""
        each = [None if one is None else one.fingerprint for one in self.tokenize]
        return each[0] if len(each) == 1 else digest(each) if any(each) else None

    @property
    def image_settings(self) -> dict[str, Any] | None:
        """How the sources compute pixels, for the state of a loader; ``None`` if none does."""
        return saved_images(self.images)
