//! Arrow values as JSON, for all formats that contain JSON.
//!
//! Numbers are written so that they round-trip: integers with all digits, floats with as many as
//! needed. The invariant: values that a [`Dialect`] does not support are rejected, and nothing is
//! rounded or omitted.

mod python;
mod text;
mod value;

pub use python::{as_float, json_dumps, json_loads, json_loads_finite};
pub(crate) use python::{json_fault, write_float};
pub(crate) use text::quote;
pub use value::ValueEncoder;

use arrow_schema::{DataType, FieldRef};
use text::quote_ascii;

/// Variants of JSON where readers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Accepted by all readers, without spaces. Non-finite numbers are rejected.
    Plain,
    /// As written by Python's `json.dumps`: with spaces, in ASCII,
    /// with names for non-finite numbers.
    Python,
    /// As used for documents: `json.dumps(…, ensure_ascii=False)`. Supports every type: decimals
    /// and times as text, binaries as base64, non-finite numbers as null.
    Document,
}

impl Dialect {
    /// Whether the dialect supports this type.
    #[must_use]
    pub fn holds(self, data_type: &DataType) -> bool {
        let holds = |field: &FieldRef| self.holds(field.data_type());
        match data_type {
            _ if self == Self::Document => true,
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                holds(item)
            }
            DataType::Struct(fields) => fields.iter().all(holds),
            DataType::Dictionary(_, value) => self.holds(value),
            DataType::Null
            | DataType::Boolean
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View => true,
            number if number.is_integer() || number.is_floating() => true,
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(parts) => {
                    matches!(
                        &parts[..],
                        [key, value]
                            if self == Self::Python && key.data_type().is_string() && holds(value)
                    )
                }
                _ => false,
            },
            DataType::Duration(_) | DataType::Interval(_) => false,
            other => self == Self::Plain && (other.is_decimal() || other.is_temporal()),
        }
    }

    fn separators(self) -> (&'static [u8], &'static [u8]) {
        if self == Self::Plain { (b",", b":") } else { (b", ", b": ") }
    }

    fn quote(self, text: &str, out: &mut Vec<u8>) {
        if self == Self::Python { quote_ascii(text, out) } else { quote(text, out) }
    }
}

/// Why rows cannot be written as JSON.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Unwritable {
    #[error("Column `{column}` is {data_type}, and JSON has no such values")]
    Type { column: String, data_type: String },
    #[error("Row {row} has {value} in column `{column}`, and JSON has no such number")]
    Number { column: String, row: u64, value: String },
    #[error("Row {row} has a value in column `{column}` that has no text: {reason}")]
    Value { column: String, row: u64, reason: String },
}

impl Unwritable {
    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Type { .. } => Some(
                "leave the column out by columns=[…], convert it to text (base64 for binaries), \
                 or write Parquet",
            ),
            Self::Number { .. } => Some("make it a null, or write Parquet"),
            Self::Value { .. } => None,
        }
    }
}
