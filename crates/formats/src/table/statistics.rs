//! Bounds of the values of a column, as stated by a file.

use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_schema::ArrowError;
use arrow_select::take::take;
use std::sync::Arc;

/// Statistics of one column, with one entry for each block (or page).
///
/// The bounds hold for all values that are neither null nor NaN: truncated bounds are still bounds.
/// A null entry means unknown.
#[derive(Debug, Clone)]
pub struct Statistics {
    /// With the column's Arrow type.
    pub min: ArrayRef,
    /// With the column's Arrow type.
    pub max: ArrayRef,
    pub null_counts: Vec<Option<u64>>,
    pub row_counts: Vec<u64>,
}

impl Statistics {
    /// For a column with the same value in all rows, such as a partition column. `value` is an
    /// array of that one value, null for a column of nulls.
    ///
    /// # Errors
    /// When `value` is not an array of one value.
    pub fn constant(value: &ArrayRef, row_counts: Vec<u64>) -> Result<Self, ArrowError> {
        if value.len() != 1 {
            return Err(ArrowError::InvalidArgumentError(format!(
                "a constant is one value, not {}",
                value.len()
            )));
        }
        let bounds = take(value, &UInt64Array::from(vec![0; row_counts.len()]), None)?;
        let null_counts =
            row_counts.iter().map(|rows| Some(if value.is_null(0) { *rows } else { 0 })).collect();
        Ok(Self { min: Arc::clone(&bounds), max: bounds, null_counts, row_counts })
    }

    /// For parts of the blocks: part `i` belongs to block `blocks[i]` and has `row_counts[i]` rows.
    /// `None` when a block does not exist.
    #[must_use]
    pub fn of_parts(&self, blocks: &[usize], row_counts: Vec<u64>) -> Option<Self> {
        if blocks.len() != row_counts.len()
            || [&self.min, &self.max]
                .iter()
                .any(|bounds| blocks.iter().any(|block| *block >= bounds.len()))
        {
            return None;
        }
        let indices = UInt64Array::from_iter_values(blocks.iter().map(|block| *block as u64));
        let null_count = |(block, rows): (&usize, &u64)| {
            let (nulls, whole) =
                (self.null_counts.get(*block).copied().flatten()?, *self.row_counts.get(*block)?);
            // More nulls than rows are damage, which excludes nothing.
            if nulls > whole {
                return None;
            }
            // The number of nulls in a part is only known if all rows or no rows are null, or if
            // the part is the whole block.
            if nulls == 0 || nulls == whole || *rows == whole {
                Some(nulls.min(*rows))
            } else {
                None
            }
        };
        let null_counts = blocks.iter().zip(&row_counts).map(null_count).collect();
        Some(Self {
            min: take(&self.min, &indices, None).ok()?,
            max: take(&self.max, &indices, None).ok()?,
            null_counts,
            row_counts,
        })
    }
}

/// The pages of one column in one block.
#[derive(Debug, Clone)]
pub struct BlockPages {
    /// One entry per page.
    pub statistics: Statistics,
    /// First row of each page, counted within the block.
    pub first_rows: Vec<u64>,
}
