//! Row groups that are split into blocks, and limits.

use super::ParquetTable;
use crate::limit::DecodeLimit;
use crate::parquet::{Error, ParquetCompression, ParquetFile, ParquetWriter, ParquetWriterOptions};
use crate::records::memory::memory;
use crate::table::{TableError, TableFile};
use arrow_array::{ArrayRef, BooleanArray, Int32Array, ListArray, RecordBatch, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat_batches;
use shardmill_storage::{Error as StorageError, Identity, RangeRead};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Too many for one block.
const MANY_ROWS: usize = (1 << 20) + 2;

/// A file of one column with a row group for each array.
fn written(groups: &[ArrayRef], compression: ParquetCompression) -> Vec<u8> {
    let batch = |array: &ArrayRef| {
        RecordBatch::try_from_iter_with_nullable([("x", Arc::clone(array), true)]).unwrap()
    };
    let options = ParquetWriterOptions { compression, ..ParquetWriterOptions::default() };
    let mut writer =
        ParquetWriter::new("a.parquet", Vec::new(), batch(&groups[0]).schema(), &options).unwrap();
    groups.iter().for_each(|array| writer.write_row_group(&batch(array)).unwrap());
    writer.finish().unwrap()
}

#[test]
fn run_that_begins_or_ends_inside_of_a_row_group_has_the_rows_of_its_blocks() {
    let flags = |rows: usize| -> ArrayRef {
        Arc::new((0..rows).map(|row| Some(row % 3 == 0)).collect::<BooleanArray>())
    };
    let bytes = written(&[flags(10), flags(MANY_ROWS), flags(20)], ParquetCompression::None);
    let table = ParquetTable::open(memory("a.parquet", bytes)).unwrap();
    assert_eq!(
        table.blocks().iter().map(|block| block.rows).collect::<Vec<_>>(),
        [10, 524_289, 524_289, 20]
    );
    for run in [0..2, 2..4, 1..3, 0..4] {
        let blocks: Vec<RecordBatch> =
            run.clone().map(|block| table.read(block, &[0], None).unwrap()).collect();
        let expected = concat_batches(&blocks[0].schema(), &blocks).unwrap();
        assert!(table.read_run(run.clone(), &[0]).unwrap() == expected, "{run:?}");
    }
}

#[test]
fn block_of_lists_may_follow_more_values_than_the_limit_allows_together() {
    let values =
        Int32Array::from_iter_values((0..i32::try_from(MANY_ROWS).unwrap()).map(|row| row % 100));
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, MANY_ROWS));
    let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(values), None));
    let bytes = written(&[lists], ParquetCompression::None);
    let table =
        ParquetTable::open_limited(memory("a.parquet", bytes), DecodeLimit::new(2 << 20)).unwrap();
    for block in 0..2 {
        assert_eq!(table.read(block, &[0], None).unwrap().num_rows(), MANY_ROWS / 2);
    }
}

#[test]
fn search_for_a_damaged_page_keeps_the_limit() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100_000)]));
    let file =
        ParquetFile::open(memory("a.parquet", written(&[text], ParquetCompression::Zstd))).unwrap();
    assert!(file.page_damage(0, 0).unwrap().is_none());
    let found = file.with_limit(DecodeLimit::new(50_000)).page_damage(0, 0);
    assert!(matches!(&found, Ok(Some(Error::TooLarge(_)))), "{found:?}");
}

/// A file in a store that ceases to respond.
#[derive(Debug)]
struct Distant {
    object: Arc<dyn RangeRead>,
    is_gone: AtomicBool,
}

impl RangeRead for Distant {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn identity(&self) -> Identity {
        self.object.identity()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StorageError> {
        if self.is_gone.load(Ordering::Relaxed) {
            let path = self.path().to_owned();
            return Err(StorageError::Read {
                path,
                offset,
                len: buffer.len(),
                source: io::ErrorKind::TimedOut.into(),
            });
        }
        self.object.read_at(offset, buffer)
    }
}

#[test]
fn outage_between_two_batches_is_an_error_of_the_store() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let object =
        memory("a.parquet", written(&[Arc::clone(&numbers), numbers], ParquetCompression::None));
    let distant = Arc::new(Distant { object, is_gone: AtomicBool::new(false) });
    let file = ParquetFile::open(Arc::clone(&distant) as Arc<dyn RangeRead>).unwrap();
    let mut batches = file.batches(&["x"], None, 1 << 20).unwrap();
    assert!(batches.next().unwrap().is_ok());
    distant.is_gone.store(true, Ordering::Relaxed);
    let error = TableError::from(batches.next().unwrap().unwrap_err());
    assert!(matches!(&error, TableError::Storage(error) if error.is_outage()), "{error:?}");
}
