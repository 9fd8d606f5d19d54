//! How many tokens are in packs, and how many are lost.

/// Statistics of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// In packs.
    pub tokens: u64,
    /// Padding of rows, to multiples or to the longest of their batch.
    pub padded_tokens: u64,
    /// Cut off of long rows.
    pub truncated_tokens: u64,
    /// Tokens of rows that are in no pack.
    pub dropped_tokens: u64,
    pub dropped_rows: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.padded_tokens += other.padded_tokens;
        self.truncated_tokens += other.truncated_tokens;
        self.dropped_tokens += other.dropped_tokens;
        self.dropped_rows += other.dropped_rows;
    }
}
