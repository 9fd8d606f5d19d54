//! A run of rows in a block.

/// Consecutive rows of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRange {
    /// Index of the block in the schedule.
    pub scheduled: usize,
    pub start: u64,
    pub len: u64,
}
