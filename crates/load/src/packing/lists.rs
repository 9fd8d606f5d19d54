//! A column of token lists with any of Arrow's list types.

use super::Error;
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use std::ops::Range;

/// The lists of one block.
#[derive(Debug)]
pub(super) struct TokenLists {
    bounds: Bounds,
    pub(super) tokens: ArrayRef,
    nulls: Option<NullBuffer>,
    token_nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum Bounds {
    Short(OffsetBuffer<i32>),
    Long(OffsetBuffer<i64>),
    Fixed { width: usize },
}

/// Why a row cannot be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    NullRow,
    NullToken,
}

impl Wrong {
    pub(super) fn in_place(self, column: String, (path, row): (String, u64)) -> Error {
        match self {
            Self::NullRow => Error::NullRow { column, path, row },
            Self::NullToken => Error::NullToken { column, path, row },
        }
    }
}

impl TokenLists {
    /// `None` for other types.
    pub(super) fn of(array: &ArrayRef) -> Option<Self> {
        let (bounds, tokens) = match array.data_type() {
            DataType::List(_) => (
                Bounds::Short(array.as_list::<i32>().offsets().clone()),
                array.as_list::<i32>().values(),
            ),
            DataType::LargeList(_) => (
                Bounds::Long(array.as_list::<i64>().offsets().clone()),
                array.as_list::<i64>().values(),
            ),
            DataType::FixedSizeList(_, width) => (
                Bounds::Fixed { width: usize::try_from(*width).unwrap_or_default() },
                array.as_fixed_size_list().values(),
            ),
            _ => return None,
        };
        let has_nulls = |nulls: &NullBuffer| nulls.null_count() > 0;
        let nulls = array.nulls().cloned().filter(has_nulls);
        let token_nulls = tokens.logical_nulls().filter(has_nulls);
        Some(Self { bounds, tokens: ArrayRef::clone(tokens), nulls, token_nulls })
    }

    /// The tokens of a row; empty if it is null.
    pub(super) fn range(&self, row: usize) -> Range<usize> {
        if self.is_null(row) { 0..0 } else { self.bounds.of(row) }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Whether a row may be packed.
    pub(super) fn check(&self, row: usize, nulls_are_empty: bool) -> Result<(), Wrong> {
        if !nulls_are_empty && self.is_null(row) {
            return Err(Wrong::NullRow);
        }
        let Some(nulls) = &self.token_nulls else { return Ok(()) };
        let range = self.range(row);
        if !range.is_empty() && nulls.inner().slice(range.start, range.len()).has_false() {
            Err(Wrong::NullToken)
        } else {
            Ok(())
        }
    }
}

impl Bounds {
    fn of(&self, row: usize) -> Range<usize> {
        let pair = |bounds: [Option<usize>; 2]| {
            if let [Some(start), Some(end)] = bounds { start..end } else { 0..0 }
        };
        match self {
            Self::Short(offsets) => pair(
                [row, row + 1]
                    .map(|bound| offsets.get(bound).and_then(|bound| usize::try_from(*bound).ok())),
            ),
            Self::Long(offsets) => pair(
                [row, row + 1]
                    .map(|bound| offsets.get(bound).and_then(|bound| usize::try_from(*bound).ok())),
            ),
            Self::Fixed { width } => row * width..(row + 1) * width,
        }
    }
}

/// The numbers in the items of a row, which are lists of equal length.
pub(super) fn numbers<T: ArrowPrimitiveType>(lists: &ListArray, row: usize) -> &[T::Native] {
    let Some(items) = lists.values().as_fixed_size_list_opt() else { return &[] };
    let width = small(items.value_length());
    let Some(values) = items.values().as_primitive_opt::<T>() else { return &[] };
    let range = offset(lists, row) * width..offset(lists, row + 1) * width;
    values.values().get(range).unwrap_or_default()
}

/// First item of a row.
pub(super) fn offset(lists: &ListArray, row: usize) -> usize {
    lists.value_offsets().get(row).map_or(0, |offset| small(*offset))
}

pub(super) fn small(number: i32) -> usize {
    usize::try_from(number).unwrap_or_default()
}
