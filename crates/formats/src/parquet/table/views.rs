//! Strings and binaries as views, which share the memory of decoded pages.

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;

pub(super) fn with_views(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| with_type(field, view_of(field.data_type())));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

pub(super) fn with_views_in_structs(schema: &Schema) -> SchemaRef {
    fn within(field: &FieldRef) -> FieldRef {
        match field.data_type() {
            DataType::Struct(fields) => {
                with_type(field, Some(DataType::Struct(fields.iter().map(within).collect())))
            }
            other => with_type(field, view_of(other)),
        }
    }
    Arc::new(Schema::new_with_metadata(
        schema.fields().iter().map(within).collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

fn with_type(field: &FieldRef, data_type: Option<DataType>) -> FieldRef {
    data_type.map_or_else(
        || Arc::clone(field),
        |data_type| Arc::new(Field::clone(field).with_data_type(data_type)),
    )
}

/// `None` for types that are decoded as declared.
fn view_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        // A row group may have more distinct values than the writer's key type can index.
        DataType::Dictionary(_, value) => {
            Some(DataType::Dictionary(Box::new(DataType::Int32), value.clone()))
        }
        _ => None,
    }
}
