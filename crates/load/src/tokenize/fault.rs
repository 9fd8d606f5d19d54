//! Rows that have no tokens, and bytes that are not text.

/// What bytes that are not UTF-8 become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidBytes {
    Raise,
    /// U+FFFD, as Python's `errors="replace"`.
    Replace,
}

/// Why a row has no tokens, and what to do.
#[derive(Debug)]
pub(super) struct Fault {
    /// Number of the source column.
    pub source: usize,
    pub reason: String,
    pub hint: Option<String>,
}

/// Of the first source, or of the row as a whole.
impl From<(String, Option<String>)> for Fault {
    fn from((reason, hint): (String, Option<String>)) -> Self {
        Self { source: 0, reason, hint }
    }
}

impl Fault {
    pub(super) fn in_source(self, source: usize) -> Self {
        Self { source: self.source + source, ..self }
    }
}
