//! Membership tests for ids that are done.

use crate::Result;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use std::fmt::Debug;

/// A set of ids that need no further work.
pub trait DoneIds: Debug + Send + Sync {
    /// The columns of an id, in the order in which [`DoneIds::contains`] expects them.
    fn columns(&self) -> &[String];

    /// One bit per row, set if the id is done. A null id never is.
    ///
    /// # Errors
    /// For columns of a logical type other than that of the set.
    fn contains(&self, ids: &[ArrayRef]) -> Result<BooleanBuffer>;

    /// False if certainly no id of the set lies between two values, each an array of length one.
    /// Only for ids of one column.
    fn may_contain(&self, _min: &ArrayRef, _max: &ArrayRef) -> bool {
        true
    }
}
