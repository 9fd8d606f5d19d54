//! What a shard says of itself: the block between its offsets and its samples, which its entry in the index repeats.

use super::{Columns, Compression, Error, json};
use serde::Deserialize;

/// How a shard was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardConfig {
    pub columns: Columns,
    pub compression: Option<Compression>,
    /// Names of algorithms, also of those that nobody here knows.
    pub hashes: Vec<String>,
    pub size_limit: Option<u64>,
}

/// As it stands in JSON, unknown keys left out.
#[derive(Debug, Deserialize)]
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

/// A field that cannot be, and why.
pub(super) type FieldFault = (&'static str, String);

impl StatedConfig {
    pub(super) fn checked(self) -> Result<ShardConfig, FieldFault> {
        if self.version != 2 {
            return Err(("version", format!("`{}` is read by nobody here, `2` is", self.version)));
        }
        if self.format != "mds" {
            return Err(("format", format!("`{}` is not `mds`", self.format)));
        }
        if self.column_encodings.len() != self.column_names.len() || self.column_sizes.len() != self.column_names.len() {
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
        let columns = self.column_names.iter().zip(&self.column_encodings).map(|(name, encoding)| (name.as_str(), encoding.as_str()));
        let columns = Columns::new(columns).map_err(|error| ("column_encodings", error.to_string()))?;
        for (column, size) in columns.iter().zip(&self.column_sizes) {
            let own = column.encoding.size().map(|size| size as u64);
            if own != size.filter(|size| *size > 0) {
                return Err(("column_sizes", format!("column `{}` of encoding `{}` cannot have {size:?}", column.name, column.encoding_name)));
            }
        }
        let compression = self.compression.as_deref().map(Compression::parse).transpose().map_err(|error| ("compression", error.to_string()))?;
        Ok(ShardConfig { columns, compression, hashes: self.hashes, size_limit: self.size_limit })
    }
}

impl ShardConfig {
    /// # Errors
    /// Tells what is wrong with the block.
    pub(super) fn parse(text: &[u8]) -> Result<Self, FieldFault> {
        serde_json::from_slice::<StatedConfig>(text).map_err(|error| ("config", error.to_string()))?.checked()
    }

    /// The block as it stands in a shard.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = String::from("{");
        self.write_head(&mut text);
        text.push_str(", ");
        self.write_tail(&mut text);
        text.push('}');
        text
    }

    /// Fields up to the one behind which an index puts its own.
    pub(super) fn write_head(&self, out: &mut String) {
        out.push_str("\"column_encodings\": ");
        write_list(self.columns.iter(), out, |column, out| json::write_text(&column.encoding_name, out));
        out.push_str(", \"column_names\": ");
        write_list(self.columns.iter(), out, |column, out| json::write_text(&column.name, out));
        out.push_str(", \"column_sizes\": ");
        write_list(self.columns.iter(), out, |column, out| write_number(column.encoding.size().map(|size| size as u64), out));
        out.push_str(", \"compression\": ");
        match &self.compression {
            Some(compression) => json::write_text(compression.name(), out),
            None => out.push_str("null"),
        }
        out.push_str(", \"format\": \"mds\", \"hashes\": ");
        write_list(self.hashes.iter(), out, |hash, out| json::write_text(hash, out));
    }

    pub(super) fn write_tail(&self, out: &mut String) {
        out.push_str("\"size_limit\": ");
        write_number(self.size_limit, out);
        out.push_str(", \"version\": 2");
    }

    /// The first field in which two of them differ, with both values.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let names = |config: &Self| config.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>().join(", ");
        let encodings = |config: &Self| config.columns.iter().map(|column| column.encoding_name.clone()).collect::<Vec<_>>().join(", ");
        let compression = |config: &Self| config.compression.as_ref().map_or("null", Compression::name).to_owned();
        let fields = [
            ("column_names", names(self), names(other)),
            ("column_encodings", encodings(self), encodings(other)),
            ("compression", compression(self), compression(other)),
        ];
        fields.into_iter().find(|(_, own, others)| own != others)
    }
}

pub(super) fn write_list<T>(items: impl Iterator<Item = T>, out: &mut String, write: impl Fn(T, &mut String)) {
    out.push('[');
    for (number, item) in items.enumerate() {
        out.push_str(if number == 0 { "" } else { ", " });
        write(item, out);
    }
    out.push(']');
}

fn write_number(number: Option<u64>, out: &mut String) {
    match number {
        Some(number) => out.push_str(&number.to_string()),
        None => out.push_str("null"),
    }
}

impl Columns {
    /// Of two data sets that are to be one.
    ///
    /// # Errors
    /// [`Error::Encoding`] names the first column that differs.
    pub fn check_equal(&self, other: &Self) -> Result<(), Error> {
        if self == other {
            return Ok(());
        }
        let differing = self.iter().find(|own| !other.iter().any(|column| column == *own)).or_else(|| {
            let is_absent = |column: &&super::Column| !self.iter().any(|own| own == *column);
            other.iter().find(is_absent)
        });
        let (column, encoding) = differing.map_or_else(Default::default, |column| (column.name.clone(), column.encoding_name.clone()));
        Err(Error::Encoding { column, encoding, reason: "the other data set does not have it so" })
    }
}
