//! Bounds of the values of a column, as a file states them.

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::ArrowError;
use arrow_select::take::take;
use std::sync::Arc;

/// What is known of one column, one entry for each block (or page).
///
/// The bounds hold for all values that are neither null nor NaN: truncated bounds are still bounds. A null entry means that nothing is known.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// Of the column's Arrow type.
    pub min: ArrayRef,
    /// Of the column's Arrow type.
    pub max: ArrayRef,
    pub null_counts: Vec<Option<u64>>,
    pub row_counts: Vec<u64>,
}

impl Statistics {
    /// Of a column with one value in all rows, such as a partition's. `value` is an array of that one value, null for a column of nulls.
    ///
    /// # Errors
    /// When `value` is no array of one value.
    pub fn constant(value: &ArrayRef, row_counts: Vec<u64>) -> Result<Self, ArrowError> {
        if value.len() != 1 {
            return Err(ArrowError::InvalidArgumentError(format!("a constant is one value, not {}", value.len())));
        }
        let bounds = take(value, &UInt64Array::from(vec![0; row_counts.len()]), None)?;
        let null_counts = row_counts.iter().map(|rows| Some(if value.is_null(0) { *rows } else { 0 })).collect();
        Ok(Self { min: Arc::clone(&bounds), max: bounds, null_counts, row_counts })
    }
}

/// The pages of one column in one block.
#[derive(Debug, Clone)]
pub struct BlockPages {
    /// One entry a page.
    pub statistics: Statistics,
    /// First row of each page, counted within the block.
    pub first_rows: Vec<u64>,
}
