//! What happens to a record that does not fit the schema.

use arrow_buffer::BooleanBuffer;

/// What is done with a record that cannot be parsed, and with a value that does not fit its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BadLines {
    /// Reading stops with an error that names the file, the line and the column.
    #[default]
    Error,
    /// The record is left out and listed in the [`Quarantine`]. Opening a file parses all of it then, because row counts have to be exact.
    Skip,
    /// A value that does not fit is null; fields that a record lacks are null, and fields that it has too many are ignored.
    Null,
}

/// One record that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Where the record starts: 1-based, physical lines of the file.
    pub line: u64,
    pub reason: String,
}

/// All records that were left out of a file: their number, and the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quarantine {
    pub count: u64,
    pub lines: Vec<BadLine>,
}

/// A file without one good line must not fill the memory with reasons.
const MAX_QUARANTINED_LINES: usize = 100;

impl Quarantine {
    pub(crate) fn add(&mut self, line: u64, reason: impl FnOnce() -> String) {
        self.count += 1;
        if self.lines.len() < MAX_QUARANTINED_LINES {
            self.lines.push(BadLine { line, reason: reason() });
        }
    }
}

/// Which records of a run are wanted: those that are not in quarantine, and of these the selected ones.
pub(crate) struct KeptRows<'a> {
    good: Option<&'a BooleanBuffer>,
    selection: Option<&'a BooleanBuffer>,
    record: usize,
    row: usize,
}

impl<'a> KeptRows<'a> {
    /// `good` has a bit for each record, `selection` one for each good record.
    pub(crate) fn new(good: Option<&'a BooleanBuffer>, selection: Option<&'a BooleanBuffer>) -> Self {
        Self { good, selection, record: 0, row: 0 }
    }

    /// Whether the next record is wanted. Asked once for each record, in order.
    pub(crate) fn next(&mut self) -> bool {
        let is_good = self.good.is_none_or(|good| self.record < good.len() && good.value(self.record));
        self.record += 1;
        if !is_good {
            return false;
        }
        let is_selected = self.selection.is_none_or(|selection| self.row < selection.len() && selection.value(self.row));
        self.row += 1;
        is_selected
    }
}
