//! Bounds of the values of a column, as a file states them.

use arrow_array::ArrayRef;

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

/// The pages of one column in one block.
#[derive(Debug, Clone)]
pub struct BlockPages {
    /// One entry a page.
    pub statistics: Statistics,
    /// First row of each page, counted within the block.
    pub first_rows: Vec<u64>,
}
