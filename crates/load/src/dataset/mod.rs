//! A data set: files of one format and one schema, and how their blocks are read.
//!
//! Opening reads footers in parallel, and no rows. The files of a directory are in byte order of
//! their names; rows are numbered file after file.

mod addition;
mod by_id;
mod derived;
mod documents;
mod encoded;
mod format;
mod found;
mod images;
mod list_lengths;
mod mds;
mod mds_index;
mod mixed;
mod nested;
mod objects;
mod open;
mod opener;
mod origin;
mod part_sizes;
mod parts;
mod reader;
mod refetched;
mod rows;
mod table;
mod text;
mod text_shards;
mod token_masks;
mod token_opener;
mod token_pairs;

pub use addition::disagreement;
pub use format::{Format, signature_of};
pub use found::{LeftOut, files_of_one_format};
pub use mds::{IndexedFile, MdsShards, indexed_files};
pub use mds_index::rebuild_index;
pub use mixed::MixedSource;
pub use nested::column_of;
pub use open::{DatasetOptions, DocumentOptions, DocumentRows, HiveKeys, open_files, text_sample};
pub use opener::{FileOpener, LateTypes, TextSample};
pub use origin::{Affixes, CountRows, Counted, Derive, Limited, Underivable};
pub use reader::TableReader;
pub use table::{TableColumn, TableDataFile, TableOptions};
pub use text::{Nan, TextForm, TextOptions};
pub use text_shards::{TextShard, text_files};
pub use token_masks::label_masks;
pub use token_opener::TokenFileOptions;
pub use token_pairs::{has_token_index, is_plain_pair, listing_of_pair};

use self::origin::Origin;
use crate::{Error, Result};
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Field, Schema, SchemaRef};
use shardmill_formats::records::Declared;
use shardmill_formats::table::{BlockPages, NestedColumn, Statistics, TableFile, column_field};
use shardmill_plan::schema::{exactly, value_type};
use shardmill_storage::is_remote;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that alternate between waiting for a store and decoding.
const READING_THREADS: RangeInclusive<usize> = 8..=64;

/// Bytes that they fetch concurrently, with blocks of typical size: a fast store sends this in the
/// time of a few responses.
const BYTES_UNDER_WAY: u64 = 64 << 20;

/// Open files of one schema.
#[derive(Debug, Clone)]
pub struct Dataset {
    format: Option<Format>,
    files: Vec<OpenFile>,
    /// The top-level columns, the fields inside of their structs, and what is computed from these.
    schema: SchemaRef,
    top_level: usize,
    /// Columns that are delivered only if they are named.
    hidden: BTreeSet<usize>,
    /// Read as encoded images, which become pixels of the type in `schema`.
    image_columns: BTreeSet<usize>,
    left_out: Vec<LeftOut>,
    skipped: Vec<(String, Error)>,
    /// Files of several data sets have separate counters.
    bytes_read: Vec<Arc<AtomicU64>>,
}

/// A file, and the mapping of its columns to those of the data set.
#[derive(Debug, Clone)]
pub struct OpenFile {
    pub path: String,
    /// Path below the root of the data set.
    pub relative: String,
    pub size: u64,
    pub table: Arc<dyn TableFile>,
    columns: Vec<Origin>,
    /// Columns whose types the user has given.
    declared: Declared,
    /// One bit per row, unset if it is deleted; `None` if no row is.
    live: Option<BooleanBuffer>,
}

/// A block of one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockOf {
    pub file: usize,
    pub block: usize,
}

impl Dataset {
    /// `None` if there are no files, or files of several formats.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    #[must_use]
    pub fn files(&self) -> &[OpenFile] {
        &self.files
    }

    /// Files that were found with the data but are not part of it.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Files that could not be opened and were skipped, each with its error.
    #[must_use]
    pub fn skipped(&self) -> &[(String, Error)] {
        &self.skipped
    }

    /// Every column that can be read, by number: the top-level columns, followed by the fields
    /// inside of their structs, each named by its path.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether reading may wait for requests over a network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.files.iter().any(|file| is_remote(&file.path))
    }

    /// Number of reading threads: for a remote store enough to keep it busy, more with small
    /// blocks; otherwise `threads`.
    #[must_use]
    pub fn reading_threads(&self, threads: usize) -> usize {
        if threads == 0 || !self.is_remote() {
            return threads;
        }
        let bytes: u64 = self.files.iter().map(|file| file.size).sum();
        let blocks = self.files.iter().map(|file| file.table.blocks().len() as u64).sum::<u64>();
        let wanted = BYTES_UNDER_WAY / (bytes / blocks.max(1)).max(1);
        threads.max(
            usize::try_from(wanted)
                .unwrap_or(usize::MAX)
                .clamp(*READING_THREADS.start(), *READING_THREADS.end()),
        )
    }

    /// Bytes requested from the storage so far, including footers.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Number of all rows before filtering.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.files.iter().map(OpenFile::num_rows).sum()
    }

    /// Names of the columns that are delivered if none are named.
    #[must_use]
    pub fn column_names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter().take(self.top_level).enumerate();
        let shown = fields.filter(|(column, _)| !self.hidden.contains(column));
        shown.map(|(_, field)| field.name().clone()).collect()
    }

    /// Every block, file after file.
    pub fn blocks(&self) -> impl Iterator<Item = BlockOf> {
        self.files.iter().enumerate().flat_map(|(file, open)| {
            (0..open.table.blocks().len()).map(move |block| BlockOf { file, block })
        })
    }
}

impl OpenFile {
    /// Statistics of a column of the data set, in its type of `schema`, with one entry per block of
    /// this file.
    #[must_use]
    pub fn statistics(&self, column: usize, schema: &Schema) -> Option<Statistics> {
        match self.columns.get(column)? {
            Origin::File(own) => {
                Some(in_type(self.table.statistics(*own)?, schema.fields().get(column)?))
            }
            Origin::Constant(value) => Statistics::constant(
                value,
                self.table.blocks().iter().map(|block| block.rows).collect(),
            )
            .ok(),
            Origin::Derived { .. } | Origin::Image(_) | Origin::Absent => None,
        }
    }

    /// Page statistics of a block for a column of the data set, in its type of `schema`.
    ///
    /// # Errors
    /// When the page index cannot be read.
    pub fn page_statistics(
        &self,
        block: usize,
        column: usize,
        schema: &Schema,
    ) -> Result<Option<BlockPages>> {
        let Some(Origin::File(own)) = self.columns.get(column) else { return Ok(None) };
        let (pages, field) =
            (self.table.page_statistics(block, *own)?, schema.fields().get(column));
        Ok(pages.zip(field).map(|(pages, field)| BlockPages {
            statistics: in_type(pages.statistics, field),
            ..pages
        }))
    }

    /// Whether a column of the data set is missing in this file, so that all
    /// of its rows are null there.
    #[must_use]
    pub fn lacks(&self, column: usize) -> bool {
        matches!(self.columns.get(column), Some(Origin::Absent))
    }

    /// False if a block certainly contains none of `values` in a column of the data set.
    ///
    /// # Errors
    /// When the bloom filter cannot be read.
    pub fn may_contain(&self, block: usize, column: usize, values: &ArrayRef) -> Result<bool> {
        match self.columns.get(column) {
            // Files with another type would hash other bits.
            Some(Origin::File(own))
                if column_field(self.table.declared_schema(), self.nested_of(*own), *own)
                    .is_some_and(|field| field.data_type() == values.data_type()) =>
            {
                Ok(self.table.may_contain(block, *own, values)?)
            }
            _ => Ok(true),
        }
    }

    /// The number of values of each selected row of a list column of the data set, if the index of
    /// the file states it.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn row_lengths(
        &self,
        block: usize,
        column: usize,
        selection: Option<&BooleanBuffer>,
    ) -> Result<Option<Vec<u32>>> {
        match self.columns.get(column) {
            Some(Origin::File(own)) => Ok(self.table.row_lengths(block, *own, selection)?),
            _ => Ok(None),
        }
    }

    /// `None` if the file does not have the column.
    fn is_virtual(&self, column: usize) -> Option<bool> {
        match self.columns.get(column) {
            Some(Origin::File(own)) => Some(self.table.is_virtual(*own)),
            _ => None,
        }
    }

    /// Empty for a top-level column of the file, which needs none of them.
    fn nested_of(&self, own: usize) -> &[NestedColumn] {
        if own < self.table.declared_schema().fields().len() { &[] } else { self.table.nested() }
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.live.as_ref().map_or_else(
            || self.table.blocks().iter().map(|block| block.rows).sum(),
            |live| live.count_set_bits() as u64,
        )
    }

    /// One bit per row of a block, unset if it is deleted; `None` if no row is.
    #[must_use]
    pub fn live_rows(&self, block: usize) -> Option<BooleanBuffer> {
        let live = self.live.as_ref()?;
        let blocks = self.table.blocks();
        let start = blocks.iter().take(block).map(|block| block.rows).sum::<u64>();
        let (start, rows) =
            (usize::try_from(start).ok()?, usize::try_from(blocks.get(block)?.rows).ok()?);
        let live = (start.checked_add(rows)? <= live.len()).then(|| live.slice(start, rows))?;
        (live.count_set_bits() < rows).then_some(live)
    }

    /// The deleted rows, for the identity of the data set.
    #[must_use]
    pub fn live_bits(&self) -> Option<&BooleanBuffer> {
        self.live.as_ref()
    }
}

/// Bounds in the type of `field`. If one of them cannot be converted exactly, they keep their type,
/// and pruning ignores them.
fn in_type(statistics: Statistics, field: &Field) -> Statistics {
    let wanted = value_type(field.data_type());
    match (exactly(&statistics.min, wanted), exactly(&statistics.max, wanted)) {
        (Ok(min), Ok(max)) => Statistics { min, max, ..statistics },
        _ => statistics,
    }
}
