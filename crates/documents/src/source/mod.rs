//! Sources of rows: WebDataset shards, Parquet and JSON Lines.

mod batches;
pub mod columns;
mod conform;
mod draft;
mod heads;
pub mod heads_schema;
mod json_record;
pub mod jsonl;
pub mod keys;
pub mod layout;
pub mod located_rows;
mod messages;
pub mod named_keys;
mod pairs;
pub mod parquet;
mod parquet_records;
pub mod parquet_schema;
mod part_rows;
mod parts;
mod picture;
pub mod record_options;
mod row_lists;
mod row_record;
mod sample;
mod slots;
mod surrogates;
pub mod tokens;
mod values;
pub mod webdataset;
pub mod webdataset_options;

use crate::ledger::{Ledger, Quarantined};
use crate::locate::{Locator, Shared};
use crate::{Chunk, Error, Result};
use shardmill_engine::Cancel;
use shardmill_formats::limit::DecodeLimit;
use shardmill_plan::Split;
use shardmill_storage::redacted;
use std::sync::atomic::{AtomicU64, Ordering};

/// The context of a source, in addition to its options.
pub struct SplitContext<'a> {
    pub ledger: &'a mut Ledger,
    /// Paths of the files of the split.
    pub files: &'a [String],
    pub cancel: &'a Cancel,
    /// Images get their copy plan when they are read; off only if nothing needs them.
    pub is_located: bool,
    /// Approximate number of bytes of rows that a thread holds.
    pub chunk_bytes: u64,
    /// Shared by all splits of the run.
    pub errors: &'a ErrorBudget,
    /// Where rows may point to, and what was fetched from there.
    pub shared: &'a Shared,
}

/// Receives the chunks of a source.
pub type Emit<'a> = &'a mut dyn FnMut(Chunk, &mut SplitContext<'_>) -> Result<()>;

/// Counts quarantined items against the limit at which the run stops.
#[derive(Debug, Default)]
pub struct ErrorBudget {
    limit: Option<u64>,
    spent: AtomicU64,
}

impl ErrorBudget {
    #[must_use]
    pub fn new(limit: Option<u64>) -> Self {
        Self { limit, spent: AtomicU64::new(0) }
    }
}

impl SplitContext<'_> {
    /// The locator for rows of the files of this split.
    pub(crate) fn locator(&self, limit: DecodeLimit) -> Locator {
        Locator::new(self.shared, self.files, limit)
    }

    /// # Errors
    /// [`Error::ErrorBudget`] when the limit is exceeded.
    pub fn quarantine(&mut self, item: Quarantined) -> Result<()> {
        let known = self.ledger.quarantined.len();
        self.ledger.quarantined.push(Quarantined { reason: redacted(&item.reason), ..item });
        self.charge(known)
    }

    /// Counts the items of the ledger after the first `known` against the budget.
    ///
    /// # Errors
    /// [`Error::ErrorBudget`] when the limit is exceeded.
    pub fn charge(&mut self, known: usize) -> Result<()> {
        let items = self.ledger.quarantined.get(known..).unwrap_or_default();
        let Some(last) = items.last() else { return Ok(()) };
        let count =
            self.errors.spent.fetch_add(items.len() as u64, Ordering::Relaxed) + items.len() as u64;
        match self.errors.limit {
            Some(limit) if count > limit => Err(Error::ErrorBudget {
                count,
                limit,
                last: format!("{}: {}", last.path, last.reason),
            }),
            _ => Ok(()),
        }
    }
}

/// The inputs of a batch: all of the split, or those of `files` with the number of the batch if the
/// split produced several.
pub fn split_sources(split: &Split, files: &[usize], batch: Option<usize>) -> Vec<String> {
    match batch {
        None => split.files.iter().map(|file| file.path.clone()).collect(),
        Some(batch) => {
            let contributing =
                split.files.iter().enumerate().filter(|(index, _)| files.contains(index));
            contributing.map(|(_, file)| format!("{}::split_{batch:05}", file.path)).collect()
        }
    }
}
