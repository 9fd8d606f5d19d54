//! Columns of a batch as rows of a file: which are wanted, how heavy they are, and the bytes of one column as records.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};

/// Only `columns`, in this order.
pub(crate) fn select(rows: &RecordBatch, columns: &[String]) -> Result<RecordBatch> {
    let schema = rows.schema();
    let numbers = columns.iter().map(|column| schema.index_of(column).map_err(|_absent| missing(column, &schema))).collect::<Result<Vec<_>>>()?;
    rows.project(&numbers).map_err(|source| Error::Columns { source })
}

fn missing(column: &str, schema: &SchemaRef) -> Error {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    Error::MissingColumn { column: column.to_owned(), columns: names.join(", ") }
}

/// About so many bytes in memory, counting of a slice only its rows.
pub(crate) fn weight(rows: &RecordBatch) -> u64 {
    rows.columns().iter().map(|column| column_weight(column)).sum()
}

fn column_weight(column: &dyn Array) -> u64 {
    let bytes = match column.data_type() {
        // Views share buffers with rows that are elsewhere.
        DataType::BinaryView => column.as_binary_view().total_bytes_len() + 16 * column.len(),
        DataType::Utf8View => column.as_string_view().total_bytes_len() + 16 * column.len(),
        // A slice has the whole dictionary, and so have its neighbours.
        DataType::Dictionary(_, _) => return column_weight(column.as_any_dictionary().keys()),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_unknown| column.get_array_memory_size()),
    };
    bytes as u64
}

/// Calls `each` with the bytes of every row of the only column, `rows_before` of the whole output.
pub(crate) fn for_each_record(rows: &RecordBatch, rows_before: u64, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let schema = rows.schema();
    let ([column], [field]) = (rows.columns(), schema.fields().as_ref()) else {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(Error::SeveralColumns { columns: names.join(", ") });
    };
    let name = field.name();
    let record = |(row, record): (usize, Option<&[u8]>)| match record {
        Some(record) => each(record),
        None => Err(Error::NullRecord { column: name.clone(), row: rows_before + row as u64 }),
    };
    match column.data_type() {
        DataType::Binary => column.as_binary::<i32>().iter().enumerate().try_for_each(record),
        DataType::LargeBinary => column.as_binary::<i64>().iter().enumerate().try_for_each(record),
        DataType::BinaryView => column.as_binary_view().iter().enumerate().try_for_each(record),
        DataType::FixedSizeBinary(_) => column.as_fixed_size_binary().iter().enumerate().try_for_each(record),
        DataType::Utf8 => column.as_string::<i32>().iter().map(|text| text.map(str::as_bytes)).enumerate().try_for_each(record),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().map(|text| text.map(str::as_bytes)).enumerate().try_for_each(record),
        DataType::Utf8View => column.as_string_view().iter().map(|text| text.map(str::as_bytes)).enumerate().try_for_each(record),
        other => Err(Error::NoRecords { column: name.clone(), data_type: other.to_string() }),
    }
}
