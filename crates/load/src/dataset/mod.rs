//! Files of one format, one schema: what they hold and how their blocks are read.
//!
//! Opening reads footers, in parallel, and no row. The files of a directory stand in byte order of their names; rows are numbered file after file.

mod addition;
mod format;
mod found;
mod mds;
mod mds_index;
mod mixed;
mod open;
mod opener;
mod refetched;
mod rows;
mod schema;
mod table;
mod text_shards;

pub use addition::disagreement;
pub use format::{Format, signature_of};
pub use found::{LeftOut, files_of_one_format};
pub use mds::{IndexedFile, MdsShards, indexed_files};
pub use mds_index::rebuild_index;
pub use mixed::MixedSource;
pub use open::DatasetOptions;
pub use opener::FileOpener;
pub use schema::has_nul;
pub use table::{TableColumn, TableDataFile, TableOptions};
pub use text_shards::{TextShard, text_files};

use crate::{Error, Result};
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use shardmill_formats::table::{BlockPages, Statistics, TableFile};
use shardmill_storage::is_remote;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that share their time between waiting for a store and decoding what came.
const READING_THREADS: RangeInclusive<usize> = 8..=64;

/// What they fetch at once, if blocks are as large as most: a fast store sends it in the time of some answers.
const BYTES_UNDER_WAY: u64 = 64 << 20;

/// Open files of one schema.
#[derive(Debug)]
pub struct Dataset {
    format: Option<Format>,
    files: Vec<OpenFile>,
    schema: SchemaRef,
    left_out: Vec<LeftOut>,
    skipped: Vec<(String, Error)>,
    /// Files of several data sets bring their own counters.
    bytes_read: Vec<Arc<AtomicU64>>,
}

/// One file, and how its columns become those of the data set.
#[derive(Debug, Clone)]
pub struct OpenFile {
    pub path: String,
    /// Below the root of the data set.
    pub relative: String,
    pub size: u64,
    pub table: Arc<dyn TableFile>,
    columns: Vec<Origin>,
    /// One bit a row, not set where it is deleted; `None` when none is.
    live: Option<BooleanBuffer>,
}

/// Where a column of the data set comes from in one file.
#[derive(Debug, Clone)]
enum Origin {
    /// A column of the file, by number.
    File(usize),
    /// The same value in each row, as an array of one.
    Constant(ArrayRef),
    /// The file lacks it.
    Absent,
}

/// A block of one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockOf {
    pub file: usize,
    pub block: usize,
}

impl Dataset {
    /// `None` when there are no files, and when there are files of several formats.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    #[must_use]
    pub fn files(&self) -> &[OpenFile] {
        &self.files
    }

    /// Files that were found beside the data and are not part of it.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Files that could not be opened and were left out, each with its error.
    #[must_use]
    pub fn skipped(&self) -> &[(String, Error)] {
        &self.skipped
    }

    /// Types as batches have them.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether reading may wait for requests over a network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.files.iter().any(|file| is_remote(&file.path))
    }

    /// So many threads keep a store busy where there is one, more where blocks are small; a pass has `threads` without.
    #[must_use]
    pub fn reading_threads(&self, threads: usize) -> usize {
        if threads == 0 || !self.is_remote() {
            return threads;
        }
        let bytes: u64 = self.files.iter().map(|file| file.size).sum();
        let blocks = self.files.iter().map(|file| file.table.blocks().len() as u64).sum::<u64>();
        let wanted = BYTES_UNDER_WAY / (bytes / blocks.max(1)).max(1);
        threads.max(usize::try_from(wanted).unwrap_or(usize::MAX).clamp(*READING_THREADS.start(), *READING_THREADS.end()))
    }

    /// Bytes that were asked of the storage so far, footers included.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// All rows, no filter applied.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.files.iter().map(OpenFile::num_rows).sum()
    }

    /// Every block, file after file.
    pub fn blocks(&self) -> impl Iterator<Item = BlockOf> {
        self.files.iter().enumerate().flat_map(|(file, open)| (0..open.table.blocks().len()).map(move |block| BlockOf { file, block }))
    }
}

impl OpenFile {
    /// What is known of a column of the data set, one entry a block of this file.
    #[must_use]
    pub fn statistics(&self, column: usize) -> Option<Statistics> {
        match self.columns.get(column)? {
            Origin::File(own) => self.table.statistics(*own),
            Origin::Constant(value) => Statistics::constant(value, self.table.blocks().iter().map(|block| block.rows).collect()).ok(),
            Origin::Absent => None,
        }
    }

    /// What is known of the pages of a block in a column of the data set.
    ///
    /// # Errors
    /// When what tells it cannot be read.
    pub fn page_statistics(&self, block: usize, column: usize) -> Result<Option<BlockPages>> {
        match self.columns.get(column) {
            Some(Origin::File(own)) => Ok(self.table.page_statistics(block, *own)?),
            _ => Ok(None),
        }
    }

    /// Whether a column of the data set is absent from this file, so that all of its rows are null there.
    #[must_use]
    pub fn lacks(&self, column: usize) -> bool {
        matches!(self.columns.get(column), Some(Origin::Absent))
    }

    /// False when a block certainly holds none of `values` in a column of the data set.
    ///
    /// # Errors
    /// When what tells it cannot be read.
    pub fn may_contain(&self, block: usize, column: usize, values: &ArrayRef) -> Result<bool> {
        match self.columns.get(column) {
            // Files of another type would compare other bits.
            Some(Origin::File(own))
                if self.table.declared_schema().fields().get(*own).is_some_and(|field| field.data_type() == values.data_type()) =>
            {
                Ok(self.table.may_contain(block, *own, values)?)
            }
            _ => Ok(true),
        }
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.live.as_ref().map_or_else(|| self.table.blocks().iter().map(|block| block.rows).sum(), |live| live.count_set_bits() as u64)
    }

    /// One bit a row of a block, not set where it is deleted; `None` when none is.
    #[must_use]
    pub fn live_rows(&self, block: usize) -> Option<BooleanBuffer> {
        let live = self.live.as_ref()?;
        let blocks = self.table.blocks();
        let start = blocks.iter().take(block).map(|block| block.rows).sum::<u64>();
        let (start, rows) = (usize::try_from(start).ok()?, usize::try_from(blocks.get(block)?.rows).ok()?);
        let live = (start.checked_add(rows)? <= live.len()).then(|| live.slice(start, rows))?;
        (live.count_set_bits() < rows).then_some(live)
    }

    /// The rows that are deleted, for the identity of the data set.
    #[must_use]
    pub fn live_bits(&self) -> Option<&BooleanBuffer> {
        self.live.as_ref()
    }
}
