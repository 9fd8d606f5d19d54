//! Checks whether new files fit those of a data set.
//!
//! Called by writers that append. The invariant: if the schemas fit, the old and new files open as
//! one data set with all columns.

use super::Format;
use arrow_schema::{DataType, Field, Schema};
use shardmill_formats::table::type_name;
use shardmill_plan::schema::widened;
use std::sync::Arc;

/// The difference between the columns of new rows and those of the data set, as an unfinished
/// sentence; `None` if they fit.
#[must_use]
pub fn disagreement(format: Format, old: &Schema, new: &Schema) -> Option<String> {
    // A null has no member, so samples may have different members.
    let may_lack = |field: &Field| {
        format == Format::WebDataset && (field.is_nullable() || field.name() == "__key__")
    };
    let is_meant =
        |field: &&Arc<Field>| format != Format::WebDataset || !field.name().starts_with("__");
    let missing =
        old.fields().iter().filter(|field| new.index_of(field.name()).is_err() && !may_lack(field));
    let unknown =
        new.fields().iter().filter(is_meant).filter(|field| old.index_of(field.name()).is_err());
    let (missing, unknown) = (names(missing), names(unknown));
    let parts = [(missing, "the new rows do not have"), (unknown, "the existing rows do not have")];
    let parts: Vec<String> = parts
        .iter()
        .filter_map(|(names, lack)| names.as_ref().map(|names| format!("{lack} {names}")))
        .collect();
    if !parts.is_empty() {
        return Some(parts.join(", and "));
    }
    let differs = |field: &&Arc<Field>| {
        let other = new.field_with_name(field.name()).ok()?;
        let is_alike = match format {
            Format::Jsonl => kind(field.data_type())
                .zip(kind(other.data_type()))
                .is_none_or(|(first, second)| first == second),
            Format::WebDataset => true,
            // A data set would widen integers to floats, and the rows that are there would change
            // their type.
            _ => {
                field.data_type().is_floating() == other.data_type().is_floating()
                    && widened(field.data_type(), other.data_type()).is_some()
            }
        };
        (!is_alike).then(|| {
            format!(
                "the column `{}` is {} in the existing rows and {} in the new ones",
                field.name(),
                type_name(field.data_type()),
                type_name(other.data_type())
            )
        })
    };
    old.fields().iter().find_map(|field| differs(&field))
}

fn names<'a>(fields: impl Iterator<Item = &'a Arc<Field>>) -> Option<String> {
    let names: Vec<String> = fields.map(|field| format!("`{}`", field.name())).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("the column {}", names.join(""))),
        _ => Some(format!("the columns {}", names.join(", "))),
    }
}

/// The kind of a type's values in JSON; `None` if it varies.
fn kind(data_type: &DataType) -> Option<&'static str> {
    use DataType::{
        Boolean, Dictionary, FixedSizeList, LargeList, LargeUtf8, List, Struct, Utf8, Utf8View,
    };
    match data_type {
        Boolean => Some("boolean"),
        Utf8 | LargeUtf8 | Utf8View => Some("string"),
        List(_) | LargeList(_) | FixedSizeList(..) => Some("list"),
        Struct(_) => Some("object"),
        Dictionary(_, values) => kind(values),
        number if number.is_integer() || number.is_floating() => Some("number"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType, bool)]) -> Schema {
        Schema::new(
            fields
                .iter()
                .map(|(name, data_type, is_nullable)| {
                    Field::new(*name, data_type.clone(), *is_nullable)
                })
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn columns_that_either_side_lacks_are_named() {
        let old = schema(&[("a", DataType::Int64, true), ("b", DataType::Utf8, true)]);
        let new = schema(&[
            ("b", DataType::Utf8, true),
            ("c", DataType::Utf8, true),
            ("d", DataType::Utf8, true),
        ]);
        let expected = "the new rows do not have the column `a`, and the existing rows \
            do not have the columns `c`, `d`";
        assert_eq!(disagreement(Format::Parquet, &old, &new).as_deref(), Some(expected));
        assert_eq!(disagreement(Format::Jsonl, &old, &old), None);
    }

    #[test]
    fn types_differ_where_a_data_set_would_refuse_them() {
        let number = |data_type: DataType| schema(&[("x", data_type, true)]);
        let (int, small, text, view) = (
            number(DataType::Int64),
            number(DataType::Int8),
            number(DataType::Utf8),
            number(DataType::Utf8View),
        );
        let float = number(DataType::Float64);
        assert_eq!(disagreement(Format::Parquet, &int, &small), None);
        assert_eq!(disagreement(Format::Parquet, &text, &view), None);
        let expected = "the column `x` is int64 in the existing rows and string in the new ones";
        for format in [Format::Parquet, Format::Jsonl] {
            assert_eq!(disagreement(format, &int, &text).as_deref(), Some(expected));
        }
        assert!(disagreement(Format::Parquet, &int, &float).is_some());
        assert_eq!(disagreement(Format::Jsonl, &int, &float), None);
    }

    #[test]
    fn samples_may_lack_what_not_all_samples_have() {
        let old = schema(&[
            ("__key__", DataType::Utf8, false),
            ("cls", DataType::Int64, true),
            ("txt", DataType::Utf8, false),
        ]);
        assert_eq!(
            disagreement(Format::WebDataset, &old, &schema(&[("txt", DataType::Utf8, true)])),
            None
        );
        let other = schema(&[("cls", DataType::Int64, true), ("__key__", DataType::Utf8, true)]);
        assert_eq!(
            disagreement(Format::WebDataset, &old, &other).as_deref(),
            Some("the new rows do not have the column `txt`")
        );
    }
}
