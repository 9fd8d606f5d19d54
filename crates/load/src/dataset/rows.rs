//! Reads blocks of any file with the types of the data set.

use super::encoded::{encoded_fields, encoded_lists};
use super::origin::{Counted, Derivation};
use super::{BlockOf, Dataset, OpenFile, Origin};
use crate::{Error, Result};
use arrow_array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, UInt64Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;
use shardmill_formats::table::type_name;
use shardmill_plan::schema::{exactly, widened};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

impl Dataset {
    /// Types of [`Dataset::read`]: those of the data set, with strings and binaries as views, and
    /// images as their encoded bytes.
    #[must_use]
    pub fn view_schema(&self, columns: &[usize]) -> SchemaRef {
        let fields =
            columns.iter().filter_map(|column| Some((*column, self.schema.fields().get(*column)?)));
        let view = |(column, field): (usize, &Arc<Field>)| match self.has_images(column) {
            true => Field::new(field.name(), self.encoded_type(column), true),
            false => Field::clone(field).with_data_type(as_view(field.data_type())),
        };
        Arc::new(Schema::new(fields.map(view).collect::<Vec<_>>()))
    }

    /// The numbers of columns. A name with dots that is not a top-level
    /// column is a path into structs.
    ///
    /// # Errors
    /// [`shardmill_plan::Error::UnknownColumn`] and [`Error::UnknownPath`].
    pub fn columns(&self, names: &[String]) -> Result<Vec<usize>> {
        names
            .iter()
            .map(|name| self.schema.index_of(name).map_err(|_missing| self.unknown_column(name)))
            .collect()
    }

    /// All rows of `count` blocks of one file, from `first` on,
    /// with the types of [`Dataset::view_schema`].
    ///
    /// # Errors
    /// As [`Dataset::read`].
    pub fn read_run(&self, first: BlockOf, count: usize, columns: &[usize]) -> Result<RecordBatch> {
        let schema = self.view_schema(columns);
        let Some(file) = self.files.get(first.file) else {
            return Ok(RecordBatch::new_empty(schema));
        };
        file.read_run(first.block..first.block + count, columns, schema)
    }

    /// All or the selected rows of a block, with the types of [`Dataset::view_schema`].
    ///
    /// # Errors
    /// When the file cannot be read, or a value does not fit the type of the data set.
    pub fn read(
        &self,
        place: BlockOf,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch> {
        let Some(file) = self.files.get(place.file) else {
            return Ok(RecordBatch::new_empty(self.view_schema(columns)));
        };
        file.read(place.block, columns, selection, self.view_schema(columns))
    }

    /// One row of the block that starts at `place` or follows it, by its number in the file.
    ///
    /// # Errors
    /// As [`Dataset::read`].
    pub(crate) fn read_row(
        &self,
        place: BlockOf,
        row: u64,
        columns: &[usize],
    ) -> Result<RecordBatch> {
        let blocks = self.files.get(place.file).map_or(&[][..], |file| file.table.blocks());
        let mut first = 0;
        let found = blocks.iter().enumerate().find_map(|(number, block)| {
            let index = row.checked_sub(first)?;
            first += block.rows;
            (index < block.rows).then_some((number, index, block.rows))
        });
        let Some((block, index, rows)) = found else {
            return Ok(RecordBatch::new_empty(self.view_schema(columns)));
        };
        let mut selection = BooleanBufferBuilder::new(0);
        selection.append_n(usize::try_from(rows).unwrap_or(usize::MAX), false);
        selection.set_bit(usize::try_from(index).unwrap_or(usize::MAX), true);
        self.read(BlockOf { block, ..place }, columns, Some(&selection.finish()))
    }

    /// Size in memory of these columns of a block, estimated from metadata.
    #[must_use]
    pub fn decoded_bytes(&self, place: BlockOf, columns: &[usize]) -> u64 {
        let Some(file) = self.files.get(place.file) else { return 0 };
        let origins = || columns.iter().filter_map(|column| file.columns.get(*column));
        let plain = file
            .table
            .decoded_bytes(place.block, &origins().flat_map(Origin::own).collect::<Vec<_>>());
        let derived = derivations(origins()).into_iter().map(|by| {
            let sources: Vec<usize> =
                by.sources.iter().flat_map(|(origin, _)| origin.own()).collect();
            by.output_bytes(file.table.decoded_bytes(place.block, &sources))
        });
        plain + derived.sum::<u64>()
    }
}

/// The computations that these columns need, each once.
fn derivations<'a>(origins: impl Iterator<Item = &'a Origin>) -> Vec<&'a Arc<Derivation>> {
    let mut needed: Vec<&Arc<Derivation>> = Vec::new();
    for origin in origins {
        if let Origin::Derived { by, .. } = origin
            && !needed.iter().any(|known| Arc::ptr_eq(known, by))
        {
            needed.push(by);
        }
    }
    needed
}

impl Origin {
    /// The columns of the file that hold the values, or the encoded images.
    fn own(&self) -> Vec<usize> {
        match self {
            Self::File(column) => vec![*column],
            Self::Image(image) => [&image.encoded.bytes, &image.encoded.path]
                .into_iter()
                .chain(&image.encoded.sides)
                .flat_map(Self::own)
                .collect(),
            Self::Constant(_) | Self::Derived { .. } | Self::Absent => Vec::new(),
        }
    }
}

impl OpenFile {
    /// The columns of the file that columns of the data set come from, each once.
    fn own_columns(&self, columns: &[usize]) -> OwnColumns {
        let mut own = OwnColumns {
            numbers: Vec::with_capacity(columns.len()),
            places: HashMap::with_capacity(columns.len()),
        };
        let mut add = |origin: &Origin| {
            for column in origin.own() {
                own.places.entry(column).or_insert_with(|| {
                    own.numbers.push(column);
                    own.numbers.len() - 1
                });
            }
        };
        let origins = || columns.iter().filter_map(|column| self.columns.get(*column));
        origins().for_each(&mut add);
        derivations(origins())
            .into_iter()
            .flat_map(|by| &by.sources)
            .for_each(|(origin, _)| add(origin));
        own
    }

    /// All rows of consecutive blocks. `schema` has a field for each of `columns`,
    /// with the type to deliver.
    ///
    /// # Errors
    /// When the file cannot be read, or a value does not fit its type.
    pub fn read_run(
        &self,
        blocks: Range<usize>,
        columns: &[usize],
        schema: SchemaRef,
    ) -> Result<RecordBatch> {
        self.in_types(&self.rows(blocks, columns, None)?, columns, schema)
    }

    /// All or the selected rows of a block, as [`OpenFile::read_run`].
    ///
    /// # Errors
    /// As [`OpenFile::read_run`].
    pub fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
        schema: SchemaRef,
    ) -> Result<RecordBatch> {
        self.in_types(&self.rows(block..block + 1, columns, selection)?, columns, schema)
    }

    /// What is counted of the rows of blocks for a derived column; `None` if only its values tell.
    ///
    /// # Errors
    /// As [`OpenFile::read_run`].
    pub(crate) fn count(
        &self,
        blocks: Range<usize>,
        column: usize,
        selection: Option<&BooleanBuffer>,
        has_blocks: bool,
    ) -> Result<Option<Counted>> {
        let Some(Origin::Derived { by, .. }) = self.columns.get(column) else { return Ok(None) };
        if !by.can_count() {
            return Ok(None);
        }
        let rows = self.rows(blocks, &[column], selection)?;
        let sources = self.sources_of(by, &rows)?;
        let row_of = |row| self.row_of_file(&rows, row);
        by.count(&sources, has_blocks, &self.path, row_of).map(Some)
    }

    /// Reads what columns come from. Rows are selected in one block only.
    fn rows<'a>(
        &self,
        blocks: Range<usize>,
        columns: &[usize],
        selection: Option<&'a BooleanBuffer>,
    ) -> Result<Rows<'a>> {
        let (own, first_block) = (self.own_columns(columns), blocks.start);
        let batch = match blocks.len() {
            1 => self.table.read(first_block, &own.numbers, selection)?,
            _ => self.table.read_run(blocks, &own.numbers)?,
        };
        Ok(Rows { batch, own, first_block, selection })
    }

    fn sources_of(&self, by: &Derivation, rows: &Rows<'_>) -> Result<Vec<ArrayRef>> {
        let sources = by.sources.iter();
        sources.map(|(origin, field)| self.array_of(rows, Some(origin), field)).collect()
    }

    /// A column that is read, or a constant, in the type of `field`.
    fn array_of(
        &self,
        rows: &Rows<'_>,
        origin: Option<&Origin>,
        field: &Field,
    ) -> Result<ArrayRef> {
        let count = rows.batch.num_rows();
        let array = match origin {
            Some(Origin::Constant(value)) => Some(repeated(value, count).map_err(Error::assemble)?),
            Some(Origin::File(column)) => rows.stored(*column).cloned(),
            Some(Origin::Image(_) | Origin::Derived { .. } | Origin::Absent) | None => None,
        };
        array.map_or_else(
            || Ok(new_null_array(field.data_type(), count)),
            |array| self.in_type(&array, field, rows),
        )
    }

    /// Converts rows of the file to the types of the data set.
    fn in_types(
        &self,
        place: &Rows<'_>,
        columns: &[usize],
        schema: SchemaRef,
    ) -> Result<RecordBatch> {
        let rows = place.batch.num_rows();
        let array_of = |origin, field: &Field| self.array_of(place, origin, field);
        let mut computed: Vec<(&Arc<Derivation>, Vec<ArrayRef>)> = Vec::new();
        for by in derivations(columns.iter().filter_map(|column| self.columns.get(*column))) {
            let sources = self.sources_of(by, place)?;
            computed
                .push((by, by.compute(&sources, &self.path, |row| self.row_of_file(place, row))?));
        }
        let mut arrays = Vec::with_capacity(columns.len());
        for (column, field) in columns.iter().zip(schema.fields()) {
            let origin = self.columns.get(*column);
            arrays.push(match origin {
                Some(Origin::Derived { by, output }) => {
                    let outputs = computed
                        .iter()
                        .find(|(computed, _)| Arc::ptr_eq(computed, by))
                        .and_then(|(_, outputs)| outputs.get(*output));
                    outputs.map_or_else(
                        || Ok(new_null_array(field.data_type(), rows)),
                        |array| self.in_type(array, field, place),
                    )?
                }
                Some(Origin::Image(image)) if image.images.is_list() => {
                    let lists = |origin: &Origin| match origin {
                        Origin::File(column) => place.stored(*column),
                        _ => None,
                    };
                    let sides: Vec<_> = image.encoded.sides.iter().filter_map(lists).collect();
                    lists(&image.encoded.bytes).map_or_else(
                        || Ok(new_null_array(field.data_type(), rows)),
                        |lists| encoded_lists(lists, &sides).map_err(Error::assemble),
                    )?
                }
                Some(Origin::Image(image)) => {
                    let part = |origin, data_type| {
                        array_of(Some(origin), &Field::new(field.name(), data_type, true))
                    };
                    let parts = vec![
                        part(&image.encoded.bytes, DataType::BinaryView)?,
                        part(&image.encoded.path, DataType::Utf8View)?,
                    ];
                    let nulls = either_valid(parts.iter().map(|part| part.nulls()));
                    Arc::new(
                        StructArray::try_new_with_length(encoded_fields(), parts, nulls, rows)
                            .map_err(Error::assemble)?,
                    )
                }
                origin => array_of(origin, field)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Error::assemble)
    }

    fn in_type(&self, array: &ArrayRef, field: &Field, place: &Rows<'_>) -> Result<ArrayRef> {
        let row_of = |row| self.row_of_file(place, row);
        // Only of columns whose footers count nothing but nulls the types may have none in common,
        // and a footer may be wrong.
        if array.data_type().is_string() != field.data_type().is_string()
            && array.logical_null_count() < array.len()
            && !self.declared.contains(field.name())
            && widened(array.data_type(), field.data_type()).is_none()
        {
            let wanted = field.data_type().clone();
            let source = Arc::new(ArrowError::CastError(format!(
                "it is {} there, although its footer counts only nulls",
                type_name(array.data_type())
            )));
            return Err(Error::Cast {
                path: self.path.clone(),
                column: field.name().clone(),
                wanted,
                source,
            });
        }
        exactly(array, field.data_type())
            .map_err(|misfit| Error::misfit(&self.path, field, misfit, row_of))
    }

    fn row_of_file(&self, place: &Rows<'_>, row: usize) -> u64 {
        let before: u64 =
            self.table.blocks().iter().take(place.first_block).map(|block| block.rows).sum();
        before
            + place
                .selection
                .map_or(Some(row), |selection| selection.set_indices().nth(row))
                .unwrap_or(row) as u64
    }
}

/// Columns to read from a file, and the place of each in the batch.
struct OwnColumns {
    numbers: Vec<usize>,
    places: HashMap<usize, usize>,
}

/// Rows of a file that are read, and where they are.
struct Rows<'a> {
    batch: RecordBatch,
    own: OwnColumns,
    first_block: usize,
    selection: Option<&'a BooleanBuffer>,
}

impl Rows<'_> {
    /// A column of the file.
    fn stored(&self, column: usize) -> Option<&ArrayRef> {
        self.own.places.get(&column).and_then(|place| self.batch.columns().get(*place))
    }
}

pub(super) fn repeated(value: &ArrayRef, rows: usize) -> std::result::Result<ArrayRef, ArrowError> {
    take(value, &UInt64Array::from(vec![0; rows]), None)
}

/// An image has bytes, or a path to them.
fn either_valid<'a>(mut parts: impl Iterator<Item = Option<&'a NullBuffer>>) -> Option<NullBuffer> {
    let first = parts.next()??.inner().clone();
    parts
        .try_fold(first, |valid, nulls| nulls.map(|nulls| &valid | nulls.inner()))
        .map(NullBuffer::new)
}

fn as_view(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    }
}
