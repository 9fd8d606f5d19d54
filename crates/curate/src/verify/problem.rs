//! The result of checking one file.

use crate::error::reason;
use crate::file_format::FileFormat;
use serde::Serialize;
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
    /// Each document starts with its only metadata row, at position −1; content has ascending positions.
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
    #[must_use]
    pub fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, sample: None, member: None, row: None, offset: None, what: what.into() }
    }

    #[must_use]
    pub fn of_sample(mut self, sample: &str) -> Self {
        self.sample = Some(sample.to_owned());
        self
    }

    #[must_use]
    pub fn at_member(mut self, name: &str, offset: u64) -> Self {
        self.member = Some(name.to_owned());
        self.offset = Some(offset);
        self
    }

    #[must_use]
    pub fn at_row(mut self, row: u64) -> Self {
        self.row = Some(row);
        self
    }
}

/// Rows by modality.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModalityRows {
    pub metadata: u64,
    pub text: u64,
    pub image: u64,
    pub other: u64,
}

impl ModalityRows {
    /// Counts one row.
    pub fn add(&mut self, modality: &str) {
        match modality {
            "metadata" => self.metadata += 1,
            "text" => self.text += 1,
            "image" => self.image += 1,
            _ => self.other += 1,
        }
    }
}

/// The outcome of checking one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileCheck {
    pub path: String,
    pub format: FileFormat,
    /// Tar only: whether the rules for written tars were applied.
    pub is_written: Option<bool>,
    pub bytes: u64,
    pub samples: u64,
    pub rows: ModalityRows,
    /// Two documents may share an id; filters distinguish them.
    pub duplicate_sample_ids: u64,
    /// Members that no sample names; allowed in a source.
    pub unreferenced_members: u64,
    pub ordering_valid: bool,
    /// Null for anything but a tar.
    pub wds_valid: Option<bool>,
    /// Number of all problems; `problems` lists the first ones.
    pub problem_count: u64,
    pub problems: Vec<Problem>,
    #[serde(skip)]
    max_problems: usize,
}

impl FileCheck {
    #[must_use]
    pub fn new(path: &str, format: FileFormat, max_problems: usize) -> Self {
        let wds_valid = (format == FileFormat::Tar).then_some(true);
        Self { path: path.to_owned(), format, ordering_valid: true, wds_valid, max_problems, ..Self::default() }
    }

    /// Returns `None` and reports a problem when the file, or a part of it, cannot be read.
    pub(super) fn readable<T, E: Error + 'static>(&mut self, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.report(Problem::new(Rule::Readable, reason(&error)))).ok()
    }

    pub fn report(&mut self, problem: Problem) {
        // The order of unreadable data is unknown.
        if matches!(problem.rule, Rule::Readable | Rule::Json | Rule::Ordering) {
            self.ordering_valid = false;
        }
        if matches!(problem.rule, Rule::Readable | Rule::Json | Rule::Structure)
            && let Some(wds_valid) = &mut self.wds_valid
        {
            *wds_valid = false;
        }
        self.problem_count += 1;
        if self.problems.len() < self.max_problems {
            self.problems.push(problem);
        }
    }

    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problem_count == 0
    }
}
