//! Columns from directory names of a data set: `year=2024/region=us/part-0.parquet`.
//!
//! Each key has a constant for each file. Used when a data set is opened with hive partitions. The
//! invariant: a key has one type over the whole data set, regardless of the format and the order of
//! the files.

use crate::{Error, Result};
use arrow_array::{ArrayRef, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Hive's name for a null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partition columns of a data set.
#[derive(Debug, Clone, Default)]
pub struct Partitions {
    fields: Vec<FieldRef>,
    /// By file, then by field.
    values: Vec<Vec<ArrayRef>>,
}

impl Partitions {
    /// Finds `key=value` in the directories between `root` and each file. Keys are in order of
    /// first appearance. A file without a key has a null for it.
    ///
    /// # Errors
    /// [`Error::PartitionText`] for a name that is not UTF-8 after decoding,
    /// [`Error::PartitionTwice`] for a path with a repeated key.
    pub fn infer(root: &str, files: &[impl AsRef<str>]) -> Result<Self> {
        let mut keys: Vec<String> = Vec::new();
        let mut found: Vec<BTreeMap<String, Option<String>>> = Vec::with_capacity(files.len());
        for file in files {
            let mut of_file = BTreeMap::new();
            for (key, value) in segments(root, file.as_ref())? {
                if !keys.contains(&key) {
                    keys.push(key.clone());
                }
                if of_file.insert(key.clone(), value).is_some() {
                    return Err(Error::PartitionTwice { path: file.as_ref().to_owned(), key });
                }
            }
            found.push(of_file);
        }
        let types: Vec<DataType> = keys
            .iter()
            .map(|key| type_of(found.iter().filter_map(|of_file| of_file.get(key)?.as_deref())))
            .collect();
        let value =
            |of_file: &BTreeMap<String, Option<String>>, key: &String, data_type: &DataType| {
                constant(of_file.get(key).and_then(Option::as_deref), data_type)
            };
        let values = found
            .iter()
            .map(|of_file| {
                keys.iter()
                    .zip(&types)
                    .map(|(key, data_type)| value(of_file, key, data_type))
                    .collect()
            })
            .collect();
        let fields = keys
            .iter()
            .zip(&types)
            .map(|(key, data_type)| Arc::new(Field::new(key, data_type.clone(), true)))
            .collect();
        Ok(Self { fields, values })
    }

    /// Nullable, in the order of [`Partitions::values`].
    #[must_use]
    pub fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// One array of length one for each field; `None` if the file does not exist.
    #[must_use]
    pub fn values(&self, file: usize) -> Option<&[ArrayRef]> {
        self.values.get(file).map(Vec::as_slice)
    }

    /// Rejects a key that is also a column of the files, because one would hide the other.
    ///
    /// # Errors
    /// [`Error::PartitionColumn`].
    pub fn check(&self, schema: &Schema) -> Result<()> {
        match self.fields.iter().find(|field| schema.column_with_name(field.name()).is_some()) {
            Some(field) => Err(Error::PartitionColumn { key: field.name().clone() }),
            None => Ok(()),
        }
    }
}

fn segments(root: &str, file: &str) -> Result<Vec<(String, Option<String>)>> {
    let root = root.trim_end_matches('/');
    let below = match file.strip_prefix(root) {
        // `data` is not a parent directory of `database/x`.
        Some(below) if root.is_empty() || below.starts_with('/') => below,
        Some(_) | None => return Ok(Vec::new()),
    };
    let Some((directories, _name)) = below.rsplit_once('/') else { return Ok(Vec::new()) };
    let refused = || Error::PartitionText { path: file.to_owned() };
    let pairs = directories
        .split('/')
        .filter_map(|directory| directory.split_once('='))
        .filter(|(key, _)| !key.is_empty());
    pairs
        .map(|(key, value)| {
            let value =
                if value == NULL { None } else { Some(decoded(value).ok_or_else(refused)?) };
            Ok((decoded(key).ok_or_else(refused)?, value))
        })
        .collect()
}

/// `%20` becomes a space; a `%` without two digits is kept.
fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

/// Canonical digits: no leading zero, no plus, no minus zero.
fn integer_of(text: &str) -> Option<i64> {
    text.parse().ok().filter(|value: &i64| value.to_string() == text)
}

fn type_of<'a>(values: impl Iterator<Item = &'a str>) -> DataType {
    let mut data_type = None;
    for value in values {
        let own = match integer_of(value) {
            None => return DataType::Utf8,
            Some(value) if i32::try_from(value).is_ok() => DataType::Int32,
            Some(_) => DataType::Int64,
        };
        data_type = if data_type == Some(DataType::Int64) { data_type } else { Some(own) };
    }
    data_type.unwrap_or(DataType::Utf8)
}

fn constant(value: Option<&str>, data_type: &DataType) -> ArrayRef {
    match data_type {
        DataType::Int32 => Arc::new(Int32Array::from(vec![
            value.and_then(|value| i32::try_from(integer_of(value)?).ok()),
        ])),
        DataType::Int64 => Arc::new(Int64Array::from(vec![value.and_then(integer_of)])),
        _ => Arc::new(StringArray::from(vec![value])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;

    fn infer(files: &[&str]) -> Partitions {
        Partitions::infer("/k=above/data/", files).unwrap()
    }

    fn types(partitions: &Partitions) -> Vec<(String, DataType)> {
        partitions
            .fields()
            .iter()
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect()
    }

    #[test]
    fn keys_above_the_root_do_not_count_and_integers_are_typed_once() {
        let found = infer(&[
            "/k=above/data/year=2024/region=us/a=1.parquet",
            "/k=above/data/year=99/region=eu/b.parquet",
        ]);
        assert_eq!(
            types(&found),
            [("year".to_owned(), DataType::Int32), ("region".to_owned(), DataType::Utf8)]
        );
        assert_eq!(found.values(1).unwrap()[0].as_primitive::<Int32Type>().value(0), 99);
        assert_eq!(found.values(0).unwrap()[1].as_string::<i32>().value(0), "us");
    }

    #[test]
    fn one_non_canonical_integer_makes_a_key_a_string() {
        for other in ["007", "+1", "-0", "1.0", "9223372036854775808", " 1", ""] {
            let found = infer(&["/k=above/data/n=1/a", &format!("/k=above/data/n={other}/b")]);
            assert_eq!(types(&found), [("n".to_owned(), DataType::Utf8)], "{other:?}");
        }
        assert_eq!(
            types(&infer(&["/k=above/data/n=-1/a", "/k=above/data/n=2147483648/b"])),
            [("n".to_owned(), DataType::Int64)]
        );
    }

    #[test]
    fn values_are_decoded_and_hives_null_is_a_null() {
        let found = infer(&[
            "/k=above/data/n=a%20b%3D%2Fc%/a",
            "/k=above/data/n=__HIVE_DEFAULT_PARTITION__/b",
            "/k=above/data/c",
        ]);
        let texts: Vec<_> = (0..3)
            .map(|file| {
                found.values(file).unwrap()[0]
                    .as_string::<i32>()
                    .iter()
                    .next()
                    .unwrap()
                    .map(str::to_owned)
            })
            .collect();
        assert_eq!(texts, [Some("a b=/c%".to_owned()), None, None]);
        let nulls = infer(&["/k=above/data/n=1/a", "/k=above/data/n=__HIVE_DEFAULT_PARTITION__/b"]);
        assert_eq!(types(&nulls), [("n".to_owned(), DataType::Int32)]);
        assert!(nulls.values(1).unwrap()[0].is_null(0));
    }

    #[test]
    fn key_that_hides_a_column_or_itself_is_refused() {
        let found = infer(&["/k=above/data/n=1/a"]);
        let schema = Schema::new(vec![Field::new("n", DataType::Int8, true)]);
        assert!(matches!(found.check(&schema), Err(Error::PartitionColumn { key }) if key == "n"));
        assert!(matches!(Partitions::infer("", &["n=1/n=2/a"]), Err(Error::PartitionTwice { .. })));
        assert!(matches!(Partitions::infer("", &["n=%ff/a"]), Err(Error::PartitionText { .. })));
    }
}
