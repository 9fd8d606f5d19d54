//! A file in a store whose bytes may have been damaged on their way.
//!
//! What cannot be decoded is fetched once more, past everything that keeps bytes: a wire or a disk that turned a bit costs a request, and damage in the
//! store is still an error. The invariant: rows are delivered once, also when a scan is repeated.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use shardmill_formats::table::{Block, BlockPages, Statistics, TableError, TableFile};
use shardmill_storage::{is_remote, with_fresh_bytes};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

#[derive(Debug)]
struct Refetched(Arc<dyn TableFile>);

/// Opens a file, and reads from it, with one more try where it lies in a store.
pub(super) fn refetched<E: From<TableError>>(path: &str, open: impl Fn() -> Result<Arc<dyn TableFile>, TableError>) -> Result<Arc<dyn TableFile>, E> {
    if !is_remote(path) {
        return Ok(open()?);
    }
    Ok(Arc::new(Refetched(twice(open)?)))
}

fn twice<T>(read: impl Fn() -> Result<T, TableError>) -> Result<T, TableError> {
    // What the store refused, it was asked for again already.
    match read() {
        Err(error) if error.of_store().is_none() => with_fresh_bytes(read),
        read => read,
    }
}

impl TableFile for Refetched {
    fn path(&self) -> &str {
        self.0.path()
    }

    fn schema(&self) -> &SchemaRef {
        self.0.schema()
    }

    fn declared_schema(&self) -> &SchemaRef {
        self.0.declared_schema()
    }

    fn blocks(&self) -> &[Block] {
        self.0.blocks()
    }

    fn read(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, TableError> {
        twice(|| self.0.read(block, columns, selection))
    }

    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        twice(|| self.0.read_run(blocks.clone(), columns))
    }

    fn runs(&self) -> Vec<Range<usize>> {
        self.0.runs()
    }

    fn scan(&self, run: Range<usize>, columns: &[usize], each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>) -> Result<(), TableError> {
        let mut delivered = 0;
        let scanned = self.0.scan(run.clone(), columns, &mut |batch| {
            delivered += batch.num_rows();
            each(batch)
        });
        match scanned {
            Err(error) if error.of_store().is_none() => {}
            scanned => return scanned,
        }
        let mut skipped = delivered;
        with_fresh_bytes(|| {
            self.0.scan(run, columns, &mut |batch| {
                let known = skipped.min(batch.num_rows());
                skipped -= known;
                let rest = batch.num_rows() - known;
                if rest == 0 { ControlFlow::Continue(()) } else { each(batch.slice(known, rest)) }
            })
        })
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.0.decoded_bytes(block, columns)
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        self.0.statistics(column)
    }

    fn page_statistics(&self, block: usize, column: usize) -> Result<Option<BlockPages>, TableError> {
        twice(|| self.0.page_statistics(block, column))
    }

    fn may_contain(&self, block: usize, column: usize, values: &ArrayRef) -> Result<bool, TableError> {
        twice(|| self.0.may_contain(block, column, values))
    }

    fn digest(&self) -> u128 {
        self.0.digest()
    }
}
