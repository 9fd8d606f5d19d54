//! Files of rows behind one interface: Parquet, ORC, CSV and JSONL look alike from here on.
//!
//! An open file has a schema and blocks; a block is what is decoded at once: a row group or a part of a large one, a stripe, a run of lines. Blocks are
//! fixed by the file alone, so they are part of the identity of a data set. Called by the dataset of the `load` crate. The invariant: [`TableFile::read`]
//! returns exactly the rows that were asked for, of exactly the types that [`TableFile::schema`] shows, or an error that names the place.

mod error;
mod guarded;
mod statistics;

pub use error::TableError;
pub use guarded::Guarded;
pub use statistics::{BlockPages, Statistics};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use std::fmt::Debug;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// No block is meant to decode to more than this; a row group that does is cut into several blocks.
pub const MAX_BLOCK_BYTES: u64 = 64 << 20;

/// What is decoded at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Block {
    pub rows: u64,
    /// In memory, all columns, estimated from metadata.
    pub decoded_bytes: u64,
    /// In the file, all columns.
    pub stored_bytes: u64,
}

/// An open file: what its footer, its index or a scan tells, and the means to read its rows.
///
/// Strings and binaries may be delivered as view types where the schema says so; a reader states in its schema what it will deliver.
pub trait TableFile: Debug + Send + Sync {
    fn path(&self) -> &str;

    /// Top-level columns, as [`TableFile::read`] delivers them.
    fn schema(&self) -> &SchemaRef;

    /// Columns as the file's author declared them: where a reader delivers strings as views, this says what they are.
    fn declared_schema(&self) -> &SchemaRef {
        self.schema()
    }

    /// In file order. Blocks without rows are allowed.
    fn blocks(&self) -> &[Block];

    /// Rows of one block in file order, `columns` as indices into the schema, delivered in the order given; none is allowed. With `selection`, one bit for
    /// each row of the block, only the rows whose bit is set.
    ///
    /// # Errors
    /// When the bytes cannot be read or decoded.
    fn read(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, TableError>;

    /// All rows of consecutive blocks. Small row groups are faster to decode together than one by one.
    ///
    /// # Errors
    /// As [`TableFile::read`].
    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        read_one_by_one(self, blocks, columns)
    }

    /// Consecutive blocks that one thread should read, front to back: parts of what is decoded together.
    fn runs(&self) -> Vec<Range<usize>> {
        (0..self.blocks().len()).map(|block| block..block + 1).collect()
    }

    /// All rows of one of [`TableFile::runs`], once, in batches of any size. What several parts of a row group have in common is decoded once.
    ///
    /// # Errors
    /// As [`TableFile::read`]; batches that were handed out before are good.
    fn scan(&self, run: Range<usize>, columns: &[usize], each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>) -> Result<(), TableError> {
        scan_one_by_one(self, run, columns, each)
    }

    /// In memory, these columns of a block, estimated from metadata.
    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64;

    /// What is known of a column without reading it, one entry a block. `None` when nothing is.
    fn statistics(&self, _column: usize) -> Option<Statistics> {
        None
    }

    /// As [`TableFile::statistics`] for the pages inside of one block. Reading them may cost a request to the storage.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    fn page_statistics(&self, _block: usize, _column: usize) -> Result<Option<BlockPages>, TableError> {
        Ok(None)
    }

    /// False when a block certainly holds none of `values`, an array of the column's type without nulls. Reading what tells it (a bloom filter) may cost a
    /// request to the storage.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    fn may_contain(&self, _block: usize, _column: usize, _values: &ArrayRef) -> Result<bool, TableError> {
        Ok(true)
    }

    /// Of the footer or index: two files with equal digests, sizes and blocks are taken for copies of one another.
    fn digest(&self) -> u128;
}

/// Batches of consecutive blocks, a block each, for a reader that has no faster way.
pub(crate) fn scan_one_by_one<T: TableFile + ?Sized>(
    table: &T,
    blocks: Range<usize>,
    columns: &[usize],
    each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
) -> Result<(), TableError> {
    for block in blocks {
        if each(table.read(block, columns, None)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// All rows of consecutive blocks, for a reader that has no faster way.
pub(crate) fn read_one_by_one<T: TableFile + ?Sized>(table: &T, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
    let parts = blocks.map(|block| table.read(block, columns, None)).collect::<Result<Vec<_>, _>>()?;
    match parts.as_slice() {
        [only] => Ok(only.clone()),
        [] => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
        [first, ..] => concat_batches(&first.schema(), &parts).map_err(|source| TableError::Join { path: table.path().to_owned(), source }),
    }
}
