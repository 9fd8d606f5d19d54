//! Wraps every read of a file, for example to retry it or to catch panics.

use super::{Block, BlockPages, NestedColumn, Statistics, TableError, TableFile};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use std::fmt::Debug;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The wrapper around the reads of a file.
pub trait Around: Debug + Send + Sync + 'static {
    /// Runs `read`, which starts with `block` of `file`, as often as necessary.
    ///
    /// # Errors
    /// Those of `read`, and the reason if it was not completed.
    fn read<T>(
        &self,
        file: &dyn TableFile,
        block: usize,
        read: impl FnMut() -> Result<T, TableError>,
    ) -> Result<T, TableError>;
}

/// The invariant: each row is delivered once, even if a scan is repeated.
#[derive(Debug)]
pub struct Wrapped<A> {
    inner: Arc<dyn TableFile>,
    around: Arc<A>,
}

impl<A: Around> Wrapped<A> {
    pub fn new(inner: Arc<dyn TableFile>, around: A) -> Self {
        Self { inner, around: Arc::new(around) }
    }

    fn around<T>(
        &self,
        block: usize,
        mut read: impl FnMut(&dyn TableFile) -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        self.around.read(&*self.inner, block, || read(&*self.inner))
    }
}

impl<A: Around> TableFile for Wrapped<A> {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn schema(&self) -> &SchemaRef {
        self.inner.schema()
    }

    fn declared_schema(&self) -> &SchemaRef {
        self.inner.declared_schema()
    }

    fn nested(&self) -> &[NestedColumn] {
        self.inner.nested()
    }

    fn is_virtual(&self, column: usize) -> bool {
        self.inner.is_virtual(column)
    }

    fn blocks(&self) -> &[Block] {
        self.inner.blocks()
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, TableError> {
        self.around(block, |file| file.read(block, columns, selection))
    }

    fn heads(&self, bytes: u64) -> Option<Arc<dyn TableFile>> {
        let (inner, around) = (self.inner.heads(bytes)?, Arc::clone(&self.around));
        Some(Arc::new(Self { inner, around }))
    }

    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        self.around(blocks.start, |file| file.read_run(blocks.clone(), columns))
    }

    fn runs(&self) -> Vec<Range<usize>> {
        self.inner.runs()
    }

    fn scan(
        &self,
        run: Range<usize>,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> Result<(), TableError> {
        let mut delivered = 0;
        self.around(run.start, |file| {
            let mut skipped = delivered;
            file.scan(run.clone(), columns, &mut |batch| {
                let known = skipped.min(batch.num_rows());
                skipped -= known;
                let rest = batch.num_rows() - known;
                if known > 0 && rest == 0 {
                    return ControlFlow::Continue(());
                }
                delivered += rest;
                each(if known == 0 { batch } else { batch.slice(known, rest) })
            })
        })
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.inner.decoded_bytes(block, columns)
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        self.around(0, |file| Ok(file.statistics(column))).ok().flatten()
    }

    fn list_length(&self, column: usize) -> Option<u64> {
        self.inner.list_length(column)
    }

    fn row_lengths(
        &self,
        block: usize,
        column: usize,
        selection: Option<&BooleanBuffer>,
    ) -> Result<Option<Vec<u32>>, TableError> {
        self.around(block, |file| file.row_lengths(block, column, selection))
    }

    fn page_statistics(
        &self,
        block: usize,
        column: usize,
    ) -> Result<Option<BlockPages>, TableError> {
        self.around(block, |file| file.page_statistics(block, column))
    }

    fn may_contain(
        &self,
        block: usize,
        column: usize,
        values: &ArrayRef,
    ) -> Result<bool, TableError> {
        self.around(block, |file| file.may_contain(block, column, values))
    }

    fn notes(&self) -> Result<Vec<String>, TableError> {
        self.around(0, |file| file.notes())
    }

    fn digest(&self) -> u128 {
        self.inner.digest()
    }
}
