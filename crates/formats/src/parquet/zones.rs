//! Time zones of columns whose unit the writer has changed.
//!
//! Parquet stores only that a time is in UTC; the zone is in the Arrow schema that is stored beside. The decoder takes it from there if both have the
//! same unit, but pyarrow stores seconds as milliseconds. The invariant: nothing but zones is taken from the stored schema here.

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::ParquetMetaData;
use std::sync::Arc;

/// The schema with zones that it lacks; `None` if there are none.
pub(super) fn zoned_schema(schema: &Schema, metadata: &ParquetMetaData) -> Option<SchemaRef> {
    if !schema.fields().iter().any(|field| has_zone(field.data_type())) {
        return None;
    }
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let encoded = pairs.iter().find(|pair| pair.key == ARROW_SCHEMA_META_KEY)?.value.as_ref()?;
    let stored = try_schema_from_ipc_buffer(&BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    let fields = zoned_fields(schema.fields(), stored.fields())?;
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

fn has_zone(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.is_some(),
        DataType::Struct(fields) => fields.iter().any(|field| has_zone(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) | DataType::Map(item, _) => has_zone(item.data_type()),
        _ => false,
    }
}

/// `None` if nothing changes.
fn zoned_fields(fields: &Fields, stored: &Fields) -> Option<Fields> {
    let of_same_name = |field: &FieldRef, stored: &FieldRef| (field.name() == stored.name()).then(|| zoned_field(field, stored)).flatten();
    let zoned: Vec<_> = fields.iter().zip(stored).map(|(field, stored)| of_same_name(field, stored)).collect();
    let is_changed = fields.len() == stored.len() && zoned.iter().any(Option::is_some);
    is_changed.then(|| fields.iter().zip(zoned).map(|(field, zoned)| zoned.unwrap_or_else(|| Arc::clone(field))).collect())
}

fn zoned_field(field: &FieldRef, stored: &Field) -> Option<FieldRef> {
    let zoned = match (field.data_type(), stored.data_type()) {
        (DataType::Timestamp(unit, Some(zone)), DataType::Timestamp(_, Some(stored))) if zone != stored => {
            DataType::Timestamp(*unit, Some(Arc::clone(stored)))
        }
        (DataType::Struct(fields), DataType::Struct(stored)) => DataType::Struct(zoned_fields(fields, stored)?),
        (DataType::List(item), DataType::List(stored)) => DataType::List(zoned_field(item, stored)?),
        (DataType::LargeList(item), DataType::LargeList(stored)) => DataType::LargeList(zoned_field(item, stored)?),
        (DataType::FixedSizeList(item, size), DataType::FixedSizeList(stored, _)) => DataType::FixedSizeList(zoned_field(item, stored)?, *size),
        (DataType::Map(entries, is_sorted), DataType::Map(stored, _)) => DataType::Map(zoned_field(entries, stored)?, *is_sorted),
        _ => return None,
    };
    Some(Arc::new(Field::clone(field).with_data_type(zoned)))
}
