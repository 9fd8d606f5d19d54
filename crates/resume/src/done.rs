//! The question that a job asks of ids.

use crate::Result;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use std::fmt::Debug;

/// A set of ids that need no more work.
pub trait DoneIds: Debug + Send + Sync {
    /// The columns that make an id, in the order in which [`DoneIds::contains`] takes them.
    fn columns(&self) -> &[String];

    /// One bit a row, set when the id is done. A null id never is.
    ///
    /// # Errors
    /// For columns of another logical type than the set has.
    fn contains(&self, ids: &[ArrayRef]) -> Result<BooleanBuffer>;

    /// False when certainly no id of the set lies between two values, each an array of one. Only for ids of one column.
    fn may_contain(&self, _min: &ArrayRef, _max: &ArrayRef) -> bool {
        true
    }
}
