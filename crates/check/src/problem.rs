//! A broken rule, and its place.

use serde::Serialize;
use shardmill_documents::reason;
use std::error::Error;

/// The rule that a problem violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The file opens, is complete and can be read.
    Readable,
    /// Each JSON parses and is an object.
    Json,
    /// Samples follow their format: entries name members, lists have equal length, columns exist.
    Structure,
    /// Each document starts with its only metadata row, at position −1; content has ascending
    /// positions.
    Ordering,
    /// Each image has a header with its size, and as many pages as entries.
    Image,
    /// Cells are consistent: no null ids, no bytes in rows with an error.
    Row,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub rule: Rule,
    pub sample: Option<String>,
    /// For a tar; for an ArrayRecord file, the number and kind of the chunk.
    pub member: Option<String>,
    /// Not for a tar: counted from 0 over the whole file.
    pub row: Option<u64>,
    /// In the file, or in the decompressed copy of a compressed one.
    pub offset: Option<u64>,
    pub what: String,
}

impl Problem {
    pub(crate) fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, sample: None, member: None, row: None, offset: None, what: what.into() }
    }

    pub(crate) fn unreadable(error: &dyn Error) -> Self {
        Self::new(Rule::Readable, reason(error))
    }

    pub(crate) fn of_sample(mut self, sample: &str) -> Self {
        self.sample = Some(sample.to_owned());
        self
    }

    pub(crate) fn at_member(mut self, name: &str, offset: u64) -> Self {
        self.member = Some(name.to_owned());
        self.offset = Some(offset);
        self
    }

    pub(crate) fn at_row(mut self, row: u64) -> Self {
        self.row = Some(row);
        self
    }
}
