//! The types as which columns are stored: neither the encoder nor all readers support every layout of Arrow.

use super::Error;
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef};
use std::sync::Arc;

/// The schema with the stored type of each column.
///
/// # Errors
/// [`Error::UnsupportedType`].
pub(super) fn stored_schema(schema: SchemaRef) -> Result<SchemaRef, Error> {
    let unsupported = |field: &Field| Error::UnsupportedType { column: field.name().clone(), data_type: field.data_type().to_string() };
    let fields = schema.fields().iter().map(|field| stored_field(field).ok_or_else(|| unsupported(field))).collect::<Result<Fields, _>>()?;
    Ok(match fields == *schema.fields() {
        true => schema,
        false => Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
    })
}

fn stored_field(field: &FieldRef) -> Option<FieldRef> {
    let stored = stored(field.data_type())?;
    Some(if stored == *field.data_type() { Arc::clone(field) } else { Arc::new(Field::clone(field).with_data_type(stored)) })
}

/// `None` if Parquet has no such type.
fn stored(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Union(..) | DataType::Interval(IntervalUnit::MonthDayNano) => return None,
        DataType::Struct(fields) if fields.is_empty() => return None,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(stored_field).collect::<Option<Fields>>()?),
        // Views of lists can be written, but most readers do not know the type.
        DataType::List(item) | DataType::ListView(item) => DataType::List(stored_field(item)?),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(stored_field(item)?),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(stored_field(item)?, *size),
        DataType::Map(entries, is_sorted) => DataType::Map(stored_field(entries)?, *is_sorted),
        DataType::Dictionary(keys, values) => match stored(values)? {
            DataType::Utf8View => DataType::Dictionary(keys.clone(), Box::new(DataType::Utf8)),
            DataType::BinaryView => DataType::Dictionary(keys.clone(), Box::new(DataType::Binary)),
            values if has_dictionaries(&values) => DataType::Dictionary(keys.clone(), Box::new(values)),
            values => values,
        },
        DataType::RunEndEncoded(_, values) => match stored(values.data_type())? {
            plain if plain == *values.data_type() => data_type.clone(),
            plain => plain,
        },
        other => other.clone(),
    })
}

/// Whether dictionaries of such values can be written, and read by the common readers.
fn has_dictionaries(values: &DataType) -> bool {
    use DataType::{Binary, Float32, Float64, LargeBinary, LargeUtf8, Utf8};
    matches!(values, Utf8 | LargeUtf8 | Binary | LargeBinary | Float32 | Float64) || values.is_integer()
}
