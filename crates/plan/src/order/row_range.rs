//! Rows that lie one after another in a block.

/// Consecutive rows of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRange {
    /// The place of the block in the order of the schedule.
    pub scheduled: usize,
    pub start: u64,
    pub len: u64,
}
