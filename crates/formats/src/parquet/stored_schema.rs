//! The stored Arrow schema: time zones of columns whose unit the writer changed, dictionaries that
//! the decoder cannot make, and unknown types.
//!
//! Parquet stores only that a time is in UTC; the zone is in the Arrow schema that is stored in the
//! metadata. The decoder takes it from there if both have the same unit, but pyarrow stores seconds
//! as milliseconds. The invariant: nothing but zones is taken from the stored schema here.

use crate::caught::caught;
use crate::table::exact::{children, with_children};
use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::{Field as StoredField, root_as_message};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::ParquetMetaData;
use std::sync::Arc;

/// The schema with zones that it lacks, and without dictionaries that the decoder cannot make;
/// `None` if that changes nothing.
pub(super) fn corrected_schema(
    schema: &SchemaRef,
    metadata: &ParquetMetaData,
) -> Option<SchemaRef> {
    let zoned = zoned_schema(schema, metadata).unwrap_or_else(|| Arc::clone(schema));
    let fields: Fields =
        zoned.fields().iter().map(|field| with_type(field, plain(field.data_type()))).collect();
    (fields != *schema.fields())
        .then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// The type, with values in place of dictionaries of such values.
fn plain(data_type: &DataType) -> DataType {
    use DataType::{
        Boolean, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary, FixedSizeBinary, Float16,
    };
    match data_type {
        Dictionary(_, value)
            if matches!(
                **value,
                Boolean
                    | Float16
                    | Decimal32(..)
                    | Decimal64(..)
                    | Decimal128(..)
                    | Decimal256(..)
                    | FixedSizeBinary(_)
            ) =>
        {
            value.as_ref().clone()
        }
        other => with_children(
            other,
            children(other)
                .into_iter()
                .map(|field| with_type(field, plain(field.data_type())))
                .collect(),
        ),
    }
}

fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    if *field.data_type() == data_type {
        Arc::clone(field)
    } else {
        Arc::new(Field::clone(field).with_data_type(data_type))
    }
}

fn zoned_schema(schema: &Schema, metadata: &ParquetMetaData) -> Option<SchemaRef> {
    if !schema.fields().iter().any(|field| has_zone(field.data_type())) {
        return None;
    }
    let stored = try_schema_from_ipc_buffer(&stored_schema(metadata)?).ok()?;
    let fields = zoned_fields(schema.fields(), stored.fields())?;
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn stored_schema(metadata: &ParquetMetaData) -> Option<Vec<u8>> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    BASE64_STANDARD
        .decode(pairs.iter().find(|pair| pair.key == ARROW_SCHEMA_META_KEY)?.value.as_ref()?)
        .ok()
}

/// A column of the stored schema whose type is not known, and the type.
pub(super) fn unknown_type(metadata: &ParquetMetaData) -> Option<(String, String)> {
    let stored = stored_schema(metadata)?;
    // A marker and a length may precede the message.
    let message = if stored.starts_with(&[0xff; 4]) { stored.get(8..)? } else { &stored };
    let schema = root_as_message(message).ok()?.header_as_schema()?;
    let is_unknown = |field: &StoredField<'_>| caught(|| Field::from(*field)).is_err();
    let field = schema.fields()?.iter().find(is_unknown)?;
    let data_type = match field.type_as_int() {
        Some(int) => format!("int{}", int.bitWidth()),
        None => field.type_type().variant_name().unwrap_or("of an unknown type").to_owned(),
    };
    Some((field.name().unwrap_or_default().to_owned(), data_type))
}

fn has_zone(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.is_some(),
        DataType::Struct(fields) => fields.iter().any(|field| has_zone(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_zone(item.data_type()),
        _ => false,
    }
}

/// `None` if nothing changes.
fn zoned_fields(fields: &Fields, stored: &Fields) -> Option<Fields> {
    let of_same_name = |field: &FieldRef, stored: &FieldRef| {
        (field.name() == stored.name()).then(|| zoned_field(field, stored)).flatten()
    };
    let zoned: Vec<_> =
        fields.iter().zip(stored).map(|(field, stored)| of_same_name(field, stored)).collect();
    let is_changed = fields.len() == stored.len() && zoned.iter().any(Option::is_some);
    is_changed.then(|| {
        fields
            .iter()
            .zip(zoned)
            .map(|(field, zoned)| zoned.unwrap_or_else(|| Arc::clone(field)))
            .collect()
    })
}

fn zoned_field(field: &FieldRef, stored: &Field) -> Option<FieldRef> {
    let zoned = match (field.data_type(), stored.data_type()) {
        (DataType::Timestamp(unit, Some(zone)), DataType::Timestamp(_, Some(stored)))
            if zone != stored =>
        {
            DataType::Timestamp(*unit, Some(Arc::clone(stored)))
        }
        (DataType::Struct(fields), DataType::Struct(stored)) => {
            DataType::Struct(zoned_fields(fields, stored)?)
        }
        (DataType::List(item), DataType::List(stored)) => {
            DataType::List(zoned_field(item, stored)?)
        }
        (DataType::LargeList(item), DataType::LargeList(stored)) => {
            DataType::LargeList(zoned_field(item, stored)?)
        }
        (DataType::FixedSizeList(item, size), DataType::FixedSizeList(stored, _)) => {
            DataType::FixedSizeList(zoned_field(item, stored)?, *size)
        }
        (DataType::Map(entries, is_sorted), DataType::Map(stored, _)) => {
            DataType::Map(zoned_field(entries, stored)?, *is_sorted)
        }
        _ => return None,
    };
    Some(Arc::new(Field::clone(field).with_data_type(zoned)))
}
