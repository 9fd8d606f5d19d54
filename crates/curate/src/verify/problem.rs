//! What a check found in one file.

use crate::file_format::FileFormat;
use serde::Serialize;

/// Which rule a problem breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The file opens, is complete and can be read.
    Readable,
    /// Each JSON parses and is an object.
    Json,
    /// Samples are made as their format demands: entries name members, lists have equal length, columns are there.
    Structure,
    /// Each document has one metadata row, first, at position −1; content stands in ascending positions.
    Ordering,
    /// Each image has a header that gives its size, and as many pages as entries.
    Image,
    /// Cells hold what their row says: no null ids, no bytes beside an error.
    Row,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub rule: Rule,
    pub sample: Option<String>,
    /// Of a tar; of an ArrayRecord file, the number and kind of the chunk.
    pub member: Option<String>,
    /// Parquet only: counted from 0 over the whole file.
    pub row: Option<u64>,
    /// In the file, or in the inflated copy of a compressed one.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileCheck {
    pub path: String,
    pub format: FileFormat,
    /// Tar only: whether the rules for written tars were applied.
    pub is_written: Option<bool>,
    pub bytes: u64,
    pub samples: u64,
    pub rows: ModalityRows,
    /// Two documents may share an id; filters keep them apart.
    pub duplicate_sample_ids: u64,
    /// Members that no sample names; in a source that is no problem.
    pub unreferenced_members: u64,
    pub ordering_valid: bool,
    /// Null for anything but a tar.
    pub wds_valid: Option<bool>,
    /// All of them; `problems` holds the first ones.
    pub problem_count: u64,
    pub problems: Vec<Problem>,
    #[serde(skip)]
    max_problems: usize,
}

impl FileCheck {
    #[must_use]
    pub fn new(path: &str, format: FileFormat, max_problems: usize) -> Self {
        Self {
            path: path.to_owned(),
            format,
            is_written: None,
            bytes: 0,
            samples: 0,
            rows: ModalityRows::default(),
            duplicate_sample_ids: 0,
            unreferenced_members: 0,
            ordering_valid: true,
            wds_valid: (format == FileFormat::Tar).then_some(true),
            problem_count: 0,
            problems: Vec::new(),
            max_problems,
        }
    }

    pub fn report(&mut self, problem: Problem) {
        // Of what could not be read, nobody knows the order.
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
