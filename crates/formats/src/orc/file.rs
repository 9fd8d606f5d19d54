//! One ORC file as blocks of rows; a block is a stripe.

use super::statistics::statistics;
use super::stripe::{Failure, StripeReader, read_stripe};
use super::tail::{Stripe, Tail, read_tail};
use super::{DecodeError, Error};
use crate::caught::{Panicked, caught};
use crate::limit::{DecodeLimit, TooLarge};
use crate::table::{Block, MAX_BLOCK_BYTES, Statistics, TableError, TableFile};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use orc_rust::array_decoder::array_decoder_factory;
use orc_rust::projection::ProjectionMask;
use orc_rust::reader::metadata::{FileMetadata, read_metadata};
use orc_rust::schema::{DataType as OrcType, NamedColumn};
use orc_rust::stripe::Stripe as OrcStripe;
use shardmill_storage::RangeRead;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Rows that are decoded or left out together when only some are wanted.
const SELECTED_ROWS: usize = 4096;

/// What is assumed of a text, a list and the like in memory.
const VARIABLE_BYTES: u64 = 32;

/// An open file: its tail, no rows yet.
pub struct OrcFile {
    object: Arc<dyn RangeRead>,
    limit: DecodeLimit,
    tail: Tail,
    metadata: FileMetadata,
    schema: SchemaRef,
    blocks: Vec<Block>,
}

impl fmt::Debug for OrcFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OrcFile").field("path", &self.object.path()).field("blocks", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl OrcFile {
    /// Reads the tail of `object`. A stripe is one block, whatever its size: its streams can be read from the start only.
    ///
    /// # Errors
    /// When the file cannot be read, or its tail is damaged.
    pub fn open(object: Arc<dyn RangeRead>) -> Result<Self, Error> {
        Self::open_limited(object, DecodeLimit::default())
    }

    /// With another limit than the default one.
    ///
    /// # Errors
    /// As [`OrcFile::open`].
    pub fn open_limited(object: Arc<dyn RangeRead>, limit: DecodeLimit) -> Result<Self, Error> {
        let tail = read_tail(object.as_ref())?;
        let footer_error = |reason: String| Error::Footer { path: object.path().to_owned(), reason };
        let mut plain = tail.plain.clone();
        let read = caught(|| {
            let metadata = read_metadata(&mut plain)?;
            let schema = metadata.root_data_type().create_arrow_schema(&HashMap::new());
            Ok::<_, orc_rust::error::OrcError>((metadata, schema))
        });
        let read = read.map_err(|Panicked| footer_error("inconsistent metadata".to_owned()))?;
        let (metadata, schema) = read.map_err(|error| footer_error(error.to_string()))?;
        let user = metadata.user_custom_metadata().iter().map(|(key, value)| (key.clone(), String::from_utf8_lossy(value).into_owned()));
        let schema = Arc::new(Schema::new_with_metadata(schema.fields().clone(), user.collect()));
        let mut file = Self { object, limit, tail, metadata, schema, blocks: Vec::new() };
        let all: Vec<usize> = (0..file.schema.fields().len()).collect();
        let block = |stripe: &Stripe| Block {
            rows: stripe.rows,
            decoded_bytes: file.decoded(stripe, &all),
            stored_bytes: stripe.index_len + stripe.data_len + stripe.footer_len,
        };
        file.blocks = file.tail.stripes.iter().map(block).collect();
        Ok(file)
    }

    fn row_bytes(&self, column: usize) -> u64 {
        let width = self.schema.fields().get(column).map(|field| match field.data_type() {
            DataType::Boolean => 1,
            other => other.primitive_width().map_or(VARIABLE_BYTES, |width| width as u64),
        });
        width.unwrap_or_default()
    }

    /// Never less than the column's share of the stored bytes, which for long texts says more than the number of rows.
    fn decoded(&self, stripe: &Stripe, columns: &[usize]) -> u64 {
        let share = stripe.data_len / (self.schema.fields().len().max(1) as u64);
        let column_bytes = |column: &usize| {
            let by_rows = stripe.rows.saturating_mul(self.row_bytes(*column));
            let is_fixed = self.schema.fields().get(*column).is_some_and(|field| field.data_type().is_primitive());
            if is_fixed { by_rows } else { by_rows.max(share) }
        };
        columns.iter().map(column_bytes).fold(0, u64::saturating_add)
    }

    fn read_block(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, Error> {
        let path = || self.object.path().to_owned();
        let stripe = self.tail.stripes.get(block).ok_or_else(|| Error::NoSuchStripe { path: path(), index: block })?;
        if let Some(index) = columns.iter().find(|index| **index >= self.schema.fields().len()) {
            return Err(Error::NoSuchColumn { path: path(), index: *index });
        }
        let rows = usize::try_from(stripe.rows).unwrap_or(usize::MAX);
        let expected = selection.map_or(rows, BooleanBuffer::count_set_bits);
        let decoded = if columns.is_empty() || expected == 0 { HashMap::new() } else { self.decode(block, stripe, columns, selection)? };
        let arrow = |source| Error::Arrow { path: path(), stripe: block, source };
        let schema = Arc::new(self.schema.project(columns).map_err(arrow)?);
        let empty = |column: &usize| self.schema.fields().get(*column).map(|field| arrow_array::new_empty_array(field.data_type()));
        let arrays = columns.iter().filter_map(|column| decoded.get(column).map(Arc::clone).or_else(|| empty(column))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(expected));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(arrow)
    }

    /// Each column that is asked for, once.
    fn decode(&self, block: usize, stripe: &Stripe, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<HashMap<usize, ArrayRef>, Error> {
        let path = || self.object.path().to_owned();
        let root = self.metadata.root_data_type();
        let distinct: HashSet<usize> = columns.iter().copied().collect();
        let types = |column: &usize| root.children().get(*column).map(NamedColumn::data_type);
        let wanted: HashSet<usize> = distinct.iter().filter_map(types).flat_map(OrcType::all_indices).collect();
        let too_large = |what, stated| TooLarge { path: path(), place: format!("stripe {block}"), what, stated, limit: self.limit.bytes() };
        // Run lengths make rows as cheap as compression makes bytes.
        let all: Vec<usize> = distinct.iter().copied().collect();
        let stated = stripe.rows.saturating_mul(all.iter().map(|column| self.row_bytes(*column)).sum());
        if stated > self.limit.of_stored(stripe.data_len) {
            return Err(too_large("its rows take", stated).into());
        }
        let reader = read_stripe(self.object.as_ref(), &self.tail, stripe, &wanted, self.limit).map_err(|failure| match failure {
            Failure::Storage(error) => Error::Storage(error),
            Failure::TooLarge { what, bytes } => too_large(what, bytes).into(),
            Failure::Damage(reason) => Error::Stripe { path: path(), stripe: block, reason },
        })?;
        // The decoder has many paths that panic on damaged streams.
        let decoded = caught(|| self.decode_columns(reader, block, &distinct, selection));
        decoded.unwrap_or_else(|Panicked| Err(Error::Decoder { path: path(), stripe: block }))
    }

    fn decode_columns(
        &self,
        mut reader: StripeReader,
        block: usize,
        columns: &HashSet<usize>,
        selection: Option<&BooleanBuffer>,
    ) -> Result<HashMap<usize, ArrayRef>, Error> {
        let root = self.metadata.root_data_type();
        let failed = |column: String| move |source: DecodeError| Error::Column { path: self.object.path().to_owned(), stripe: block, column, source };
        let types = columns.iter().filter_map(|column| root.children().get(*column).map(|child| child.data_type().column_index()));
        let projected = root.project(&ProjectionMask::roots(root, types));
        let info = self.metadata.stripe_metadatas().get(block);
        let info = info.ok_or_else(|| Error::NoSuchStripe { path: self.object.path().to_owned(), index: block })?;
        let stripe = OrcStripe::new(&mut reader, &self.metadata, &projected, info).map_err(DecodeError::from).map_err(failed(String::new()))?;
        let by_type: HashMap<usize, usize> =
            root.children().iter().enumerate().map(|(place, child)| (child.data_type().column_index(), place)).collect();
        let mut decoded = HashMap::with_capacity(columns.len());
        for column in stripe.columns() {
            let Some(place) = by_type.get(&column.data_type().column_index()) else { continue };
            let Some(field) = self.schema.fields().get(*place) else { continue };
            let rows = self.row_bytes(*place).max(1);
            let decoder =
                array_decoder_factory(column, field.data_type(), &stripe).map_err(DecodeError::from).map_err(failed(field.name().clone()))?;
            let mut cursor = Cursor { decoder, data_type: field.data_type(), rows: stripe.number_of_rows() };
            let batch_rows = usize::try_from(MAX_BLOCK_BYTES / rows).unwrap_or(SELECTED_ROWS);
            decoded.insert(*place, cursor.read(selection, batch_rows).map_err(failed(field.name().clone()))?);
        }
        Ok(decoded)
    }
}

/// One column of a stripe.
struct Cursor<'a> {
    decoder: Box<dyn orc_rust::array_decoder::ArrayBatchDecoder>,
    data_type: &'a DataType,
    rows: usize,
}

impl Cursor<'_> {
    fn read(&mut self, selection: Option<&BooleanBuffer>, batch_rows: usize) -> Result<ArrayRef, DecodeError> {
        let step = if selection.is_some() { SELECTED_ROWS } else { batch_rows };
        // Nothing behind the last wanted row is decoded.
        let end = selection.map_or(self.rows, |selection| selection.set_indices().last().map_or(0, |last| last + 1).min(self.rows));
        let mut parts: Vec<ArrayRef> = Vec::new();
        for start in (0..end).step_by(step) {
            let len = step.min(end - start);
            parts.extend(match selection {
                None => Some(self.decoder.next_batch(len, None)?),
                Some(selection) => self.selected(&selection.slice(start, len))?,
            });
        }
        match parts.as_slice() {
            [] => Ok(arrow_array::new_empty_array(self.data_type)),
            [one] => Ok(Arc::clone(one)),
            parts => Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
        }
    }

    fn selected(&mut self, selection: &BooleanBuffer) -> Result<Option<ArrayRef>, DecodeError> {
        if selection.count_set_bits() == 0 && !self.data_type.is_nested() {
            self.decoder.skip_values(selection.len(), None)?;
            return Ok(None);
        }
        let array = self.decoder.next_batch(selection.len(), None)?;
        let kept = filter(&array, &BooleanArray::new(selection.clone(), None))?;
        Ok((!kept.is_empty()).then_some(kept))
    }
}

impl TableFile for OrcFile {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, TableError> {
        Ok(self.read_block(block, columns, selection)?)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.tail.stripes.get(block).map_or(0, |stripe| self.decoded(stripe, columns))
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        let child = self.metadata.root_data_type().children().get(column)?;
        let number = child.data_type().column_index();
        let rows: Vec<u64> = self.blocks.iter().map(|block| block.rows).collect();
        statistics(&self.tail.statistics, number, self.tail.types.get(number)?, self.schema.fields().get(column)?.data_type(), &rows)
    }

    fn digest(&self) -> u128 {
        self.tail.digest
    }
}
