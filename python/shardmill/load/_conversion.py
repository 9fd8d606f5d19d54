"""What the batches of a loader are: columns, kind, form and memory."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

from shardmill._native import columns as columns_of
from shardmill._native import load as _native
from shardmill._option_values import listed
from shardmill.data._dataset import opened_files
from shardmill.load._batched_rows import BatchedRows
from shardmill.load._batches import SuperbatchCutter, cutter_of
from shardmill.load._columns import check_fill, equal_lists, output_form, split
from shardmill.load._options import Output, Runtime
from shardmill.load._packed_rows import PackedRows
from shardmill.load._plan import LoaderPlan


class Conversion:
    """The conversion of rows or packs to batches.

    Names, types and fill values are checked when it is made.

    Args:
        plan: the plan of the loader.
        columns: the columns that were asked for; ``None`` for all.
        output: kind and form of the batches.
        runtime: device and memory of the batches.
    """

    def __init__(
        self, plan: LoaderPlan, columns: Sequence[str] | None, output: Output, runtime: Runtime
    ) -> None:
        self._dataset, files = plan.dataset, opened_files(plan.dataset)
        self._packed, self._is_padded = plan.packed, plan.share()["tail"] == "pad"
        names = (
            plan.dataset.columns if columns is None else files.delivered(listed("columns", columns))
        )
        self.names = names
        #: Indices of the columns.
        self.columns = files.numbers_of(names)
        bfloat16 = [name for name in names if name in files.bfloat16_columns]
        check_fill(output, bfloat16)
        self.cutter = cutter_of(
            output.kind,
            decodings=files.decodings_of(names),
            bfloat16=bfloat16,
            pin_memory=runtime.pin_memory,
            device=runtime.device,
        )
        # Packs have lists of their own.
        has_packs = isinstance(plan.packed, PackedRows)
        self.cutter.packed_images = files.document_images if has_packs else None
        lists = {} if has_packs else equal_lists(output, files, names)
        label_pads = {name: pad for name, pad in files.label_pads.items() if name in names}
        self._form = output_form(output, self.cutter.kind, lists, label_pads)
        if isinstance(plan.packed, BatchedRows):
            self._form["pad"] = plan.packed.pad_form()
        self.cutter.check(self.converter)

    @cached_property
    def converter(self) -> _native.OutputConverter:
        """The converter of the batches."""
        return self._of_kind(self.cutter.kind)

    @property
    def arrow_schema(self) -> Any:
        """The schema of the rows as an Arrow stream."""
        opened_files(self._dataset).refuse_bits(self.names)
        return self._of_kind("arrow").schema

    def for_stream(self) -> Self:
        """Return a conversion to the pieces of an Arrow stream."""
        other = copy(self)
        other.converter, other.cutter = self._of_kind("stream"), SuperbatchCutter()
        return other

    def of_plan(self, plan: LoaderPlan) -> Self:
        """Return the conversion of another rank, whose batches may mark padded rows."""
        other = copy(self)
        vars(other).pop("converter", None)
        other._is_padded, other.cutter = plan.share()["tail"] == "pad", copy(self.cutter)
        other.cutter.check(other.converter)
        return other

    def empty(self) -> Any:
        """Return a batch without rows, with the columns of every batch.

        It has no marks of padded rows. There is no such batch for packs, which have only numbers.
        """
        if isinstance(self._packed, PackedRows):
            return {}
        files = opened_files(self._dataset)
        converter = columns_of.Converter(files.native.schema(self.columns), self._form)
        rows = files.row_plan().take([], self.columns)
        return next(split(converter.names, converter.convert(rows, [0]), [0], self.cutter.kind))

    def check(self, *, is_filtered: bool) -> None:
        """Check the values that are delivered by the metadata of the files.

        Args:
            is_filtered: whether some rows of the files may not be delivered.

        Raises:
            ValueError: If there are nulls.
        """
        self._of_kind(self.cutter.kind, is_filtered=is_filtered)

    def _of_kind(self, kind: str, *, is_filtered: bool | None = None) -> _native.OutputConverter:
        if isinstance(self._packed, PackedRows):
            return self._packed.converter(kind=kind, is_padded=self._is_padded)
        files = opened_files(self._dataset)
        # A stream has the types of the rows.
        changed = (
            {} if kind == self.cutter.kind else {"kind": kind, "pad": None, "list_lengths": {}}
        )
        return _native.OutputConverter(
            files.native,
            columns=self.columns,
            form=self._form | changed,
            is_padded=self._is_padded,
            is_filtered=files.is_filtered if is_filtered is None else is_filtered,
            is_lent=self.cutter.is_pinned,
            has_float_lengths=self._packed and self._packed.is_float,
        )

    def __getstate__(self) -> dict[str, Any]:
        # Files are reopened when this is unpickled.
        return {name: value for name, value in vars(self).items() if name != "converter"}
