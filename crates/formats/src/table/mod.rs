//! Files of rows behind one interface for Parquet, ORC, CSV, JSONL and other formats.
//!
//! An open file has a schema and blocks; a block is decoded as a unit: a row group or a part of a
//! large one, a stripe, a run of lines. Blocks depend only on the file, so they are part of the
//! identity of a data set. Used by the dataset of the `load` crate. The invariant:
//! [`TableFile::read`] returns exactly the requested rows, with exactly the types of
//! [`TableFile::schema`], or an error with the position.

mod error;
pub(crate) mod exact;
mod guarded;
mod nested;
mod statistics;
mod type_name;
mod wrapped;

pub use error::TableError;
pub use guarded::Guarded;
pub(crate) use nested::Projection;
pub use nested::{NestedColumn, Step, column_field, column_number, fields_of, values};
pub use statistics::{BlockPages, Statistics};
pub use type_name::{arrow_message, column_type_name, type_name};
pub use wrapped::{Around, Wrapped};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Intended maximal decoded size of a block; a larger row group is split into several blocks.
pub const MAX_BLOCK_BYTES: u64 = 64 << 20;

/// The unit of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Block {
    pub rows: u64,
    /// Size in memory of all columns, estimated from metadata.
    pub decoded_bytes: u64,
    /// Size in the file of all columns.
    pub stored_bytes: u64,
}

/// An open file: its footer, index or scan, and access to its rows.
///
/// Strings and binaries may be delivered as view types if the schema says so: the schema always
/// states the delivered types.
pub trait TableFile: Debug + Send + Sync {
    fn path(&self) -> &str;

    /// Top-level columns, as [`TableFile::read`] delivers them.
    fn schema(&self) -> &SchemaRef;

    /// Columns as declared by the file's author, e.g. strings where the reader delivers views.
    fn declared_schema(&self) -> &SchemaRef {
        self.schema()
    }

    /// Fields inside of the structs of [`TableFile::declared_schema`]. Their column numbers follow
    /// those of the top-level columns.
    fn nested(&self) -> &[NestedColumn] {
        &[]
    }

    /// Whether a top-level column is read only if it is named: it says something about the row
    /// that is in the index of the file.
    fn is_virtual(&self, _column: usize) -> bool {
        false
    }

    /// Names, for errors, of the columns of the file that a top-level column is made of; `None` if
    /// that is the column of the same name.
    fn made_of(&self, _column: usize) -> Option<String> {
        None
    }

    /// In file order. Blocks without rows are allowed.
    fn blocks(&self) -> &[Block];

    /// Rows of one block in file order. `columns` are numbers of columns, delivered in the given
    /// order; it may be empty. A number is an index into the schema, or past its end into
    /// [`TableFile::nested`]; strings and binaries of nested columns may be views. `selection` has
    /// one bit for each row of the block, and only the rows whose bit is set are delivered.
    ///
    /// # Errors
    /// When the bytes cannot be read or decoded.
    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, TableError>;

    /// This file, reading only the first `bytes` of long binary values, such as for the size of an
    /// image. `None` if this does not read less.
    fn heads(&self, _bytes: u64) -> Option<Arc<dyn TableFile>> {
        None
    }

    /// All rows of consecutive blocks. Small row groups are decoded faster together
    /// than one by one.
    ///
    /// # Errors
    /// As [`TableFile::read`].
    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        read_one_by_one(self, blocks, columns)
    }

    /// Consecutive blocks that one thread should read in order, because they are parts of one unit
    /// of decoding.
    fn runs(&self) -> Vec<Range<usize>> {
        (0..self.blocks().len()).map(|block| block..block + 1).collect()
    }

    /// All rows of one of [`TableFile::runs`], once, in batches of any size. Data shared by several
    /// parts of a row group is decoded once.
    ///
    /// # Errors
    /// As [`TableFile::read`]; batches passed on before the error are good.
    fn scan(
        &self,
        run: Range<usize>,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<(), TableError> {
        scan_one_by_one(self, run, columns, each)
    }

    /// Size in memory of these columns of a block, estimated from metadata.
    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64;

    /// Statistics of a column that are known without reading it, one entry per block. `None` if
    /// there are none.
    fn statistics(&self, _column: usize) -> Option<Statistics> {
        None
    }

    /// The number of values of each row of a list column, if metadata suggests that all rows have
    /// the same and none is null. It may be wrong: rows of different lengths can have such a mean.
    fn list_length(&self, _column: usize) -> Option<u64> {
        None
    }

    /// The number of values of each row of a list column, if the index of the file states it, as
    /// [`TableFile::read`] selects rows.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn row_lengths(
        &self,
        _block: usize,
        _column: usize,
        _selection: Option<&BooleanBuffer>,
    ) -> Result<Option<Vec<u32>>, TableError> {
        Ok(None)
    }

    /// As [`TableFile::statistics`] for the pages of one block. Reading them may cost a request to
    /// the storage.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    fn page_statistics(
        &self,
        _block: usize,
        _column: usize,
    ) -> Result<Option<BlockPages>, TableError> {
        Ok(None)
    }

    /// False if a block certainly contains none of `values`, an array of the column's type without
    /// nulls. Reading the bloom filter for this may cost a request to the storage.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    fn may_contain(
        &self,
        _block: usize,
        _column: usize,
        _values: &ArrayRef,
    ) -> Result<bool, TableError> {
        Ok(true)
    }

    /// What is unusual about a file that is valid, such as parts that no row has.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    fn notes(&self) -> Result<Vec<String>, TableError> {
        Ok(Vec::new())
    }

    /// Digest of the footer or index: two files with equal digests, sizes
    /// and blocks are considered copies.
    fn digest(&self) -> u128;
}

/// Scans consecutive blocks with a batch per block, for a reader without a faster way.
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

/// Reads all rows of consecutive blocks, for a reader without a faster way.
pub(crate) fn read_one_by_one<T: TableFile + ?Sized>(
    table: &T,
    blocks: Range<usize>,
    columns: &[usize],
) -> Result<RecordBatch, TableError> {
    let parts =
        blocks.map(|block| table.read(block, columns, None)).collect::<Result<Vec<_>, _>>()?;
    match parts.as_slice() {
        [only] => Ok(only.clone()),
        [] => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
        [first, ..] => concat_batches(&first.schema(), &parts)
            .map_err(|source| TableError::Join { path: table.path().to_owned(), source }),
    }
}

/// Consecutive items in runs that `fits` accepts; an item that does not fit is a run of its own.
pub(crate) fn runs_of(items: usize, fits: impl Fn(Range<usize>) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for item in 0..items {
        match runs.last_mut() {
            Some(run) if fits(run.start..item + 1) => run.end = item + 1,
            _ => runs.push(item..item + 1),
        }
    }
    runs
}
