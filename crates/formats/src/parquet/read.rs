//! Reads one Parquet file in batches of bounded bytes.

use super::Error;
use super::object::ObjectReader;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Few enough that the rows of a batch stay in a cache, many enough to amortise its cost.
const MAX_BATCH_ROWS: u64 = 4096;

/// An open file: its footer, no rows yet.
#[derive(Debug)]
pub struct ParquetFile {
    pub(super) object: Arc<dyn RangeRead>,
    pub(super) metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    /// Reads the footer.
    ///
    /// # Errors
    /// [`Error::Footer`].
    pub fn open(object: Arc<dyn RangeRead>) -> Result<Self, Error> {
        let footer = |source| Error::Footer { path: object.path().to_owned(), source };
        let reader = ObjectReader::with_footer(Arc::clone(&object)).map_err(footer)?;
        Self::of_footer(object, &reader)
    }

    pub(super) fn of_footer(object: Arc<dyn RangeRead>, reader: &ObjectReader) -> Result<Self, Error> {
        let footer = |source| Error::Footer { path: object.path().to_owned(), source };
        reader.judge_footer().map_err(footer)?;
        let loaded = catch_unwind(AssertUnwindSafe(|| ArrowReaderMetadata::load(reader, ArrowReaderOptions::new())));
        let metadata = loaded.map_err(|_panic| footer(ParquetError::General("inconsistent metadata".to_owned())))?.map_err(footer)?;
        Ok(Self { object, metadata })
    }

    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or_default()
    }

    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Rows in file order, in batches of about `batch_bytes`. `columns` picks by name; a name that the file lacks is left out. The column `view` is
    /// delivered as a view over the decoded pages, without a copy of its values.
    ///
    /// # Errors
    /// [`Error::Footer`] when the metadata contradicts itself.
    pub fn batches(&self, columns: &[&str], view: Option<&str>, batch_bytes: u64) -> Result<ParquetBatches, Error> {
        let footer = |source| Error::Footer { path: self.object.path().to_owned(), source };
        let metadata = match view {
            Some(name) => {
                let options = ArrowReaderOptions::new().with_schema(with_view(self.schema(), name));
                ArrowReaderMetadata::try_new(Arc::clone(self.metadata.metadata()), options).map_err(footer)?
            }
            None => self.metadata.clone(),
        };
        let wanted = self.schema().fields().iter().enumerate().filter(|(_, field)| columns.contains(&field.name().as_str()));
        let mask = ProjectionMask::roots(metadata.parquet_schema(), wanted.map(|(index, _)| index));
        Ok(ParquetBatches {
            object: Arc::clone(&self.object),
            row_groups: 0..self.num_row_groups(),
            batch_rows: self.batch_rows(batch_bytes),
            metadata,
            mask,
            reader: None,
            row: 0,
            is_failed: false,
        })
    }

    fn batch_rows(&self, batch_bytes: u64) -> usize {
        let bytes: i64 = self.metadata.metadata().row_groups().iter().map(RowGroupMetaData::total_byte_size).sum();
        let row_bytes = u64::try_from(bytes).unwrap_or_default() / self.num_rows().max(1);
        let rows = (batch_bytes / row_bytes.max(1)).clamp(1, MAX_BATCH_ROWS);
        usize::try_from(rows).unwrap_or(1)
    }
}

fn with_view(schema: &Schema, name: &str) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let is_binary = matches!(field.data_type(), DataType::Binary | DataType::LargeBinary);
        if field.name() == name && is_binary { Arc::new(Field::clone(field).with_data_type(DataType::BinaryView)) } else { Arc::clone(field) }
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Batches of one file, in row order. None spans two row groups, so that damage in one does not take rows of the one before with it.
pub struct ParquetBatches {
    object: Arc<dyn RangeRead>,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    batch_rows: usize,
    row_groups: Range<usize>,
    reader: Option<ParquetRecordBatchReader>,
    row: u64,
    is_failed: bool,
}

impl ParquetBatches {
    fn next_batch(&mut self) -> Option<Result<RecordBatch, ParquetError>> {
        loop {
            match self.reader.as_mut().and_then(Iterator::next) {
                Some(Ok(batch)) => return Some(Ok(batch)),
                Some(Err(ArrowError::ParquetError(message))) => return Some(Err(ParquetError::General(message))),
                Some(Err(error)) => return Some(Err(ParquetError::ArrowError(error.to_string()))),
                None => {
                    let row_group = self.row_groups.next()?;
                    match self.open(row_group) {
                        Ok(reader) => self.reader = Some(reader),
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }

    fn open(&self, row_group: usize) -> Result<ParquetRecordBatchReader, ParquetError> {
        let object = ObjectReader::new(Arc::clone(&self.object));
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(object, self.metadata.clone());
        builder.with_projection(self.mask.clone()).with_row_groups(vec![row_group]).with_batch_size(self.batch_rows).build()
    }
}

impl Iterator for ParquetBatches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_failed {
            return None;
        }
        // The decoder still has paths that panic on damaged pages (arrow-rs#9872 and its like).
        let next = catch_unwind(AssertUnwindSafe(|| self.next_batch()));
        let (path, row) = (self.object.path().to_owned(), self.row);
        let result = match next {
            Ok(None) => return None,
            Ok(Some(Ok(batch))) => {
                self.row += batch.num_rows() as u64;
                return Some(Ok(batch));
            }
            Ok(Some(Err(source))) => Error::Rows { path, row, source },
            Err(_panic) => Error::Decoder { path, row },
        };
        self.is_failed = true;
        Some(Err(result))
    }
}
