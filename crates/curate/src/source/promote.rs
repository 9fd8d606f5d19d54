//! A common schema for the Parquet files of a split.
//!
//! The invariant: a value is never rounded or truncated to fit another file's type. Without a common type, the column becomes JSON text.

use crate::json::JsonCells;
use crate::schema::{is_json_field, is_reserved, json_field, reconciled};
use crate::table::{batch_of, cast_checked};
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::collections::HashSet;
use std::sync::Arc;

/// Facts that depend on the values of a column and not on its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnFacts {
    pub is_all_null: bool,
    /// Every integer is exact in a double.
    pub is_exact_in_double: bool,
}

/// The union of `schemas` (one per file, reconciled except for nulls), columns in order of appearance. `facts` is called for a column of a file if
/// the types alone are inconclusive; `conflict` is called for columns that become JSON text.
#[must_use]
pub(crate) fn union(schemas: &[SchemaRef], mut facts: impl FnMut(usize, &str) -> ColumnFacts, mut conflict: impl FnMut(&str)) -> SchemaRef {
    let mut seen = HashSet::new();
    let names = schemas.iter().flat_map(|schema| schema.fields()).map(|field| field.name().as_str()).filter(|name| seen.insert(*name));
    let fields = names.map(|name| {
        let of_files: Vec<(usize, &FieldRef)> =
            schemas.iter().enumerate().filter_map(|(file, schema)| Some((file, schema.fields().get(schema.index_of(name).ok()?)?))).collect();
        joined(name, &of_files, &mut facts).unwrap_or_else(|| {
            conflict(name);
            Arc::new(json_field(name))
        })
    });
    reconciled(&Schema::new(fields.collect::<Vec<_>>()))
}

/// The field that can hold all values of a column; `None` if only JSON text can.
fn joined(name: &str, of_files: &[(usize, &FieldRef)], facts: &mut impl FnMut(usize, &str) -> ColumnFacts) -> Option<FieldRef> {
    let fields: Vec<&FieldRef> = of_files.iter().map(|(_, field)| *field).collect();
    if is_reserved(name) {
        let large = fields.iter().find(|field| field.data_type() == &DataType::LargeUtf8);
        return large.or(fields.first()).map(|field| Arc::clone(field));
    }
    if let Some(field) = folded(&fields) {
        return Some(field);
    }
    let known: Vec<(&FieldRef, ColumnFacts)> = of_files.iter().map(|(file, field)| (*field, facts(*file, name))).collect();
    let filled: Vec<(&FieldRef, ColumnFacts)> = known.into_iter().filter(|(_, facts)| !facts.is_all_null).collect();
    if filled.is_empty() {
        return Some(Arc::new(Field::new(name, DataType::Utf8, true)));
    }
    if let Some(field) = folded(&filled.iter().map(|(field, _)| *field).collect::<Vec<_>>()) {
        return Some(field);
    }
    let is_number = |field: &FieldRef| !is_json_field(field) && (field.data_type().is_floating() || field.data_type().is_integer());
    let has_float = filled.iter().any(|(field, _)| field.data_type().is_floating());
    let is_double = has_float && filled.iter().all(|(field, facts)| is_number(field) && facts.is_exact_in_double);
    is_double.then(|| Arc::new(Field::new(name, DataType::Float64, true)))
}

/// The field whose type is wide enough for all fields, by types alone.
fn folded(fields: &[&FieldRef]) -> Option<FieldRef> {
    let (first, rest) = fields.split_first()?;
    rest.iter().try_fold(Arc::clone(first), |wide, field| {
        if wide.data_type().is_null() {
            return Some(Arc::clone(field));
        }
        if field.data_type().is_null() || wide.data_type() == field.data_type() && is_json_field(&wide) == is_json_field(field) {
            return Some(wide);
        }
        let data_type = wider(wide.data_type(), field.data_type()).filter(|_| !is_json_field(&wide) && !is_json_field(field))?;
        Some(Arc::new(Field::clone(&wide).with_data_type(data_type)))
    })
}

/// The common type of both. 64-bit integers and floats have none by type alone: a double rounds beyond 2^53.
fn wider(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Binary, Float16, Float32, Float64, Int16, Int32, Int64, LargeBinary, LargeUtf8, UInt8, UInt16, UInt32, Utf8};
    if a == b {
        return Some(a.clone());
    }
    let rank = |data_type: &DataType| [UInt8, UInt16, UInt32].iter().position(|unsigned| unsigned == data_type);
    Some(match (a, b) {
        (Utf8, LargeUtf8) | (LargeUtf8, Utf8) => LargeUtf8,
        (Binary, LargeBinary) | (LargeBinary, Binary) => LargeBinary,
        (signed, other) | (other, signed) if signed.is_signed_integer() && other.is_integer() => {
            let bits = |data_type: &DataType| data_type.primitive_width().unwrap_or(8) * 8 + usize::from(rank(data_type).is_some());
            match bits(a).max(bits(b)) {
                0..=16 => Int16,
                17..=32 => Int32,
                33..=64 if *a != DataType::UInt64 && *b != DataType::UInt64 => Int64,
                _ => return None,
            }
        }
        (x, y) if x.is_unsigned_integer() && y.is_unsigned_integer() => {
            if x.primitive_width() > y.primitive_width() {
                x.clone()
            } else {
                y.clone()
            }
        }
        (Float16 | Float32 | Float64, other) | (other, Float16 | Float32 | Float64)
            if other.is_floating() || other.is_integer() && other.primitive_width().is_some_and(|width| width <= 4) =>
        {
            Float64
        }
        _ => return None,
    })
}

/// `batch` with exactly the columns of `target`.
///
/// # Errors
/// [`Error::Cast`] when a value of a reserved column does not fit its type.
pub(crate) fn conform(batch: &RecordBatch, target: &SchemaRef, keep_views: bool) -> Result<RecordBatch> {
    let mut fields = Vec::with_capacity(target.fields().len());
    let mut columns = Vec::with_capacity(target.fields().len());
    for field in target.fields() {
        let column = match batch.schema().column_with_name(field.name()) {
            None => new_null_array(field.data_type(), batch.num_rows()),
            Some((index, source)) => {
                let column = batch.column(index);
                if keep_views && column.data_type() == &DataType::BinaryView {
                    Arc::clone(column)
                } else if column.null_count() == column.len() || column.data_type().is_null() {
                    new_null_array(field.data_type(), column.len())
                } else if is_json_field(field) && !is_json_field(source) {
                    json_column(field, column)?
                } else {
                    cast_checked(field.name(), column, field.data_type())?
                }
            }
        };
        fields.push(Arc::new(Field::clone(field).with_data_type(column.data_type().clone()).with_nullable(true)));
        columns.push(column);
    }
    batch_of(Arc::new(Schema::new(fields)), columns, batch.num_rows()).map_err(Error::unfit("table", "the common schema"))
}

fn json_column(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    let cells = JsonCells::new(field.name(), column)?;
    Ok(Arc::new((0..column.len()).map(|row| cells.text(row)).collect::<Result<StringArray>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined_types(types: &[DataType], facts: ColumnFacts) -> Field {
        let schemas: Vec<SchemaRef> = types.iter().map(|data_type| Arc::new(Schema::new(vec![Field::new("c", data_type.clone(), true)]))).collect();
        union(&schemas, |_, _| facts, |_| {}).field_with_name("c").unwrap().clone()
    }

    #[test]
    fn wide_integers_beside_floats_become_double_only_where_each_is_exact() {
        let facts = |is_exact_in_double| ColumnFacts { is_all_null: false, is_exact_in_double };
        for types in [[DataType::Int64, DataType::Float32, DataType::UInt64], [DataType::UInt64, DataType::Int64, DataType::Float64]] {
            assert_eq!(joined_types(&types, facts(true)).data_type(), &DataType::Float64);
            assert!(is_json_field(&joined_types(&types, facts(false))));
        }
        assert!(is_json_field(&joined_types(&[DataType::Int64, DataType::Utf8], facts(true))));
    }

    #[test]
    fn column_of_nulls_takes_the_type_of_its_neighbour() {
        let unasked = ColumnFacts { is_all_null: false, is_exact_in_double: false };
        assert_eq!(joined_types(&[DataType::Null, DataType::Int64], unasked).data_type(), &DataType::Int64);
        assert_eq!(joined_types(&[DataType::Null, DataType::Null], unasked).data_type(), &DataType::Utf8);
    }

    #[test]
    fn types_widen_without_loss_or_not_at_all() {
        use DataType::{Float64, Int8, Int32, Int64, LargeUtf8, UInt8, UInt32, UInt64, Utf8};
        assert_eq!(wider(&Int8, &Int32), Some(Int32));
        assert_eq!(wider(&UInt32, &Int32), Some(Int64));
        assert_eq!(wider(&UInt8, &Int8), Some(DataType::Int16));
        assert_eq!(wider(&UInt64, &Int64), None);
        assert_eq!(wider(&Int32, &Float64), Some(Float64));
        assert_eq!(wider(&Int64, &Float64), None);
        assert_eq!(wider(&Utf8, &LargeUtf8), Some(LargeUtf8));
        assert_eq!(wider(&Utf8, &Int8), None);
    }
}
