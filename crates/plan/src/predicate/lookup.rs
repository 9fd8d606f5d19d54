//! Finds columns by name.

use crate::Result;
use crate::names::unknown_column;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};

pub(super) fn type_of<'a>(schema: &'a Schema, column: &str) -> Result<&'a DataType> {
    match schema.column_with_name(column) {
        Some((_, field)) => Ok(field.data_type()),
        None => Err(unknown_column(column, schema.fields())),
    }
}

pub(super) fn column_of<'a>(rows: &'a RecordBatch, column: &str) -> Result<&'a ArrayRef> {
    rows.column_by_name(column).ok_or_else(|| unknown_column(column, rows.schema_ref().fields()))
}
