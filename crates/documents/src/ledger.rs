//! What happened to the rows of one split: counts, and everything that was skipped, with reasons.
//!
//! The invariant: each input row is delivered or counted with a reason; nothing is dropped
//! silently.

use crate::source_ref::SourceRef;
use crate::{Chunk, Modality};
use serde::{Deserialize, Serialize};
use shardmill_storage::redacted;
use std::collections::BTreeMap;

/// Documents and rows by modality.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub samples: u64,
    pub rows: u64,
    pub texts: u64,
    pub images: u64,
    pub metadata: u64,
    pub other: u64,
    pub materialize_errors: u64,
}

impl Counts {
    pub fn add(&mut self, chunk: &Chunk) {
        self.samples += chunk.documents.len() as u64;
        self.rows += chunk.rows.len() as u64;
        for row in &chunk.rows {
            self.count_modality(&row.modality);
            self.materialize_errors += u64::from(row.error.is_some());
        }
    }

    /// Adds one row that belongs to no document.
    pub fn add_row(&mut self, modality: &Modality) {
        self.rows += 1;
        self.count_modality(modality);
    }

    pub fn add_counts(&mut self, other: &Self) {
        self.samples += other.samples;
        self.rows += other.rows;
        self.texts += other.texts;
        self.images += other.images;
        self.metadata += other.metadata;
        self.other += other.other;
        self.materialize_errors += other.materialize_errors;
    }

    fn count_modality(&mut self, modality: &Modality) {
        match modality {
            Modality::Text => self.texts += 1,
            Modality::Image => self.images += 1,
            Modality::Metadata => self.metadata += 1,
            Modality::Other(_) => self.other += 1,
        }
    }
}

/// A sample, row or shard that was skipped, and its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    pub path: String,
    pub member: Option<String>,
    pub offset: Option<u64>,
    pub reason: String,
    /// True when a whole file could not be read to its end.
    pub is_shard: bool,
}

impl Quarantined {
    /// A file that cannot be read to its end.
    pub(crate) fn shard(path: &str, reason: impl Into<String>) -> Self {
        Self { is_shard: true, ..Self::part(path, reason) }
    }

    /// A part of a file.
    pub fn part(path: &str, reason: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            member: None,
            offset: None,
            reason: reason.into(),
            is_shard: false,
        }
    }
}

/// A row with an error instead of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowError {
    /// File that the row's `source_ref` names.
    pub path: Option<String>,
    pub sample_id: String,
    pub position: i32,
    pub error: String,
}

/// Number of row errors of a split that are listed; the rest is only counted.
const MAX_ROW_ERRORS: usize = 1000;

/// Number of different texts of row errors in the warnings of a split. Texts name members, so there
/// may be one for each row.
const MAX_WARNED_ERRORS: usize = 20;

/// Number of different keys of rescued values in the report of a split;
/// the others are counted together.
const MAX_RESCUED_KEYS: usize = 100;

const OTHER_KEYS: &str = "other keys";

const ROW_ERROR: &str = "materialize: ";

const OTHER_ERRORS: &str = "materialize, other errors";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    pub input: Counts,
    /// Rows by the reason why they are not delivered.
    pub rows_dropped: BTreeMap<String, u64>,
    /// Passthrough keys and columns that were not copied, by reason.
    pub keys_dropped: BTreeMap<String, u64>,
    /// Values that the schema of the job cannot hold, by key.
    pub rescued: BTreeMap<String, u64>,
    pub warnings: BTreeMap<String, u64>,
    pub quarantined: Vec<Quarantined>,
    pub row_errors: Vec<RowError>,
    pub pages_remuxed: u64,
    pub pages_whole: u64,
    pub pages_fallback: u64,
}

impl Ledger {
    pub fn drop_rows(&mut self, reason: &str, rows: u64) {
        if rows > 0 {
            *self.rows_dropped.entry(reason.to_owned()).or_default() += rows;
        }
    }

    /// Notes the rows of `chunk` that have an error.
    pub fn note_errors(&mut self, chunk: &Chunk) {
        let room = MAX_ROW_ERRORS.saturating_sub(self.row_errors.len());
        let errors = chunk.rows.iter().filter_map(|row| {
            let path =
                SourceRef::parse(row.source_ref.as_deref()).ok().and_then(|source| source.path);
            Some(RowError {
                path: path.as_deref().map(redacted),
                sample_id: chunk.id_of(row).to_owned(),
                position: row.position,
                error: redacted(row.error.as_deref()?),
            })
        });
        self.row_errors.extend(errors.take(room));
    }

    /// Warns of the rows of `chunk` that have an error: one warning for each text,
    /// and one for the rest.
    pub fn warn_of_errors(&mut self, chunk: &Chunk) {
        let mut texts = self.warnings.keys().filter(|text| text.starts_with(ROW_ERROR)).count();
        for error in chunk.rows.iter().filter_map(|row| row.error.as_deref()) {
            let text = redacted(&format!("{ROW_ERROR}{error}"));
            if let Some(times) = self.warnings.get_mut(&text) {
                *times += 1;
            } else if texts < MAX_WARNED_ERRORS {
                texts += 1;
                self.warnings.insert(text, 1);
            } else {
                self.warn(OTHER_ERRORS);
            }
        }
    }

    pub fn drop_key(&mut self, reason: String) {
        *self.keys_dropped.entry(reason).or_default() += 1;
    }

    /// Counts a value that the schema of the job cannot hold.
    pub fn rescue(&mut self, key: &str) {
        let has_room = self.rescued.contains_key(key) || self.rescued.len() < MAX_RESCUED_KEYS;
        *self.rescued.entry(if has_room { key } else { OTHER_KEYS }.to_owned()).or_default() += 1;
    }

    pub fn warn(&mut self, warning: impl Into<String>) {
        self.warn_times(warning, 1);
    }

    pub fn warn_times(&mut self, warning: impl Into<String>, times: u64) {
        *self.warnings.entry(redacted(&warning.into())).or_default() += times;
    }
}
