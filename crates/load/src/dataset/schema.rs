//! One schema for all files: columns are matched by name, types widened where no value changes.

use crate::{Error, Result};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The schema of a data set, columns in the order in which they first appear.
///
/// # Errors
/// [`Error::SchemaConflict`], [`Error::DuplicateColumn`].
pub(super) fn unify<'a>(files: impl Iterator<Item = (&'a str, &'a SchemaRef)>) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::new();
    let mut places: HashMap<String, (usize, String)> = HashMap::new();
    let mut number_of_files = 0;
    let mut appearances: Vec<usize> = Vec::new();
    let mut same_as: Option<&SchemaRef> = None;
    for (path, schema) in files {
        number_of_files += 1;
        // Most data sets have one schema; nothing is looked up then.
        if same_as.is_some_and(|known| known.fields() == schema.fields()) {
            appearances.iter_mut().for_each(|count| *count += 1);
            continue;
        }
        let mut names = HashSet::new();
        for field in schema.fields() {
            if !names.insert(field.name()) {
                return Err(Error::DuplicateColumn { path: path.to_owned(), column: field.name().clone() });
            }
            let Some((place, first)) = places.get(field.name()) else {
                places.insert(field.name().clone(), (fields.len(), path.to_owned()));
                fields.push(Field::clone(field).with_data_type(with_wide_keys(field.data_type())));
                appearances.push(1);
                continue;
            };
            let Some(known) = fields.get_mut(*place) else { continue };
            let data_type = widened(known.data_type(), &with_wide_keys(field.data_type())).ok_or_else(|| Error::SchemaConflict {
                column: field.name().clone(),
                first: first.clone(),
                first_type: known.data_type().clone(),
                second: path.to_owned(),
                second_type: field.data_type().clone(),
            })?;
            *known = Field::new(known.name(), data_type, known.is_nullable() || field.is_nullable()).with_metadata(known.metadata().clone());
            appearances.iter_mut().skip(*place).take(1).for_each(|count| *count += 1);
        }
        same_as = (number_of_files == 1).then_some(schema);
    }
    let nullable = fields.into_iter().zip(appearances).map(|(field, count)| {
        let is_nullable = field.is_nullable() || count < number_of_files;
        field.with_nullable(is_nullable)
    });
    Ok(Arc::new(Schema::new(nullable.collect::<Vec<_>>())))
}

/// Whether the name of a column, or of a part of its type, holds the character NUL. Such a name ends early wherever Arrow data changes hands.
#[must_use]
pub fn has_nul(field: &Field) -> bool {
    field.name().contains('\0') || type_has_nul(field.data_type())
}

fn type_has_nul(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => has_nul(item),
        DataType::FixedSizeList(item, _) | DataType::Map(item, _) => has_nul(item),
        DataType::Struct(fields) => fields.iter().any(|field| has_nul(field)),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_nul(field)),
        DataType::Dictionary(_, value) => type_has_nul(value),
        DataType::RunEndEncoded(ends, values) => has_nul(ends) || has_nul(values),
        DataType::Timestamp(_, Some(zone)) => zone.contains('\0'),
        _ => false,
    }
}

/// Keys that suffice for the values of one file do not suffice for those of several.
fn with_wide_keys(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => DataType::Dictionary(Box::new(DataType::Int32), value.clone()),
        other => other.clone(),
    }
}

/// A type that holds every value of both, unchanged.
fn widened(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType::{Binary, Dictionary, Float16, Float32, Float64, LargeBinary, LargeUtf8, Null, Utf8};
    if first == second {
        return Some(first.clone());
    }
    match (first, second) {
        (Null, other) | (other, Null) => Some(other.clone()),
        (Utf8, LargeUtf8) | (LargeUtf8, Utf8) => Some(LargeUtf8),
        (Binary, LargeBinary) | (LargeBinary, Binary) => Some(LargeBinary),
        (Float16, Float32) | (Float32, Float16) => Some(Float32),
        (Float16 | Float32, Float64) | (Float64, Float16 | Float32) => Some(Float64),
        (Dictionary(_, value), Dictionary(_, other)) => widened(value, other),
        (Dictionary(_, value), other) | (other, Dictionary(_, value)) => widened(value, other),
        _ => widened_integer(first, second),
    }
}

fn widened_integer(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let bits = |data_type: &DataType| match data_type {
        Int8 => Some((true, 8)),
        Int16 => Some((true, 16)),
        Int32 => Some((true, 32)),
        Int64 => Some((true, 64)),
        UInt8 => Some((false, 8)),
        UInt16 => Some((false, 16)),
        UInt32 => Some((false, 32)),
        UInt64 => Some((false, 64)),
        _ => None,
    };
    let ((first_signed, first_bits), (second_signed, second_bits)) = (bits(first)?, bits(second)?);
    let needed = |signed: bool, bits: u32| if signed { bits } else { bits + 1 };
    match (first_signed, second_signed) {
        (false, false) => Some(if first_bits > second_bits { first.clone() } else { second.clone() }),
        _ => match needed(first_signed, first_bits).max(needed(second_signed, second_bits)) {
            0..=8 => Some(Int8),
            9..=16 => Some(Int16),
            17..=32 => Some(Int32),
            33..=64 => Some(Int64),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
        Arc::new(Schema::new(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), false)).collect::<Vec<_>>()))
    }

    #[test]
    fn columns_are_matched_by_name_and_missing_ones_become_nullable() {
        let (a, b) = (schema(&[("x", DataType::Int32), ("y", DataType::Utf8)]), schema(&[("z", DataType::Float32), ("x", DataType::Int64)]));
        let unified = unify([("a", &a), ("b", &b)].into_iter()).unwrap();
        let described: Vec<_> =
            unified.fields().iter().map(|field| (field.name().as_str(), field.data_type().clone(), field.is_nullable())).collect();
        assert_eq!(described, [("x", DataType::Int64, false), ("y", DataType::Utf8, true), ("z", DataType::Float32, true)]);
    }

    #[test]
    fn conflict_names_both_files_and_the_column() {
        let (a, b) = (schema(&[("x", DataType::Int32)]), schema(&[("x", DataType::Float64)]));
        let error = unify([("a.parquet", &a), ("b.parquet", &b)].into_iter()).unwrap_err().to_string();
        assert_eq!(error, "Column `x` is Int32 in `a.parquet` and Float64 in `b.parquet`");
    }

    #[test]
    fn keys_of_dictionaries_are_wide_enough_for_the_values_of_many_files() {
        let categories = |key: DataType| schema(&[("x", DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8)))]);
        let (a, b) = (categories(DataType::Int8), categories(DataType::UInt16));
        let unified = unify([("a", &a), ("b", &b)].into_iter()).unwrap();
        assert_eq!(unified.field(0).data_type(), &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)));
    }

    #[test]
    fn no_integer_type_holds_uint64_and_int64() {
        assert_eq!(widened(&DataType::UInt64, &DataType::Int64), None);
        assert_eq!(widened(&DataType::UInt32, &DataType::Int8), Some(DataType::Int64));
        assert_eq!(widened(&DataType::UInt8, &DataType::UInt32), Some(DataType::UInt32));
    }
}
