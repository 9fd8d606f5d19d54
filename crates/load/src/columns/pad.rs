//! Options of padding.

use super::fill::FillValue;
use super::layout::{RowLength, Side};
use std::collections::BTreeMap;

/// How lists are padded.
#[derive(Debug, Clone, PartialEq)]
pub struct Pad {
    /// Length of the rows; by default that of the longest row of the batch. Lists in lists always
    /// get the longest length of the batch.
    pub length: Option<usize>,
    pub value: FillValue,
    /// Values of single columns.
    pub values: BTreeMap<String, FillValue>,
    pub side: Side,
    /// The columns that are padded; all by default.
    pub columns: Option<Vec<String>>,
    /// The length of the longest row is rounded up to a multiple of this.
    pub multiple_of: usize,
    /// Longer rows are cut.
    pub most: Option<usize>,
    /// Whether a column of the lengths of rows follows.
    pub has_lengths: bool,
}

impl Pad {
    pub(super) fn is_of(&self, column: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|name| name == column))
    }

    /// The length of the padded rows.
    pub(super) fn row_length(&self) -> RowLength {
        let multiple_of = self.multiple_of.max(1);
        RowLength { fixed: self.length, multiple_of, most: self.most.unwrap_or(usize::MAX) }
    }

    pub(super) fn value_of(&self, column: &str) -> &FillValue {
        self.values.get(column).unwrap_or(&self.value)
    }
}
