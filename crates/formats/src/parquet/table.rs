//! A Parquet file as a file of rows: its row groups are blocks, large ones in parts.
//!
//! Strings and binaries are delivered as views over the decoded pages: no value is copied before it reaches its batch, and a column of more than 2 GiB has
//! no offset that could overflow (arrow-rs#7973).

use super::gauge::Gauge;
use super::layout::unsigned;
use super::object::ObjectReader;
use super::read::{footer_error, rows_error, unpanicked};
use super::{Error, ParquetFile};
use crate::caught::caught;
use crate::limit::DecodeLimit;
use crate::table::{Block, BlockPages, MAX_BLOCK_BYTES, Statistics, TableError, TableFile, read_one_by_one, scan_one_by_one};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use sha2::{Digest, Sha256};
use shardmill_storage::RangeRead;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, OnceLock};

/// A row group of more rows is cut, however few bytes it claims to have: decoders reserve room by rows.
const MAX_BLOCK_ROWS: u64 = 1 << 20;

/// So many rows of a scan are in memory at once.
const SCANNED_ROWS: usize = 1 << 14;

/// Of a file: 64 TiB in memory.
const MAX_BLOCKS: u64 = 1 << 20;

/// An open Parquet file whose rows are read by block.
#[derive(Debug)]
pub struct ParquetTable {
    file: ParquetFile,
    /// As `file`'s, with views instead of strings and binaries.
    schema: SchemaRef,
    /// For whoever reads rows.
    decoding: OnceLock<ArrowReaderMetadata>,
    blocks: Vec<Block>,
    places: Vec<Place>,
    digest: u128,
}

/// Where a block lies.
#[derive(Debug, Clone)]
struct Place {
    row_group: usize,
    /// Of the row group.
    rows: Range<u64>,
}

impl ParquetTable {
    /// Reads the footer.
    ///
    /// # Errors
    /// [`Error::Footer`].
    pub fn open(object: Arc<dyn RangeRead>) -> Result<Self, Error> {
        Self::open_limited(object, DecodeLimit::default())
    }

    /// With another limit than the default one.
    ///
    /// # Errors
    /// As [`ParquetTable::open`].
    #[expect(clippy::needless_pass_by_value, reason = "as the other formats")]
    pub fn open_limited(object: Arc<dyn RangeRead>, limit: DecodeLimit) -> Result<Self, Error> {
        let footer = |source| footer_error(object.path(), source);
        let reader = ObjectReader::with_footer(Arc::clone(&object), limit).map_err(footer)?;
        let bytes = reader.footer().map_err(footer)?;
        let digest = digest_of(&bytes);
        let file = ParquetFile::of_footer(Arc::clone(&object), &reader, &bytes)?.with_limit(limit);
        let known = file.shape.as_ref().and_then(|shape| shape.views.get());
        let too_many = || footer(ParquetError::General("the footer states more rows than a file can hold".to_owned()));
        let (blocks, places) = blocks_of(file.footer.row_groups()).ok_or_else(too_many)?;
        if let Some(schema) = known {
            return Ok(Self { schema: Arc::clone(schema), file, decoding: OnceLock::new(), blocks, places, digest });
        }
        let decoding = decoding_of(&file, with_views(file.schema())).map_err(footer)?;
        let schema = Arc::clone(decoding.schema());
        if let Some(shape) = &file.shape {
            let _already_known = shape.views.set(Arc::clone(&schema));
        }
        Ok(Self { file, schema, decoding: OnceLock::from(decoding), blocks, places, digest })
    }

    fn decoding(&self) -> Result<&ArrowReaderMetadata, ParquetError> {
        if let Some(known) = self.decoding.get() {
            return Ok(known);
        }
        let made = decoding_of(&self.file, Arc::clone(&self.schema))?;
        Ok(self.decoding.get_or_init(|| made))
    }

    /// Types as the file declares them: strings and binaries are no views here.
    #[must_use]
    pub fn file(&self) -> &ParquetFile {
        &self.file
    }

    fn row_group(&self, block: usize) -> Option<(&Place, &RowGroupMetaData)> {
        let place = self.places.get(block)?;
        Some((place, self.file.footer.row_groups().get(place.row_group)?))
    }

    fn decode(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, ParquetError> {
        let missing = || ParquetError::General(format!("there is no block {block}"));
        let (place, group) = self.row_group(block).ok_or_else(missing)?;
        let rows = selection.map_or(place.rows.end - place.rows.start, |selection| selection.count_set_bits() as u64);
        self.decode_groups(place.row_group..place.row_group + 1, columns, row_selection(place, group, selection)?, rows)
    }

    fn decode_groups(
        &self,
        groups: Range<usize>,
        columns: &[usize],
        selection: Option<RowSelection>,
        rows: u64,
    ) -> Result<RecordBatch, ParquetError> {
        let (builder, gauge) = self.reader_of(groups, columns)?;
        let mut builder = builder.with_batch_size(usize::try_from(rows)?.max(1));
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let batches = builder.build()?.collect::<Result<Vec<_>, _>>().map_err(|error| stopped(&gauge, error.into()))?;
        let batch = match batches.as_slice() {
            [batch] => batch.clone(),
            [] => RecordBatch::new_empty(self.projected(&sorted(columns))?),
            [first, ..] => concat_batches(&first.schema(), &batches)?,
        };
        if batch.num_rows() as u64 != rows {
            return Err(ParquetError::General(format!("{rows} rows were expected, the pages hold {}", batch.num_rows())));
        }
        in_order(&batch, columns)
    }

    /// All rows of the row group that the blocks of a run are parts of, in batches that stay in a cache.
    fn scan_group(&self, run: &Range<usize>, columns: &[usize], each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>) -> Result<(), ParquetError> {
        let group =
            self.places.get(run.start).map(|place| place.row_group).ok_or_else(|| ParquetError::General("there is no such block".to_owned()))?;
        let expected: u64 = self.blocks.get(run.clone()).unwrap_or_default().iter().map(|block| block.rows).sum();
        let mut rows = 0;
        // A block holds as many rows as fit into memory together.
        let most = self.blocks.get(run.clone()).unwrap_or_default().iter().map(|block| block.rows).max().unwrap_or(1);
        let (builder, gauge) = self.reader_of(group..group + 1, columns)?;
        for batch in builder.with_batch_size(usize::try_from(most)?.clamp(1, SCANNED_ROWS)).build()? {
            let batch = batch.map_err(|error| stopped(&gauge, error.into()))?;
            gauge.begin_batch();
            rows += batch.num_rows() as u64;
            if each(in_order(&batch, columns)?).is_break() {
                return Ok(());
            }
        }
        if rows == expected { Ok(()) } else { Err(ParquetError::General(format!("{expected} rows were expected, the pages hold {rows}"))) }
    }

    fn reader_of(
        &self,
        groups: Range<usize>,
        columns: &[usize],
    ) -> Result<(ParquetRecordBatchReaderBuilder<ObjectReader>, Arc<Gauge>), ParquetError> {
        let mask = ProjectionMask::roots(self.file.footer.file_metadata().schema_descr(), columns.iter().copied());
        let all = self.file.footer.row_groups().get(groups.clone()).unwrap_or_default();
        let leaves = all.iter().zip(groups.clone()).flat_map(|(group, number)| {
            let wanted = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
            wanted.map(move |(_, chunk)| (number, chunk))
        });
        let gauge = Gauge::new(self.path(), self.file.limit, leaves.clone()).map_err(|refusal| ParquetError::External(Box::new(refusal)))?;
        let gauge = Arc::new(gauge);
        let ranges = leaves.map(|(_, chunk)| chunk.byte_range()).map(|(start, len)| start..start.saturating_add(len)).collect();
        let object = ObjectReader::fetch(Arc::clone(&self.file.object), ranges)?.gauged(Arc::clone(&gauge));
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(object, self.decoding()?.clone());
        Ok((builder.with_projection(mask).with_row_groups(groups.collect()), gauge))
    }

    /// The row groups of consecutive blocks, when each of these is a whole one.
    fn whole_groups(&self, blocks: &Range<usize>) -> Option<Range<usize>> {
        let (first, last) = (self.row_group(blocks.start)?, self.row_group(blocks.end.checked_sub(1)?)?);
        let groups = first.0.row_group..last.0.row_group + 1;
        (groups.len() == blocks.len()).then_some(groups)
    }

    fn projected(&self, columns: &[usize]) -> Result<SchemaRef, ParquetError> {
        Ok(Arc::new(self.schema.project(columns)?))
    }
}

impl TableFile for ParquetTable {
    fn path(&self) -> &str {
        self.file.object.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn declared_schema(&self) -> &SchemaRef {
        self.file.schema()
    }

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, TableError> {
        if columns.is_empty() {
            let rows = selection.map_or_else(|| self.blocks.get(block).map_or(0, |block| block.rows), |selection| selection.count_set_bits() as u64);
            let options = RecordBatchOptions::new().with_row_count(Some(usize::try_from(rows).unwrap_or(usize::MAX)));
            let empty = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
            return self.guarded(block..block + 1, columns, || Ok(empty?));
        }
        self.guarded(block..block + 1, columns, || self.decode(block, columns, selection))
    }

    fn read_run(&self, blocks: Range<usize>, columns: &[usize]) -> Result<RecordBatch, TableError> {
        let rows: u64 = self.blocks.get(blocks.clone()).unwrap_or_default().iter().map(|block| block.rows).sum();
        let Some(groups) = self.whole_groups(&blocks).filter(|_| !columns.is_empty() && blocks.len() > 1) else {
            return read_one_by_one(self, blocks, columns);
        };
        self.guarded(blocks, columns, || self.decode_groups(groups, columns, None, rows))
    }

    fn runs(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let lens = self.places.chunk_by(|first, second| first.row_group == second.row_group).map(<[Place]>::len);
        let mut run = |len| {
            start += len;
            start - len..start
        };
        lens.map(&mut run).collect()
    }

    fn scan(&self, run: Range<usize>, columns: &[usize], each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>) -> Result<(), TableError> {
        if columns.is_empty() || !self.runs().contains(&run) {
            return scan_one_by_one(self, run, columns, each);
        }
        self.guarded(run.clone(), columns, || self.scan_group(&run, columns, each))
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        let Some((place, group)) = self.row_group(block) else { return 0 };
        let mask = ProjectionMask::roots(self.file.footer.file_metadata().schema_descr(), columns.iter().copied());
        let leaves = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let bytes = leaves.map(|(_, chunk)| decoded_bytes(chunk, unsigned(group.num_rows()))).fold(0, u64::saturating_add);
        share(bytes, place.rows.end - place.rows.start, unsigned(group.num_rows()))
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        let groups: Vec<usize> = (0..self.file.num_row_groups()).collect();
        let whole = self.file.column_statistics(&groups, column)?;
        let places: Vec<usize> = self.places.iter().map(|place| place.row_group).collect();
        whole.of_parts(&places, self.blocks.iter().map(|block| block.rows).collect())
    }

    fn page_statistics(&self, block: usize, column: usize) -> Result<Option<BlockPages>, TableError> {
        // A block that is a part of its row group would need a part of its pages.
        match self.row_group(block) {
            Some((place, group)) if place.rows == (0..unsigned(group.num_rows())) => Ok(self.file.pages(place.row_group, column)?),
            _ => Ok(None),
        }
    }

    fn may_contain(&self, block: usize, column: usize, values: &ArrayRef) -> Result<bool, TableError> {
        let Some((place, _)) = self.row_group(block) else { return Ok(true) };
        Ok(self.file.bloom_may_contain(place.row_group, column, values)?)
    }

    fn digest(&self) -> u128 {
        self.digest
    }
}

impl ParquetTable {
    fn first_row(&self, block: usize) -> u64 {
        self.blocks.iter().take(block).map(|block| block.rows).sum()
    }

    /// The decoder still has paths that panic on damaged pages (arrow-rs#9872 and its like).
    fn guarded<T>(&self, blocks: Range<usize>, columns: &[usize], decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TableError> {
        let (path, row) = (self.path().to_owned(), self.first_row(blocks.start));
        let error = match caught(decode) {
            Ok(Ok(decoded)) => return Ok(decoded),
            Ok(Err(ParquetError::External(inner))) => match inner.downcast::<shardmill_storage::Error>() {
                Ok(storage) => return Err(TableError::Storage(*storage)),
                Err(inner) => rows_error(path, row, ParquetError::External(inner)),
            },
            Ok(Err(source)) => rows_error(path, row, source),
            Err(_panic) => Error::Decoder { path, row },
        };
        if matches!(error, Error::TooLarge(_)) {
            return Err(error.into());
        }
        let mut groups: Vec<usize> = self.places.get(blocks).unwrap_or_default().iter().map(|place| place.row_group).collect();
        groups.dedup();
        Err(groups.into_iter().find_map(|group| self.file.damaged_page_of(group, columns)).unwrap_or(error).into())
    }
}

/// Where the limit stopped the decoder, that is the reason.
fn stopped(gauge: &Gauge, error: ParquetError) -> ParquetError {
    gauge.refused().map_or(error, |refusal| ParquetError::External(Box::new(refusal)))
}

fn decoding_of(file: &ParquetFile, schema: SchemaRef) -> Result<ArrowReaderMetadata, ParquetError> {
    let options = ArrowReaderOptions::new().with_schema(schema);
    unpanicked("inconsistent schema", || ArrowReaderMetadata::try_new(Arc::clone(&file.footer), options))
}

fn digest_of(footer: &[u8]) -> u128 {
    let hash = Sha256::digest(footer);
    hash.iter().take(16).fold(0, |digest, byte| digest << 8 | u128::from(*byte))
}

fn with_views(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let view = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            // A row group may hold more values than the keys that some writer found enough for one of its batches.
            DataType::Dictionary(_, value) => DataType::Dictionary(Box::new(DataType::Int32), value.clone()),
            _ => return Arc::clone(field),
        };
        Arc::new(Field::clone(field).with_data_type(view))
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// `None` when there would be too many.
fn blocks_of(groups: &[RowGroupMetaData]) -> Option<(Vec<Block>, Vec<Place>)> {
    let mut blocks = Vec::with_capacity(groups.len());
    let mut places = Vec::with_capacity(groups.len());
    for (row_group, group) in groups.iter().enumerate() {
        let rows = unsigned(group.num_rows());
        let decoded = group.columns().iter().map(|chunk| decoded_bytes(chunk, rows)).fold(0, u64::saturating_add);
        let stored = unsigned(group.compressed_size());
        let parts = decoded.div_ceil(MAX_BLOCK_BYTES).max(rows.div_ceil(MAX_BLOCK_ROWS)).clamp(1, rows.max(1));
        if parts > MAX_BLOCKS.saturating_sub(blocks.len() as u64).max(1) {
            return None;
        }
        for part in 0..parts {
            let start = proportional(rows, part, parts);
            let end = proportional(rows, part + 1, parts);
            let len = end - start;
            blocks.push(Block { rows: len, decoded_bytes: share(decoded, len, rows), stored_bytes: share(stored, len, rows) });
            places.push(Place { row_group, rows: start..end });
        }
    }
    Some((blocks, places))
}

/// The width of a value is known for most types, whatever encoding made it smaller; strings keep what they have when they are plain.
fn decoded_bytes(chunk: &parquet::file::metadata::ColumnChunkMetaData, rows: u64) -> u64 {
    use parquet::basic::Type;
    let values = unsigned(chunk.num_values()).max(rows);
    let width = match chunk.column_type() {
        Type::BOOLEAN => return values.div_ceil(8),
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(chunk.column_descr().type_length()).unwrap_or_default(),
        Type::BYTE_ARRAY => {
            let known = chunk.unencoded_byte_array_data_bytes().map(unsigned);
            return known.unwrap_or_else(|| unsigned(chunk.uncompressed_size())).saturating_add(values.saturating_mul(16));
        }
    };
    values.saturating_mul(width)
}

/// Positions of the block within its row group, or `None` for all of it.
fn row_selection(place: &Place, group: &RowGroupMetaData, selection: Option<&BooleanBuffer>) -> Result<Option<RowSelection>, ParquetError> {
    let total = usize::try_from(group.num_rows())?;
    let (start, end) = (usize::try_from(place.rows.start)?, usize::try_from(place.rows.end)?);
    Ok(match selection {
        None if end - start == total => None,
        None => Some(RowSelection::from_consecutive_ranges(std::iter::once(start..end), total)),
        Some(selection) => {
            let ranges = selection.set_slices().map(|(from, to)| start + from..start + to);
            Some(RowSelection::from_consecutive_ranges(ranges, total))
        }
    })
}

fn sorted(columns: &[usize]) -> Vec<usize> {
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// The decoder delivers columns in the order of the file.
fn in_order(batch: &RecordBatch, columns: &[usize]) -> Result<RecordBatch, ParquetError> {
    let sorted = sorted(columns);
    if sorted == columns {
        return Ok(batch.clone());
    }
    let places: Vec<usize> = columns.iter().filter_map(|column| sorted.binary_search(column).ok()).collect();
    Ok(batch.project(&places)?)
}

fn proportional(rows: u64, part: u64, parts: u64) -> u64 {
    u64::try_from(u128::from(rows) * u128::from(part) / u128::from(parts.max(1))).unwrap_or(rows)
}

fn share(bytes: u64, rows: u64, of: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(rows) / u128::from(of.max(1))).unwrap_or(u64::MAX)
}
