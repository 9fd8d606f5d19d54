//! A file whose decoder may panic, as one whose decoder does not.

use super::{Block, BlockPages, Statistics, TableError, TableFile};
use crate::caught::{Panicked, caught};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The invariant: no damage of a file leaves a method as a panic.
#[derive(Debug)]
pub struct Guarded {
    inner: Arc<dyn TableFile>,
}

impl Guarded {
    /// # Errors
    /// Those of `open`, and [`TableError::Decoder`] when it panics.
    pub fn open(path: &str, open: impl FnOnce() -> Result<Arc<dyn TableFile>, TableError>) -> Result<Arc<dyn TableFile>, TableError> {
        let inner = caught(open).unwrap_or_else(|Panicked| Err(TableError::Decoder { path: path.to_owned(), row: 0 }))?;
        Ok(Arc::new(Self { inner }))
    }

    fn guarded<T>(&self, block: usize, call: impl FnOnce() -> Result<T, TableError>) -> Result<T, TableError> {
        caught(call).unwrap_or_else(|Panicked| {
            let row = self.inner.blocks().iter().take(block).map(|block| block.rows).sum();
            Err(TableError::Decoder { path: self.path().to_owned(), row })
        })
    }
}

impl TableFile for Guarded {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn schema(&self) -> &SchemaRef {
        self.inner.schema()
    }

    fn declared_schema(&self) -> &SchemaRef {
        self.inner.declared_schema()
    }

    fn blocks(&self) -> &[Block] {
        self.inner.blocks()
    }

    fn read(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, TableError> {
        self.guarded(block, || self.inner.read(block, columns, selection))
    }

    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        self.guarded(blocks.start, || self.inner.read_run(blocks, columns))
    }

    fn runs(&self) -> Vec<Range<usize>> {
        self.inner.runs()
    }

    fn scan(&self, run: Range<usize>, columns: &[usize], each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>) -> Result<(), TableError> {
        self.guarded(run.start, || self.inner.scan(run, columns, each))
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.inner.decoded_bytes(block, columns)
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        caught(|| self.inner.statistics(column)).ok().flatten()
    }

    fn page_statistics(&self, block: usize, column: usize) -> Result<Option<BlockPages>, TableError> {
        self.guarded(block, || self.inner.page_statistics(block, column))
    }

    fn may_contain(&self, block: usize, column: usize, values: &ArrayRef) -> Result<bool, TableError> {
        self.guarded(block, || self.inner.may_contain(block, column, values))
    }

    fn digest(&self) -> u128 {
        self.inner.digest()
    }
}
