//! How records that do not fit the schema are handled.

use arrow_buffer::BooleanBuffer;

/// How records that cannot be parsed, and values that do not fit their column, are handled. A
/// quoted field of CSV that is never closed is always an error, because the records after its quote
/// are unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BadLines {
    /// Reading stops with an error that names the file, the line and the column.
    #[default]
    Error,
    /// The record is skipped and listed in the [`Quarantine`]. Opening a file then parses all of
    /// it, because row counts have to be exact.
    Skip,
    /// A value that does not fit is null; missing fields are null, and excess fields are ignored.
    Null,
}

/// A record that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Start of the record: 1-based, in physical lines of the file.
    pub line: u64,
    pub reason: String,
}

/// The records that were skipped in a file: their number, and the first ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quarantine {
    pub count: u64,
    pub lines: Vec<BadLine>,
}

/// A file without a valid line must not fill the memory with reasons.
const MAX_QUARANTINED_LINES: usize = 100;

impl Quarantine {
    pub(crate) fn add(&mut self, line: u64, reason: impl FnOnce() -> String) {
        self.count += 1;
        if self.lines.len() < MAX_QUARANTINED_LINES {
            self.lines.push(BadLine { line, reason: reason() });
        }
    }
}

/// Which records of a run are delivered: those that are selected and not in quarantine.
pub(crate) struct KeptRows<'a> {
    good: Option<&'a BooleanBuffer>,
    selection: Option<&'a BooleanBuffer>,
    record: usize,
    row: usize,
}

impl<'a> KeptRows<'a> {
    /// `good` has a bit for each record, `selection` one for each good record.
    pub(crate) fn new(
        good: Option<&'a BooleanBuffer>,
        selection: Option<&'a BooleanBuffer>,
    ) -> Self {
        Self { good, selection, record: 0, row: 0 }
    }

    /// Whether the next record is delivered. Called once for each record, in order.
    pub(crate) fn next(&mut self) -> bool {
        let is_good =
            self.good.is_none_or(|good| self.record < good.len() && good.value(self.record));
        self.record += 1;
        if !is_good {
            return false;
        }
        let is_selected = self
            .selection
            .is_none_or(|selection| self.row < selection.len() && selection.value(self.row));
        self.row += 1;
        is_selected
    }
}
