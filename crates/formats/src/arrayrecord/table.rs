//! A file of records as a table with one column, `record`.

use super::{ArrayRecordFile, Error, Records, Scratch, Verify};
use crate::limit::DecodeLimit;
use crate::table::{Block, MAX_BLOCK_BYTES, TableError, TableFile};
use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;

/// Name of the only column.
const COLUMN: &str = "record";

/// Chunks are combined to blocks of about this size, so that files with one record per chunk are
/// read in long runs.
const BLOCK_BYTES: u64 = 4 << 20;
/// This many bytes of consecutive chunks are read together.
const READ_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub struct ArrayRecordTable {
    file: ArrayRecordFile,
    schema: SchemaRef,
    blocks: Vec<Block>,
    /// Chunks of each block.
    chunks: Vec<Range<usize>>,
}

impl ArrayRecordTable {
    /// # Errors
    /// As [`ArrayRecordFile::open`].
    pub fn open(object: Arc<dyn RangeRead>) -> Result<Self, Error> {
        Self::open_limited(object, DecodeLimit::default())
    }

    /// As [`ArrayRecordTable::open`], with a limit other than the default.
    ///
    /// # Errors
    /// As [`ArrayRecordFile::open`].
    pub fn open_limited(object: Arc<dyn RangeRead>, limit: DecodeLimit) -> Result<Self, Error> {
        let file = ArrayRecordFile::open_limited(object, Verify::Full, limit)?;
        let schema = Arc::new(Schema::new(vec![Field::new(COLUMN, DataType::Binary, false)]));
        let mut table = Self { schema, blocks: Vec::new(), chunks: Vec::new(), file };
        let num_chunks = table.file.num_chunks();
        let mut first = 0;
        while first < num_chunks {
            let start = table.file.range_of(first)?.start;
            let mut last = first;
            let mut decoded = table.decoded_size_of(first)?;
            while last + 1 < num_chunks && table.file.range_of(last + 1)?.end - start <= BLOCK_BYTES
            {
                decoded = decoded.saturating_add(table.decoded_size_of(last + 1)?);
                if decoded > MAX_BLOCK_BYTES {
                    break;
                }
                last += 1;
            }
            let stored_bytes = table.file.range_of(last)?.end - start;
            let rows = table.file.records_of(last).end - table.file.records_of(first).start;
            let decoded_bytes = table.share_of(rows, stored_bytes);
            table.blocks.push(Block { rows, decoded_bytes, stored_bytes });
            table.chunks.push(first..last + 1);
            first = last + 1;
        }
        Ok(table)
    }

    #[must_use]
    pub fn file(&self) -> &ArrayRecordFile {
        &self.file
    }

    /// Decoded size of a chunk, as stated by the index or estimated from the file's total.
    fn decoded_size_of(&self, chunk: usize) -> Result<u64, Error> {
        let range = self.file.range_of(chunk)?;
        Ok(self
            .file
            .length_of_single(chunk)
            .map_or_else(|| self.share_of(0, range.end - range.start), |length| length as u64))
    }

    /// Estimated size in memory of `rows` rows that take `stored_bytes` in the file.
    fn share_of(&self, rows: u64, stored_bytes: u64) -> u64 {
        let share = u128::from(self.file.decoded_size()) * u128::from(stored_bytes)
            / u128::from(self.file.size().max(1));
        u64::try_from(share).unwrap_or(u64::MAX).saturating_add(rows.saturating_mul(4))
    }

    fn read_block(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, Error> {
        let no_such = |index| Error::NoSuchPart { path: self.file.path().to_owned(), index };
        let chunks = self.chunks.get(block).cloned().ok_or_else(|| no_such(block))?;
        let rows = self.blocks.get(block).map_or(0, |block| block.rows);
        let expected = selection
            .map_or(usize::try_from(rows).unwrap_or(usize::MAX), BooleanBuffer::count_set_bits);
        if let Some(column) = columns.iter().find(|column| **column != 0) {
            return Err(no_such(*column));
        }
        let mut taken = Taken { selection, ..Taken::default() };
        if !columns.is_empty() && expected > 0 {
            let first_row = self.file.records_of(chunks.start).start;
            let row_of = |chunk: usize| {
                usize::try_from(self.file.records_of(chunk).start - first_row).unwrap_or(usize::MAX)
            };
            let holds_wanted = |chunk: &usize| {
                let rows = row_of(*chunk)..row_of(*chunk + 1);
                selection.is_none_or(|selection| {
                    rows.end > rows.start
                        && selection.slice(rows.start, rows.end - rows.start).count_set_bits() > 0
                })
            };
            let wanted: Vec<usize> = chunks.filter(holds_wanted).collect();
            let mut scratch = Scratch::default();
            for run in self.file.runs(&wanted, READ_BYTES)? {
                let run = wanted.get(run).unwrap_or_default();
                self.file.read_chunks(run, &mut scratch, |chunk, records| {
                    taken.add(row_of(chunk), records);
                })?;
            }
        }
        let arrow = |source| Error::Arrow { path: self.file.path().to_owned(), source };
        let schema = Arc::new(self.schema.project(columns).map_err(arrow)?);
        let array = taken.finish().map_err(arrow)?;
        let arrays = columns.iter().map(|_record| Arc::clone(&array)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(expected));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(arrow)
    }
}

/// The selected records of a block.
#[derive(Default)]
struct Taken<'a> {
    selection: Option<&'a BooleanBuffer>,
    values: Vec<u8>,
    ends: Vec<usize>,
}

impl Taken<'_> {
    /// Adds the records of a chunk that starts with row `first` of the block.
    fn add(&mut self, first: usize, records: Records<'_>) {
        let Some(selection) = self.selection else {
            let before = self.values.len();
            self.values.extend_from_slice(records.values());
            self.ends.extend(records.ends().iter().map(|end| before + end));
            return;
        };
        for position in selection.slice(first, records.len()).set_indices() {
            self.values.extend_from_slice(records.get(position).unwrap_or_default());
            self.ends.push(self.values.len());
        }
    }

    fn finish(self) -> Result<ArrayRef, arrow_schema::ArrowError> {
        let too_long = |_above| arrow_schema::ArrowError::OffsetOverflowError(self.values.len());
        let offsets = std::iter::once(Ok(0))
            .chain(self.ends.iter().map(|end| i32::try_from(*end)))
            .collect::<Result<Vec<i32>, _>>()
            .map_err(too_long)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(self.values), None)?))
    }
}

impl TableFile for ArrayRecordTable {
    fn path(&self) -> &str {
        self.file.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, TableError> {
        Ok(self.read_block(block, columns, selection)?)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        if columns.is_empty() {
            0
        } else {
            self.blocks.get(block).map_or(0, |block| block.decoded_bytes)
        }
    }

    fn digest(&self) -> u128 {
        self.file.digest()
    }
}
