//! Reads blocks of any file in the types of the data set.

use super::{BlockOf, Dataset, OpenFile, Origin};
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::take::take;
use std::sync::Arc;

impl Dataset {
    /// Types of [`Dataset::read`]: those of the data set, strings and binaries as views.
    #[must_use]
    pub fn view_schema(&self, columns: &[usize]) -> SchemaRef {
        let fields = columns.iter().filter_map(|column| self.schema.fields().get(*column));
        Arc::new(Schema::new(fields.map(|field| Field::clone(field).with_data_type(as_view(field.data_type()))).collect::<Vec<_>>()))
    }

    /// The numbers of columns.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn columns(&self, names: &[String]) -> Result<Vec<usize>> {
        let unknown = |column: &String| Error::UnknownColumn {
            column: column.clone(),
            available: self.schema.fields().iter().map(|field| format!("`{}`", field.name())).collect::<Vec<_>>().join(", "),
        };
        names.iter().map(|name| self.schema.index_of(name).map_err(|_missing| unknown(name))).collect()
    }

    /// All rows of `count` blocks of one file, from `first` on, in the types of [`Dataset::view_schema`].
    ///
    /// # Errors
    /// As [`Dataset::read`].
    pub fn read_run(&self, first: BlockOf, count: usize, columns: &[usize]) -> Result<RecordBatch> {
        let schema = self.view_schema(columns);
        let Some(file) = self.files.get(first.file) else { return Ok(RecordBatch::new_empty(schema)) };
        let batch = file.table.read_run(first.block..first.block + count, &file.own_columns(columns))?;
        file.in_types(&batch, columns, schema)
    }

    /// Rows of a block, all or those that are selected, in the types of [`Dataset::view_schema`].
    ///
    /// # Errors
    /// When the file cannot be read, or a value does not fit the type of the data set.
    pub fn read(&self, place: BlockOf, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch> {
        let Some(file) = self.files.get(place.file) else { return Ok(RecordBatch::new_empty(self.view_schema(columns))) };
        file.read(place.block, columns, selection, self.view_schema(columns))
    }

    /// In memory, these columns of a block, estimated from metadata.
    #[must_use]
    pub fn decoded_bytes(&self, place: BlockOf, columns: &[usize]) -> u64 {
        let Some(file) = self.files.get(place.file) else { return 0 };
        file.table.decoded_bytes(place.block, &file.own_columns(columns))
    }
}

impl OpenFile {
    fn own_columns(&self, columns: &[usize]) -> Vec<usize> {
        columns
            .iter()
            .filter_map(|column| match self.columns.get(*column) {
                Some(Origin::File(own)) => Some(*own),
                _ => None,
            })
            .collect()
    }

    fn read(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>, schema: SchemaRef) -> Result<RecordBatch> {
        let batch = self.table.read(block, &self.own_columns(columns), selection)?;
        self.in_types(&batch, columns, schema)
    }

    /// What the file delivers becomes what the data set has.
    fn in_types(&self, batch: &RecordBatch, columns: &[usize], schema: SchemaRef) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut own = batch.columns().iter();
        let mut arrays = Vec::with_capacity(columns.len());
        for (column, field) in columns.iter().zip(schema.fields()) {
            let array = match self.columns.get(*column) {
                Some(Origin::File(_)) => own.next().cloned(),
                Some(Origin::Constant(value)) => Some(repeated(value, rows).map_err(|source| self.uncastable(field, source))?),
                Some(Origin::Absent) | None => None,
            };
            arrays.push(match array {
                Some(array) => self.in_type(array, field)?,
                None => new_null_array(field.data_type(), rows),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Error::assemble)
    }

    fn in_type(&self, array: ArrayRef, field: &Field) -> Result<ArrayRef> {
        if array.data_type() == field.data_type() {
            return Ok(array);
        }
        cast(&array, field.data_type()).map_err(|source| self.uncastable(field, source))
    }

    fn uncastable(&self, field: &Field, source: arrow_schema::ArrowError) -> Error {
        Error::Cast { path: self.path.clone(), column: field.name().clone(), wanted: field.data_type().clone(), source: Arc::new(source) }
    }
}

fn repeated(value: &ArrayRef, rows: usize) -> std::result::Result<ArrayRef, arrow_schema::ArrowError> {
    take(value, &UInt64Array::from(vec![0; rows]), None)
}

fn as_view(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    }
}
