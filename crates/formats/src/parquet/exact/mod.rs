//! Columns that are decoded as bytes, because the decoder would change their values: INT96 times,
//! which wrap around outside of 1677 to 2262, and intervals, which lose their months.
//!
//! The invariant: the Arrow type follows from the footer alone.

use crate::table::exact::{self, Misfit, TWELVE_BYTES, children, with_children};
use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, Schema, TimeUnit};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, parquet_to_arrow_schema};
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type, TypePtr};
use std::sync::Arc;

const WIDTH: i32 = 12;

/// Whether the values of a column are decoded as bytes.
pub(super) fn is_exact(leaf: &ColumnDescriptor, field: &Field) -> bool {
    leaf.physical_type() == Physical::FIXED_LEN_BYTE_ARRAY
        && matches!(field.data_type(), DataType::Timestamp(..) | DataType::Interval(_))
}

/// The schema with bytes in place of INT96 and intervals; `None` if it has neither.
pub(super) fn as_bytes(
    schema: &SchemaDescriptor,
) -> Result<Option<SchemaDescriptor>, ParquetError> {
    let is_any = schema.columns().iter().any(|leaf| is_twelve_bytes(leaf.self_type()));
    is_any
        .then(|| replaced(schema, &|node| leaf_of(node, Physical::FIXED_LEN_BYTE_ARRAY)))
        .transpose()
}

fn is_twelve_bytes(node: &Type) -> bool {
    is_int96(node) || is_interval(node)
}

fn is_int96(node: &Type) -> bool {
    let is_null = node.get_basic_info().logical_type_ref() == Some(&LogicalType::Unknown);
    node.is_primitive() && node.get_physical_type() == Physical::INT96 && !is_null
}

fn is_interval(node: &Type) -> bool {
    let info = node.get_basic_info();
    let is_bytes = matches!(node, Type::PrimitiveType { type_length: WIDTH, .. })
        && node.get_physical_type() == Physical::FIXED_LEN_BYTE_ARRAY;
    is_bytes
        && info.converted_type() == ConvertedType::INTERVAL
        && info.logical_type_ref().is_none()
}

/// The column with this physical type and without annotations, if it has twelve bytes.
fn leaf_of(node: &Type, physical: Physical) -> Result<Option<TypePtr>, ParquetError> {
    if !is_twelve_bytes(node) {
        return Ok(None);
    }
    let info = node.get_basic_info();
    let leaf = Type::primitive_type_builder(info.name(), physical)
        .with_repetition(info.repetition())
        .with_length(if physical == Physical::FIXED_LEN_BYTE_ARRAY { WIDTH } else { -1 })
        .with_id(info.has_id().then(|| info.id()));
    Ok(Some(Arc::new(leaf.build()?)))
}

type Replace<'a> = &'a dyn Fn(&Type) -> Result<Option<TypePtr>, ParquetError>;

fn replaced(
    schema: &SchemaDescriptor,
    leaf: Replace<'_>,
) -> Result<SchemaDescriptor, ParquetError> {
    fn walk(node: &TypePtr, leaf: Replace<'_>) -> Result<TypePtr, ParquetError> {
        Ok(match &**node {
            Type::PrimitiveType { .. } => leaf(node)?.unwrap_or_else(|| Arc::clone(node)),
            Type::GroupType { basic_info, fields } => Arc::new(Type::GroupType {
                basic_info: basic_info.clone(),
                fields: fields.iter().map(|field| walk(field, leaf)).collect::<Result<_, _>>()?,
            }),
        })
    }
    Ok(SchemaDescriptor::new(walk(&schema.root_schema_ptr(), leaf)?))
}

/// Replaces the bytes in the schema `decoded` by the types that are delivered.
///
/// A time has the unit and the zone of the stored Arrow schema, or microseconds without it. An
/// interval has the unit of the stored Arrow schema, or the one that holds every value.
pub(super) fn declared(
    original: &SchemaDescriptor,
    pairs: Option<&Vec<KeyValue>>,
    decoded: &Schema,
) -> Result<Schema, ParquetError> {
    // For a column of 64-bit integers, the decoder accepts any time of the stored schema.
    let hint = |node: &Type| if is_int96(node) { leaf_of(node, Physical::INT64) } else { Ok(None) };
    let hinted = parquet_to_arrow_schema(&replaced(original, &hint)?, pairs)?;
    let is_stored = pairs.into_iter().flatten().any(|pair| pair.key == ARROW_SCHEMA_META_KEY);
    let fields = decoded.fields().iter().zip(hinted.fields());
    let fields = fields.map(|(field, hinted)| typed_field(field, hinted, is_stored));
    Ok(Schema::new_with_metadata(fields.collect::<Vec<_>>(), decoded.metadata().clone()))
}

fn typed_field(field: &FieldRef, hinted: &FieldRef, is_stored: bool) -> FieldRef {
    let data_type = typed(field.data_type(), hinted.data_type(), is_stored);
    Arc::new(Field::clone(field).with_data_type(data_type))
}

fn typed(decoded: &DataType, hinted: &DataType, is_stored: bool) -> DataType {
    match (decoded, hinted) {
        (decoded, hinted) if decoded == hinted => decoded.clone(),
        (&TWELVE_BYTES, DataType::Dictionary(_, value)) => typed(decoded, value, is_stored),
        (&TWELVE_BYTES, DataType::Interval(_)) if !is_stored => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        (&TWELVE_BYTES, DataType::Timestamp(..) | DataType::Interval(_)) => hinted.clone(),
        (&TWELVE_BYTES, _) => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => {
            let fields = children(decoded).into_iter().zip(children(hinted));
            with_children(
                decoded,
                fields.map(|(own, hinted)| typed_field(own, hinted, is_stored)).collect(),
            )
        }
    }
}

/// A value that the type of its column cannot hold.
#[derive(Debug, thiserror::Error)]
#[error("column `{column}`: {misfit}")]
pub(super) struct ColumnMisfit {
    pub(super) column: String,
    pub(super) misfit: Misfit,
}

/// The decoded values of a column, with the type of its field.
pub(super) fn delivered(array: &ArrayRef, field: &Field) -> Result<ArrayRef, ParquetError> {
    exact::exactly(array, field.data_type()).map_err(|failure| match failure {
        exact::Failure::Value(misfit) => {
            ParquetError::External(Box::new(ColumnMisfit { column: field.name().clone(), misfit }))
        }
        exact::Failure::Arrow(error) => error.into(),
    })
}

#[cfg(test)]
mod tests;
