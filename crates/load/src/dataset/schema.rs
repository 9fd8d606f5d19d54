//! Unifies the schemas of all files: columns are matched by name, types widened if no value changes.

use crate::types::{widened, widened_field};
use crate::{Error, Result};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The schema of a data set, with columns in order of first appearance.
///
/// # Errors
/// [`Error::SchemaConflict`], [`Error::DuplicateColumn`].
pub(super) fn unify<'a>(files: &(impl Iterator<Item = (&'a str, &'a SchemaRef)> + Clone)) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut number_of_files = 0;
    let mut appearances: Vec<usize> = Vec::new();
    let mut same_as: Option<&SchemaRef> = None;
    for (path, schema) in files.clone() {
        number_of_files += 1;
        // Most data sets have one schema, which needs no look-ups.
        if same_as.is_some_and(|known| known.fields() == schema.fields()) {
            appearances.iter_mut().for_each(|count| *count += 1);
            continue;
        }
        let mut names = HashSet::new();
        for field in schema.fields() {
            if !names.insert(field.name()) {
                return Err(Error::DuplicateColumn { path: path.to_owned(), column: field.name().clone() });
            }
            let Some(place) = places.get(field.name().as_str()) else {
                places.insert(field.name(), fields.len());
                fields.push(Field::clone(field).with_data_type(with_wide_keys(field.data_type())));
                appearances.push(1);
                continue;
            };
            let Some(known) = fields.get_mut(*place) else { continue };
            let own = Field::clone(field).with_data_type(with_wide_keys(field.data_type()));
            *known = widened_field(known, &own).map(Arc::unwrap_or_clone).ok_or_else(|| conflict(files.clone(), path, field))?;
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

/// Names the first file whose type has none in common with that of `field`.
fn conflict<'a>(mut files: impl Iterator<Item = (&'a str, &'a SchemaRef)> + Clone, path: &str, field: &Field) -> Error {
    let of_column = |schema: &'a SchemaRef| schema.fields().find(field.name()).map(|(_, own)| own.data_type());
    let is_other = |(_, schema): &(&str, &'a SchemaRef)| of_column(schema).is_some_and(|own| widened(own, field.data_type()).is_none());
    let has_column = |(_, schema): &(&str, &'a SchemaRef)| of_column(schema).is_some();
    let other = files.clone().find(is_other).or_else(|| files.find(has_column));
    Error::SchemaConflict {
        column: field.name().clone(),
        first: other.map_or_else(String::new, |(first, _)| first.to_owned()),
        first_type: other.and_then(|(_, schema)| of_column(schema)).cloned().unwrap_or(DataType::Null),
        second: path.to_owned(),
        second_type: field.data_type().clone(),
    }
}

/// Whether the name of a column, or of a part of its type, contains NUL. Such a name is truncated where Arrow data is exchanged.
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

/// Dictionary keys that suffice for the values of one file may not suffice for those of several.
pub(super) fn with_wide_keys(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => DataType::Dictionary(Box::new(DataType::Int32), value.clone()),
        other => other.clone(),
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
        let unified = unify(&[("a", &a), ("b", &b)].into_iter()).unwrap();
        let described: Vec<_> =
            unified.fields().iter().map(|field| (field.name().as_str(), field.data_type().clone(), field.is_nullable())).collect();
        assert_eq!(described, [("x", DataType::Int64, false), ("y", DataType::Utf8, true), ("z", DataType::Float32, true)]);
    }

    #[test]
    fn conflict_names_both_files_and_the_column() {
        let (a, b) = (schema(&[("x", DataType::Int32)]), schema(&[("x", DataType::Utf8)]));
        let error = unify(&[("a.parquet", &a), ("b.parquet", &b)].into_iter()).unwrap_err().to_string();
        assert_eq!(error, "Column `x` is int32 in `a.parquet` and string in `b.parquet`");
    }

    #[test]
    fn keys_of_dictionaries_are_wide_enough_for_the_values_of_many_files() {
        let categories = |key: DataType| schema(&[("x", DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8)))]);
        let (a, b) = (categories(DataType::Int8), categories(DataType::UInt16));
        let unified = unify(&[("a", &a), ("b", &b)].into_iter()).unwrap();
        assert_eq!(unified.field(0).data_type(), &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)));
    }
}
