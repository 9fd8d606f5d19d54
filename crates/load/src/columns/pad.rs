//! Options of padding.

use super::fill::FillValue;
use super::layout::Side;
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
}

impl Pad {
    pub(super) fn value_of(&self, column: &str) -> &FillValue {
        self.values.get(column).unwrap_or(&self.value)
    }
}
