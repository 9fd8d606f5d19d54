//! An ORC file as blocks of rows; a block is a stripe.

use super::Error;
use super::cursor::{Cursor, Fault, Place, SELECTED_ROWS};
use super::present;
use super::statistics::statistics;
use super::stripe::{Failure, StripeReader, read_stripe};
use super::tail::{Stripe, Tail, read_tail};
use crate::caught::{Panicked, caught};
use crate::limit::{DecodeLimit, TooLarge};
use crate::table::exact::{Misfit, NANOSECONDS, children, with_children};
use crate::table::{
    Block, MAX_BLOCK_BYTES, NestedColumn, Statistics, TableError, TableFile, column_field, values,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use orc_rust::array_decoder::array_decoder_factory;
use orc_rust::projection::ProjectionMask;
use orc_rust::reader::metadata::{FileMetadata, read_metadata};
use orc_rust::schema::DataType as OrcType;
use orc_rust::stripe::Stripe as OrcStripe;
use shardmill_storage::RangeRead;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Assumed size in memory of a text, a list and the like.
const VARIABLE_BYTES: u64 = 32;

/// An open file: its tail, no rows yet.
pub struct OrcFile {
    object: Arc<dyn RangeRead>,
    limit: DecodeLimit,
    tail: Tail,
    metadata: FileMetadata,
    schema: SchemaRef,
    /// Filled when a nested column is first asked for.
    nested: OnceLock<Vec<NestedColumn>>,
    blocks: Vec<Block>,
}

impl fmt::Debug for OrcFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OrcFile")
            .field("path", &self.object.path())
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}

impl OrcFile {
    /// Reads the tail of `object`. A stripe is one block, regardless of its size, because its
    /// streams can only be read from the start.
    ///
    /// # Errors
    /// When the file cannot be read, or its tail is damaged.
    pub fn open(object: Arc<dyn RangeRead>) -> Result<Self, Error> {
        Self::open_limited(object, DecodeLimit::default())
    }

    /// As [`OrcFile::open`], with a limit other than the default.
    ///
    /// # Errors
    /// As [`OrcFile::open`].
    pub fn open_limited(object: Arc<dyn RangeRead>, limit: DecodeLimit) -> Result<Self, Error> {
        let tail = read_tail(object.as_ref())?;
        let footer_error =
            |reason: String| Error::DamagedFooter { path: object.path().to_owned(), reason };
        let mut plain = tail.plain.clone();
        let read = caught(|| {
            let metadata = read_metadata(&mut plain)?;
            let schema = metadata.root_data_type().create_arrow_schema(&HashMap::new());
            Ok::<_, orc_rust::error::OrcError>((metadata, schema))
        });
        let read = read.map_err(|Panicked| footer_error("inconsistent metadata".to_owned()))?;
        let (metadata, schema) = read.map_err(|error| footer_error(error.to_string()))?;
        let user = metadata
            .user_custom_metadata()
            .iter()
            .map(|(key, value)| (key.clone(), String::from_utf8_lossy(value).into_owned()));
        let schema = Arc::new(Schema::new_with_metadata(schema.fields().clone(), user.collect()));
        let mut file = Self {
            object,
            limit,
            tail,
            metadata,
            schema,
            nested: OnceLock::new(),
            blocks: Vec::new(),
        };
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
        let width = self.field(column).map(|field| match field.data_type() {
            DataType::Boolean => 1,
            other => other.primitive_width().map_or(VARIABLE_BYTES, |width| width as u64),
        });
        width.unwrap_or_default()
    }

    /// At least the column's share of the stored bytes, which is a better estimate than the number
    /// of rows for long texts.
    fn decoded(&self, stripe: &Stripe, columns: &[usize]) -> u64 {
        let share = stripe.data_len / (self.schema.fields().len().max(1) as u64);
        let column_bytes = |column: &usize| {
            let by_rows = stripe.rows.saturating_mul(self.row_bytes(*column));
            let is_fixed =
                self.field(*column).is_some_and(|field| field.data_type().is_primitive());
            if is_fixed { by_rows } else { by_rows.max(share) }
        };
        columns.iter().map(column_bytes).fold(0, u64::saturating_add)
    }

    fn read_block(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, Error> {
        let path = || self.object.path().to_owned();
        let stripe = self
            .tail
            .stripes
            .get(block)
            .ok_or_else(|| Error::NoSuchStripe { path: path(), index: block })?;
        if let Some(index) = columns.iter().find(|index| self.field(**index).is_none()) {
            return Err(Error::NoSuchColumn { path: path(), index: *index });
        }
        let rows = usize::try_from(stripe.rows).unwrap_or(usize::MAX);
        let expected = selection.map_or(rows, BooleanBuffer::count_set_bits);
        let decoded = if columns.is_empty() || expected == 0 {
            HashMap::new()
        } else {
            self.decode(block, stripe, columns, selection)?
        };
        let arrow = |source| Error::Arrow { path: path(), stripe: block, source };
        let fields =
            columns.iter().filter_map(|column| self.field(*column)).cloned().collect::<Vec<_>>();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let empty = |column: &usize| {
            self.field(*column).map(|field| arrow_array::new_empty_array(field.data_type()))
        };
        let arrays = columns
            .iter()
            .filter_map(|column| decoded.get(column).map(Arc::clone).or_else(|| empty(column)))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(expected));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(arrow)
    }

    /// Decodes each requested column once.
    fn decode(
        &self,
        block: usize,
        stripe: &Stripe,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<HashMap<usize, ArrayRef>, Error> {
        let path = || self.object.path().to_owned();
        let distinct: HashSet<usize> = columns.iter().copied().collect();
        let places: Vec<Place<'_>> =
            distinct.iter().filter_map(|column| self.place(*column)).collect();
        let wanted: HashSet<usize> = places
            .iter()
            .flat_map(|place| {
                place.node.all_indices().into_iter().chain(place.structs.iter().copied())
            })
            .collect();
        let too_large = |what, stated| TooLarge {
            path: path(),
            place: format!("stripe {block}"),
            what,
            stated,
            limit: self.limit.bytes(),
        };
        // Run lengths can encode any number of rows in a few bytes, just as compression can any
        // number of bytes.
        let all: Vec<usize> = distinct.iter().copied().collect();
        let stated =
            stripe.rows.saturating_mul(all.iter().map(|column| self.row_bytes(*column)).sum());
        if stated > self.limit.of_stored(stripe.data_len) {
            return Err(too_large("its rows take", stated).into());
        }
        let reader = read_stripe(self.object.as_ref(), &self.tail, stripe, &wanted, self.limit)
            .map_err(|failure| match failure {
                Failure::Storage(error) => Error::Storage(error),
                Failure::TooLarge { what, bytes } => too_large(what, bytes).into(),
                Failure::NegativeFraction(number) => Error::NegativeFraction {
                    path: path(),
                    stripe: block,
                    column: self.name_of(number, &places),
                },
                Failure::Decimal { column, row: Some(row), value } => {
                    let (name, row) = (self.name_of(column, &places), self.first_row(block) + row);
                    let (precision, scale) = self
                        .tail
                        .types
                        .get(column)
                        .and_then(|found| found.digits)
                        .unwrap_or_default();
                    let data_type = DataType::Decimal128(
                        u8::try_from(precision).unwrap_or_default(),
                        i8::try_from(scale).unwrap_or_default(),
                    );
                    Error::Value { path: path(), column: name, row, data_type, value }
                }
                Failure::Decimal { column, row: None, value } => {
                    let source =
                        ArrowError::CastError(format!("its type cannot hold the decimal {value}"))
                            .into();
                    Error::Column {
                        path: path(),
                        stripe: block,
                        column: self.name_of(column, &places),
                        source,
                    }
                }
                Failure::Damage(reason) => Error::Stripe { path: path(), stripe: block, reason },
            })?;
        // The decoder has many paths that panic on damaged streams.
        let decoded = caught(|| self.decode_columns(reader, block, &places, selection));
        decoded.unwrap_or_else(|Panicked| Err(Error::Decoder { path: path(), stripe: block }))
    }

    fn decode_columns(
        &self,
        mut reader: StripeReader,
        block: usize,
        places: &[Place<'_>],
        selection: Option<&BooleanBuffer>,
    ) -> Result<HashMap<usize, ArrayRef>, Error> {
        let root = self.metadata.root_data_type();
        let first_row = self.first_row(block);
        let failed = |column: String| {
            move |fault: Fault| match fault {
                Fault::Value(Misfit { row, value, data_type }) => Error::Value {
                    path: self.object.path().to_owned(),
                    column,
                    row: first_row + row,
                    value,
                    data_type,
                },
                Fault::Decode(source) => Error::Column {
                    path: self.object.path().to_owned(),
                    stripe: block,
                    column,
                    source,
                },
            }
        };
        let projected =
            root.project(&ProjectionMask::roots(root, places.iter().map(|place| place.root)));
        let info = self.metadata.stripe_metadatas().get(block);
        let info = info.ok_or_else(|| Error::NoSuchStripe {
            path: self.object.path().to_owned(),
            index: block,
        })?;
        let stripe = OrcStripe::new(&mut reader, &self.metadata, &projected, info)
            .map_err(Fault::from)
            .map_err(failed(String::new()))?;
        let mut decoded = HashMap::with_capacity(places.len());
        for place in places {
            let name =
                || self.field(place.column).map_or_else(String::new, |field| field.name().clone());
            let Some(mut column) = stripe
                .columns()
                .iter()
                .find(|column| column.data_type().column_index() == place.root)
                .cloned()
            else {
                continue;
            };
            let mut nulls = None;
            for (step, struct_type) in place.steps.iter().zip(&place.structs) {
                let damaged = || Error::Stripe {
                    path: self.object.path().to_owned(),
                    stripe: block,
                    reason: "a struct states too few rows".to_owned(),
                };
                nulls =
                    present::nulls(reader.present.get(struct_type), nulls, stripe.number_of_rows())
                        .ok_or_else(damaged)?;
                let Some(child) = column.children().into_iter().nth(step.index) else { continue };
                column = child;
            }
            let data_type = place.node.to_arrow_data_type();
            let decoder = array_decoder_factory(&column, &in_nanoseconds(&data_type), &stripe)
                .map_err(Fault::from)
                .map_err(failed(name()))?;
            let mut cursor =
                Cursor { decoder, data_type: &data_type, rows: stripe.number_of_rows(), nulls };
            let batch_rows = usize::try_from(MAX_BLOCK_BYTES / self.row_bytes(place.column).max(1))
                .unwrap_or(SELECTED_ROWS);
            let array = cursor.read(selection, batch_rows).map_err(failed(name()))?;
            let below = place.steps.get(place.structs.len()..).unwrap_or_default();
            decoded.insert(
                place.column,
                values(&array, below).map_err(Fault::from).map_err(failed(name()))?,
            );
        }
        Ok(decoded)
    }

    fn first_row(&self, block: usize) -> u64 {
        self.tail.stripes.iter().take(block).map(|stripe| stripe.rows).sum()
    }

    /// The name of the column that the type `number` belongs to.
    fn name_of(&self, number: usize, places: &[Place<'_>]) -> String {
        let place = places.iter().find(|place| place.node.all_indices().contains(&number));
        place
            .and_then(|place| self.field(place.column))
            .map_or_else(String::new, |field| field.name().clone())
    }

    fn field(&self, column: usize) -> Option<&FieldRef> {
        column_field(&self.schema, self.nested_of(column), column)
    }

    /// Empty for a top-level column: most files are never asked for a nested one.
    fn nested_of(&self, column: usize) -> &[NestedColumn] {
        if column < self.schema.fields().len() { &[] } else { self.nested() }
    }

    fn place(&self, column: usize) -> Option<Place<'_>> {
        let top = self.schema.fields().len();
        let (root, steps) = match column.checked_sub(top) {
            None => (column, &[][..]),
            Some(place) => {
                self.nested().get(place).map(|nested| (nested.root, nested.steps.as_slice()))?
            }
        };
        let mut node = self.metadata.root_data_type().children().get(root)?.data_type();
        let (root, mut structs) = (node.column_index(), Vec::new());
        for step in steps {
            let OrcType::Struct { column_index, children } = node else { break };
            structs.push(*column_index);
            node = children.get(step.index)?.data_type();
        }
        Some(Place { column, root, structs, steps, node })
    }
}

/// The type with decimals in place of times.
fn in_nanoseconds(data_type: &DataType) -> DataType {
    if matches!(data_type, DataType::Timestamp(..)) {
        return NANOSECONDS;
    }
    let field = |field: &FieldRef| {
        Arc::new(Field::clone(field).with_data_type(in_nanoseconds(field.data_type())))
    };
    with_children(data_type, children(data_type).into_iter().map(field).collect())
}

impl TableFile for OrcFile {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn nested(&self) -> &[NestedColumn] {
        self.nested.get_or_init(|| NestedColumn::all(&self.schema))
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
        self.tail.stripes.get(block).map_or(0, |stripe| self.decoded(stripe, columns))
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        let place = self.place(column)?;
        let number = place.node.column_index();
        let rows: Vec<u64> = self.blocks.iter().map(|block| block.rows).collect();
        let is_within = !place.steps.is_empty();
        // A list around a field has no bounds, and neither has the column.
        let data_type = place.node.to_arrow_data_type();
        statistics(
            &self.tail.statistics,
            number,
            self.tail.types.get(number)?,
            &data_type,
            is_within,
            &rows,
        )
    }

    fn digest(&self) -> u128 {
        self.tail.digest
    }
}
