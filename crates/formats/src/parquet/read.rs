//! Reads a Parquet file in batches of bounded size.

use super::exact::ColumnMisfit;
use super::gauge::unsigned;
use super::gauge::{Gauge, value_width};
use super::object_reader::{ObjectReader, unsupported_field};
use super::shape::{Schemas, Shape};
use super::stored_schema::{corrected_schema, unknown_type};
use super::thrift::{Verdict, judge_footer};
use super::{Error, exact, footer};
use crate::caught::caught;
use crate::limit::{DecodeLimit, TooLarge};
use crate::table::NestedColumn;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Small enough that the rows of a batch stay in a cache, large enough to amortize its cost.
const MAX_BATCH_ROWS: u64 = 4096;

/// Limit for rows of fixed width in a batch, regardless of the footer.
const MAX_FIXED_BYTES: u64 = 64 << 20;

/// An open file: its footer has been read, but no rows.
#[derive(Debug, Clone)]
pub struct ParquetFile {
    pub(super) object: Arc<dyn RangeRead>,
    pub(super) footer: Arc<ParquetMetaData>,
    /// What the decoder of pages is told.
    pub(super) page_footer: Arc<ParquetMetaData>,
    pub(super) shape: Arc<Shape>,
    /// Whether columns may be encrypted.
    pub(super) is_encrypted: bool,
    pub(super) limit: DecodeLimit,
    /// Filled when a nested column is first asked for.
    nested: OnceLock<Arc<[NestedColumn]>>,
    /// Created by the first read of rows.
    decoding: OnceLock<ArrowReaderMetadata>,
}

impl ParquetFile {
    /// Reads the footer.
    ///
    /// # Errors
    /// [`Error::Footer`].
    pub fn open(object: Arc<dyn RangeRead>) -> Result<Self, Error> {
        let footer = |source| footer_error(object.path(), source);
        let reader = ObjectReader::with_footer(Arc::clone(&object), DecodeLimit::default())
            .map_err(footer)?;
        let (bytes, is_encrypted) = reader.footer().map_err(footer)?;
        Self::of_footer(object, &bytes, is_encrypted)
    }

    /// Sets a limit other than the default.
    #[must_use]
    pub fn with_limit(self, limit: DecodeLimit) -> Self {
        Self { limit, ..self }
    }

    /// `bytes` is the footer.
    pub(super) fn of_footer(
        object: Arc<dyn RangeRead>,
        bytes: &[u8],
        is_encrypted: bool,
    ) -> Result<Self, Error> {
        let path = || object.path().to_owned();
        if is_encrypted {
            return Err(Error::Encrypted { path: path() });
        }
        let damaged = |source| Error::DamagedFooter { path: path(), source };
        // Rejects a footer that would keep the decoder busy for hours.
        // Other damage is left to the decoder.
        let (verdict, parts) = judge_footer(bytes);
        if verdict == Verdict::UnsupportedField {
            return Err(damaged(unsupported_field()));
        }
        let failed = |source| match parts {
            // The description of an encrypted column may be missing.
            Some(parts) if parts.has_encryption => Error::Encrypted { path: path() },
            _ => damaged(source),
        };
        let decode = |descriptor| {
            unpanicked("inconsistent metadata", || footer::decode(bytes, parts, descriptor))
                .map(Arc::new)
                .map_err(failed)
        };
        let for_pages = |footer| footer::for_pages(footer).map_err(damaged);
        let (footer, page_footer, shape, decoding) = if let Some(shape) =
            parts.and_then(Shape::known)
        {
            let footer = decode(Some(Arc::clone(&shape.descriptor)))?;
            let page_footer = for_pages(&footer)?;
            (footer, page_footer, shape, OnceLock::new())
        } else {
            let mut footer = decode(None)?;
            let original = footer.file_metadata().schema_descr_ptr();
            if let Some(descriptor) =
                unpanicked("inconsistent schema", || exact::as_bytes(&original)).map_err(damaged)?
            {
                footer = decode(Some(Arc::new(descriptor)))?;
            }
            let page_footer = for_pages(&footer)?;
            let typed = unpanicked("the decoder does not know its types", || {
                typed(&original, &page_footer)
            });
            let (declared, decoding) = typed.map_err(|source| match unknown_type(&footer) {
                Some((column, data_type)) => Error::UnknownType { path: path(), column, data_type },
                None => Error::Schema { path: path(), source },
            })?;
            let descriptor = footer.file_metadata().schema_descr_ptr();
            let shape = Shape::new(
                parts,
                Schemas { descriptor, declared, decoded: Arc::clone(decoding.schema()) },
            );
            (footer, page_footer, shape, OnceLock::from(decoding))
        };
        let is_encrypted = parts.is_some_and(|parts| parts.has_encryption);
        Ok(Self {
            object,
            footer,
            page_footer,
            shape,
            is_encrypted,
            limit: DecodeLimit::default(),
            nested: OnceLock::new(),
            decoding,
        })
    }

    /// How rows are decoded with other types than the declared ones.
    pub(super) fn decoding_with(
        &self,
        options: ArrowReaderOptions,
    ) -> Result<ArrowReaderMetadata, ParquetError> {
        unpanicked("inconsistent schema", || {
            ArrowReaderMetadata::try_new(Arc::clone(&self.page_footer), options)
        })
    }

    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.shape.declared
    }

    /// The schema that the decoder is asked for.
    pub(super) fn decoded_schema(&self) -> &SchemaRef {
        &self.shape.decoded
    }

    /// The decoded columns of `batch` with the types of `fields`.
    pub(super) fn delivered<'a>(
        &self,
        batch: RecordBatch,
        fields: impl Iterator<Item = &'a FieldRef>,
    ) -> Result<RecordBatch, ParquetError> {
        if Arc::ptr_eq(&self.shape.declared, &self.shape.decoded) {
            return Ok(batch);
        }
        let columns = batch
            .columns()
            .iter()
            .zip(fields)
            .map(|(column, field)| exact::delivered(column, field));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let own = batch.schema();
        let fields =
            own.fields().iter().zip(&columns).map(|(field, column)| {
                Field::clone(field).with_data_type(column.data_type().clone())
            });
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), own.metadata().clone());
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
    }

    /// Fields inside of the structs of the schema.
    #[must_use]
    pub fn nested(&self) -> &[NestedColumn] {
        self.nested.get_or_init(|| NestedColumn::all(self.schema()).into())
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        u64::try_from(self.footer.file_metadata().num_rows()).unwrap_or_default()
    }

    #[must_use]
    pub fn num_row_groups(&self) -> usize {
        self.footer.num_row_groups()
    }

    /// Rows in file order, in batches of about `batch_bytes`. `columns` selects by name; missing
    /// names are ignored. The column `view` is delivered as a view into the decoded pages, without
    /// copying its values.
    ///
    /// # Errors
    /// [`Error::Footer`] when the metadata is inconsistent.
    pub fn batches(
        &self,
        columns: &[&str],
        view: Option<&str>,
        batch_bytes: u64,
    ) -> Result<ParquetBatches, Error> {
        let footer = |source| Error::Footer { path: self.object.path().to_owned(), source };
        let metadata = match view {
            Some(name) => self.decoding_with(
                ArrowReaderOptions::new().with_schema(with_view(self.decoded_schema(), name)),
            ),
            None => kept(&self.decoding, || {
                self.decoding_with(
                    ArrowReaderOptions::new().with_schema(Arc::clone(self.decoded_schema())),
                )
            })
            .cloned(),
        }
        .map_err(footer)?;
        let wanted = self
            .schema()
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, field)| columns.contains(&field.name().as_str()));
        let mask = ProjectionMask::roots(metadata.parquet_schema(), wanted.map(|(index, _)| index));
        Ok(ParquetBatches {
            file: self.clone(),
            gauge: None,
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
        let bytes = self
            .footer
            .row_groups()
            .iter()
            .map(|group| unsigned(group.total_byte_size()))
            .fold(0, u64::saturating_add);
        let row_bytes = bytes / self.num_rows().max(1);
        let leaves =
            self.footer.row_groups().first().map(RowGroupMetaData::columns).unwrap_or_default();
        let fixed = leaves.iter().map(value_width).fold(1, u64::saturating_add);
        let rows =
            (batch_bytes / row_bytes.max(1)).min(MAX_FIXED_BYTES / fixed).clamp(1, MAX_BATCH_ROWS);
        usize::try_from(rows).unwrap_or(1)
    }
}

/// The delivered schema, and how the decoder is asked for it.
/// `original` is the schema of the footer.
fn typed(
    original: &SchemaDescriptor,
    footer: &Arc<ParquetMetaData>,
) -> Result<(SchemaRef, ArrowReaderMetadata), ParquetError> {
    let loaded = ArrowReaderMetadata::try_new(Arc::clone(footer), ArrowReaderOptions::new())?;
    let corrected = corrected_schema(loaded.schema(), footer);
    let corrected = corrected.map(|schema| {
        ArrowReaderMetadata::try_new(
            Arc::clone(footer),
            ArrowReaderOptions::new().with_schema(schema),
        )
    });
    let decoding = corrected.and_then(Result::ok).unwrap_or(loaded);
    let declared = if footer.file_metadata().schema_descr() == original {
        Arc::clone(decoding.schema())
    } else {
        Arc::new(exact::declared(
            original,
            footer.file_metadata().key_value_metadata(),
            decoding.schema(),
        )?)
    };
    Ok((declared, decoding))
}

pub(super) fn footer_error(path: &str, source: ParquetError) -> Error {
    refusal_of(source)
        .map_or_else(|source| Error::Footer { path: path.to_owned(), source }, Error::TooLarge)
}

/// What `cell` holds; created by the first call that succeeds.
pub(super) fn kept<T>(
    cell: &OnceLock<T>,
    create: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<&T, ParquetError> {
    match cell.get() {
        Some(known) => Ok(known),
        None => create().map(|created| cell.get_or_init(|| created)),
    }
}

/// The decoder has paths that panic on damaged metadata.
pub(super) fn unpanicked<T>(
    what: &str,
    call: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    caught(call).unwrap_or_else(|_panic| Err(ParquetError::General(what.to_owned())))
}

fn with_view(schema: &Schema, name: &str) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let is_binary = matches!(field.data_type(), DataType::Binary | DataType::LargeBinary);
        if field.name() == name && is_binary {
            Arc::new(Field::clone(field).with_data_type(DataType::BinaryView))
        } else {
            Arc::clone(field)
        }
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Batches of one file, in row order. A batch never spans two row groups, so that damage in one
/// does not affect rows of the preceding one.
pub struct ParquetBatches {
    file: ParquetFile,
    gauge: Option<Arc<Gauge>>,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    batch_rows: usize,
    row_groups: Range<usize>,
    reader: Option<ParquetRecordBatchReader>,
    row: u64,
    is_failed: bool,
}

impl ParquetBatches {
    fn columns(&self) -> impl Iterator<Item = &FieldRef> {
        let is_read =
            |column: usize| self.file.leaves_of(column).any(|leaf| self.mask.leaf_included(leaf));
        self.file
            .schema()
            .fields()
            .iter()
            .enumerate()
            .filter(move |(column, _)| is_read(*column))
            .map(|(_, field)| field)
    }

    fn next_batch(&mut self) -> Option<Result<RecordBatch, ParquetError>> {
        loop {
            self.gauge.iter().for_each(|gauge| gauge.begin_batch());
            match self.reader.as_mut().and_then(Iterator::next) {
                Some(Ok(batch)) => {
                    return Some(self.file.delivered(batch, self.columns()));
                }
                Some(Err(ArrowError::ParquetError(message))) => {
                    return Some(Err(ParquetError::General(message)));
                }
                Some(Err(error)) => return Some(Err(ParquetError::ArrowError(error.to_string()))),
                None => {
                    let row_group = self.row_groups.next()?;
                    match self.open(row_group) {
                        Ok((reader, gauge)) => {
                            (self.reader, self.gauge) = (Some(reader), Some(gauge));
                        }
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }

    fn open(
        &self,
        row_group: usize,
    ) -> Result<(ParquetRecordBatchReader, Arc<Gauge>), ParquetError> {
        let group = self.file.footer.row_groups().get(row_group);
        let leaves = group.into_iter().flat_map(|group| {
            group.columns().iter().enumerate().filter(|(leaf, _)| self.mask.leaf_included(*leaf))
        });
        let chunks = leaves.map(|(_, chunk)| (row_group, chunk));
        let gauge = Gauge::new(self.file.object.path(), self.file.limit, chunks)
            .map_err(|refusal| ParquetError::External(Box::new(refusal)))?;
        let gauge = Arc::new(gauge);
        let object = ObjectReader::new(Arc::clone(&self.file.object)).gauged(Arc::clone(&gauge));
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(object, self.metadata.clone());
        let builder = builder
            .with_projection(self.mask.clone())
            .with_row_groups(vec![row_group])
            .with_batch_size(self.batch_rows);
        Ok((builder.build()?, gauge))
    }
}

/// A rejection by the limit, or of a value, has an error of its own. `row` is the first row that
/// was read.
pub(super) fn rows_error(path: String, row: u64, source: ParquetError) -> Error {
    match refusal_of(source).map_err(misfit_of) {
        Ok(refusal) => Error::TooLarge(refusal),
        Err(Ok(ColumnMisfit { column, misfit })) => Error::Value {
            path,
            column,
            row: row + misfit.row,
            value: misfit.value,
            data_type: misfit.data_type,
        },
        Err(Err(source)) => Error::Rows { path, row, source },
    }
}

pub(super) fn misfit_of(source: ParquetError) -> Result<ColumnMisfit, ParquetError> {
    match source {
        ParquetError::External(inner) => {
            inner.downcast().map(|misfit| *misfit).map_err(ParquetError::External)
        }
        source => Err(source),
    }
}

fn refusal_of(source: ParquetError) -> Result<TooLarge, ParquetError> {
    match source {
        ParquetError::External(inner) => {
            inner.downcast().map(|refusal| *refusal).map_err(ParquetError::External)
        }
        source => Err(source),
    }
}

impl Iterator for ParquetBatches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_failed {
            return None;
        }
        // The decoder has paths that panic on damaged pages (such as arrow-rs#9872).
        let next = caught(|| self.next_batch());
        let (path, row) = (self.file.object.path().to_owned(), self.row);
        let result = match next {
            Ok(None) => return None,
            Ok(Some(Ok(batch))) => {
                self.row += batch.num_rows() as u64;
                return Some(Ok(batch));
            }
            Ok(Some(Err(source))) => match self.gauge.as_ref().and_then(|gauge| gauge.refused()) {
                Some(refusal) => refusal.into(),
                None => rows_error(path, row, source),
            },
            Err(_panic) => Error::Decoder { path, row },
        };
        self.is_failed = true;
        if matches!(result, Error::TooLarge(_) | Error::Value { .. }) {
            return Some(Err(result));
        }
        let row_group = self.row_groups.start.saturating_sub(1);
        Some(Err(match self.file.damaged_page_of(row_group, &self.mask) {
            Ok(found) => found.unwrap_or(result),
            // The decoder turns the failure of a read into text.
            Err(failure) => {
                let (path, row) = (self.file.object.path().to_owned(), self.row);
                Error::Rows { path, row, source: ParquetError::External(Box::new(failure)) }
            }
        }))
    }
}

#[cfg(test)]
mod tests;
