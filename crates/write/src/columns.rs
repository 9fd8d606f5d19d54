//! Columns of a batch as rows of a file: their selection, their size, and the bytes of one column
//! as records.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use shardmill_formats::table::type_name;
use std::sync::Arc;

/// Selects `columns`, in this order.
pub(crate) fn select(rows: &RecordBatch, columns: &[String]) -> Result<RecordBatch> {
    let schema = rows.schema();
    let numbers = columns
        .iter()
        .map(|column| schema.index_of(column).map_err(|_absent| missing(column, &schema)))
        .collect::<Result<Vec<_>>>()?;
    rows.project(&numbers).map_err(|source| Error::Columns { source })
}

pub(crate) fn missing(column: &str, schema: &Schema) -> Error {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    Error::MissingColumn { column: column.to_owned(), columns: names.join(", ") }
}

/// With keys of dictionaries that have at least 32 bits: later rows may have more distinct values
/// than the keys of the first ones can index.
pub(crate) fn with_wide_keys(schema: &Schema) -> SchemaRef {
    let wide =
        |field: &FieldRef| match field.data_type() {
            DataType::Dictionary(key, values)
                if key.primitive_width().is_some_and(|bytes| bytes < 4) =>
            {
                Arc::new(Field::clone(field).with_data_type(DataType::Dictionary(
                    Box::new(DataType::Int32),
                    values.clone(),
                )))
            }
            _ => Arc::clone(field),
        };
    let fields: Vec<FieldRef> = schema.fields().iter().map(wide).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Converts columns to the layout that `known` has for the same values: libraries differ in that of
/// strings, for example. Other types are left as they are.
pub(crate) fn in_layout_of(known: &Schema, rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = rows.schema();
    if schema.fields() == known.fields() {
        return Ok(rows.clone());
    }
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let converted = rows.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let unchanged = || Ok((Arc::clone(field), ArrayRef::clone(column)));
        let Ok(like) = known.field_with_name(field.name()) else { return unchanged() };
        let (from, to) = (column.data_type(), like.data_type());
        if from == to || !has_values_of(from, to) {
            return unchanged();
        }
        let column =
            cast_with_options(column, to, &exact).map_err(|source| Error::Columns { source })?;
        Ok((Arc::new(Field::clone(field).with_data_type(to.clone())), column))
    });
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) =
        converted.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
        .map_err(|source| Error::Columns { source })
}

/// The rows with this schema, whose metadata and nullability may differ.
pub(crate) fn with_schema(
    known: &SchemaRef,
    rows: &RecordBatch,
    path: &str,
) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::clone(known), rows.columns().to_vec()).map_err(|source| {
        let path = path.to_owned();
        let schema = rows.schema();
        let mut pairs = known.fields().iter().zip(schema.fields());
        match pairs.find(|(known, field)| {
            known.name() == field.name() && known.data_type() != field.data_type()
        }) {
            Some((known, field)) => {
                let (found, known) = (type_name(field.data_type()), type_name(known.data_type()));
                Error::OtherType { path, column: field.name().clone(), found, known }
            }
            None => Error::Rows { path, source },
        }
    })
}

/// Whether two types hold the same values, perhaps in different layouts.
fn has_values_of(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Dictionary, LargeBinary, LargeList, LargeListView, LargeUtf8, List,
        ListView, Struct, Utf8, Utf8View,
    };
    match (from, to) {
        _ if from == to => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Dictionary(_, from), Dictionary(_, to)) => has_values_of(from, to),
        (Dictionary(_, values), other) | (other, Dictionary(_, values)) => {
            has_values_of(values, other)
        }
        (
            List(from) | LargeList(from) | ListView(from) | LargeListView(from),
            List(to) | LargeList(to) | ListView(to) | LargeListView(to),
        ) => has_values_of(from.data_type(), to.data_type()),
        (Struct(from), Struct(to)) => {
            let is_alike = |(from, to): (&FieldRef, &FieldRef)| {
                from.name() == to.name() && has_values_of(from.data_type(), to.data_type())
            };
            from.len() == to.len() && from.iter().zip(to).all(is_alike)
        }
        _ => false,
    }
}

/// Calls `each` with the bytes of every row of the only column; `rows_before` is the number of
/// preceding rows of the output.
pub(crate) fn for_each_record(
    rows: &RecordBatch,
    rows_before: u64,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
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
        DataType::FixedSizeBinary(_) => {
            column.as_fixed_size_binary().iter().enumerate().try_for_each(record)
        }
        DataType::Utf8 => column
            .as_string::<i32>()
            .iter()
            .map(|text| text.map(str::as_bytes))
            .enumerate()
            .try_for_each(record),
        DataType::LargeUtf8 => column
            .as_string::<i64>()
            .iter()
            .map(|text| text.map(str::as_bytes))
            .enumerate()
            .try_for_each(record),
        DataType::Utf8View => column
            .as_string_view()
            .iter()
            .map(|text| text.map(str::as_bytes))
            .enumerate()
            .try_for_each(record),
        other => Err(Error::NoRecords { column: name.clone(), data_type: type_name(other) }),
    }
}
