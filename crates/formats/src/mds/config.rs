//! The description of a shard: the JSON block between its offsets and its samples, which is
//! repeated in its index entry.

use super::index::FileEntry;
use super::{Columns, Compression, Error};
use crate::json::json_dumps;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How a shard was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardConfig {
    pub columns: Columns,
    pub compression: Option<Compression>,
    /// Names of hash algorithms, including unknown ones.
    pub hashes: Vec<String>,
    pub size_limit: Option<u64>,
}

/// As written in JSON, without unknown keys.
#[derive(Debug)]
pub(super) struct StatedConfig {
    column_encodings: Vec<String>,
    column_names: Vec<String>,
    column_sizes: Vec<Option<u64>>,
    compression: Option<String>,
    format: String,
    hashes: Vec<String>,
    size_limit: Option<u64>,
    version: u64,
}

/// As Python writes it, with sorted keys; the fields that an index adds are among them.
#[derive(Debug, Serialize)]
pub(super) struct WrittenConfig<'a> {
    column_encodings: Vec<&'a str>,
    column_names: Vec<&'a str>,
    column_sizes: Vec<Option<usize>>,
    compression: Option<&'a str>,
    format: &'static str,
    hashes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_data: Option<&'a FileEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) samples: Option<u64>,
    size_limit: Option<u64>,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) zip_data: Option<Option<&'a FileEntry>>,
}

/// An invalid field, and the reason.
pub(super) type FieldFault = (&'static str, String);

/// Value of a field of an object; `expected` describes its type. A missing field is null.
pub(super) fn field<T: DeserializeOwned>(
    object: &Value,
    name: &'static str,
    expected: &str,
) -> Result<T, FieldFault> {
    let value = object.get(name).unwrap_or(&Value::Null);
    T::deserialize(value).map_err(|_| {
        let reason = match object.get(name) {
            None => format!("it is missing; it must be {expected}"),
            Some(Value::Array(_)) => format!("it must be {expected}, not such a list"),
            Some(Value::Object(_)) => format!("it must be {expected}, not an object"),
            Some(value) => format!("it must be {expected}, not {value}"),
        };
        (name, reason)
    })
}

pub(super) const COUNT: &str = "an integer of at least 0";

impl StatedConfig {
    pub(super) fn of(object: &Value) -> Result<Self, FieldFault> {
        Ok(Self {
            column_encodings: field(object, "column_encodings", "a list of strings")?,
            column_names: field(object, "column_names", "a list of strings")?,
            column_sizes: field(object, "column_sizes", "a list of integers and nulls")?,
            compression: field(object, "compression", "a string or null")?,
            format: field(object, "format", "a string")?,
            hashes: field(object, "hashes", "a list of strings")?,
            size_limit: field(object, "size_limit", "an integer of at least 0, or null")?,
            version: field(object, "version", COUNT)?,
        })
    }

    pub(super) fn checked(self) -> Result<ShardConfig, FieldFault> {
        if self.version != 2 {
            return Err(("version", format!("`{}` is not supported; only `2` is", self.version)));
        }
        if self.format != "mds" {
            return Err(("format", format!("`{}` is not `mds`", self.format)));
        }
        if self.column_encodings.len() != self.column_names.len()
            || self.column_sizes.len() != self.column_names.len()
        {
            let counts = format!(
                "{} names, {} encodings and {} sizes do not make columns",
                self.column_names.len(),
                self.column_encodings.len(),
                self.column_sizes.len()
            );
            return Err(("column_names", counts));
        }
        if !self.column_names.is_sorted() {
            return Err(("column_names", "they are not sorted".to_owned()));
        }
        let columns = self
            .column_names
            .iter()
            .zip(&self.column_encodings)
            .map(|(name, encoding)| (name.as_str(), encoding.as_str()));
        let columns =
            Columns::new(columns).map_err(|error| ("column_encodings", error.to_string()))?;
        for (column, size) in columns.iter().zip(&self.column_sizes) {
            let own = column.encoding.size().map(|size| size as u64);
            if own != size.filter(|size| *size > 0) {
                let stated = size.map_or_else(|| "null".to_owned(), |size| size.to_string());
                let what = format!(
                    "column `{}` of encoding `{}` cannot have the size {stated}",
                    column.name, column.encoding_name
                );
                return Err(("column_sizes", what));
            }
        }
        let compression = self
            .compression
            .as_deref()
            .map(Compression::parse)
            .transpose()
            .map_err(|error| ("compression", error.to_string()))?;
        Ok(ShardConfig { columns, compression, hashes: self.hashes, size_limit: self.size_limit })
    }
}

impl ShardConfig {
    /// # Errors
    /// Describes what is wrong with the block.
    pub(super) fn parse(text: &[u8]) -> Result<Self, FieldFault> {
        let object: Value =
            serde_json::from_slice(text).map_err(|error| ("config", error.to_string()))?;
        StatedConfig::of(&object)?.checked()
    }

    /// The block as written to a shard.
    #[must_use]
    pub fn to_json(&self) -> String {
        json_dumps(&self.written(), true)
    }

    /// The caller adds the additional fields of an index entry.
    pub(super) fn written(&self) -> WrittenConfig<'_> {
        WrittenConfig {
            column_encodings: self
                .columns
                .iter()
                .map(|column| column.encoding_name.as_str())
                .collect(),
            column_names: self.columns.iter().map(|column| column.name.as_str()).collect(),
            column_sizes: self.columns.iter().map(|column| column.encoding.size()).collect(),
            compression: self.compression.as_ref().map(Compression::name),
            format: "mds",
            hashes: &self.hashes,
            raw_data: None,
            samples: None,
            size_limit: self.size_limit,
            version: 2,
            zip_data: None,
        }
    }

    /// The first field in which the two differ, with both values.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let names = |config: &Self| {
            config.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>().join(", ")
        };
        let encodings = |config: &Self| {
            config
                .columns
                .iter()
                .map(|column| column.encoding_name.clone())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let compression = |config: &Self| {
            config.compression.as_ref().map_or("null", Compression::name).to_owned()
        };
        let fields = [
            ("column_names", names(self), names(other)),
            ("column_encodings", encodings(self), encodings(other)),
            ("compression", compression(self), compression(other)),
        ];
        fields.into_iter().find(|(_, own, others)| own != others)
    }
}

impl Columns {
    /// Checks two data sets that are to be merged.
    ///
    /// # Errors
    /// [`Error::Encoding`] names the first column that differs.
    pub fn check_equal(&self, other: &Self) -> Result<(), Error> {
        if self == other {
            return Ok(());
        }
        let differing =
            self.iter().find(|own| !other.iter().any(|column| column == *own)).or_else(|| {
                let is_absent = |column: &&super::Column| !self.iter().any(|own| own == *column);
                other.iter().find(is_absent)
            });
        let (column, encoding) = differing.map_or_else(Default::default, |column| {
            (column.name.clone(), column.encoding_name.clone())
        });
        Err(Error::Encoding { column, encoding, reason: "the other data set has a different one" })
    }
}
