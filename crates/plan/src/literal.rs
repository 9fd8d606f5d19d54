//! Constants of a filter, and their cast to the type of a column.
//!
//! The invariant: a comparison is never made on a rounded value. A literal that the column's type cannot hold exactly moves the comparison to a wider
//! type instead.

use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::DataType;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", untagged)]
pub enum Literal {
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

impl TryFrom<serde_json::Value> for Literal {
    type Error = String;

    fn try_from(value: serde_json::Value) -> std::result::Result<Self, String> {
        use serde_json::Value;
        let number = |number: &serde_json::Number| {
            let integer = number.as_i64().map(Self::Integer).or_else(|| number.as_u64().map(Self::Unsigned));
            integer.or_else(|| number.as_f64().map(Self::Float))
        };
        match &value {
            Value::Bool(boolean) => Some(Self::Boolean(*boolean)),
            Value::Number(digits) => number(digits),
            Value::String(text) => Some(Self::Text(text.clone())),
            _ => None,
        }
        .ok_or_else(|| format!("a filter compares with a boolean, number or string, not {value}"))
    }
}

const CHECKED: CastOptions<'static> = CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

impl Literal {
    fn to_array(&self) -> ArrayRef {
        match self {
            Self::Boolean(value) => Arc::new(BooleanArray::from(vec![*value])),
            Self::Integer(value) => Arc::new(Int64Array::from(vec![*value])),
            Self::Unsigned(value) => Arc::new(UInt64Array::from(vec![*value])),
            Self::Float(value) => Arc::new(Float64Array::from(vec![*value])),
            Self::Text(value) => Arc::new(StringArray::from(vec![value.as_str()])),
        }
    }

    /// The literal and the column in one type in which both are exact.
    pub(crate) fn align(&self, name: &str, column: &ArrayRef) -> Result<(ArrayRef, ArrayRef)> {
        let refused = || Error::LiteralType { column: name.to_owned(), data_type: column.data_type().clone(), literal: self.to_string() };
        let failed = |source| Error::Evaluate { column: name.to_owned(), source };
        let column = match column.data_type() {
            DataType::Dictionary(_, value) => cast_with_options(column, value, &CHECKED).map_err(failed)?,
            _ => Arc::clone(column),
        };
        let literal = self.to_array();
        if !self.fits(column.data_type()) {
            return Err(refused());
        }
        match cast_with_options(&literal, column.data_type(), &CHECKED) {
            Ok(same) if self.is_kept_by(&same) => Ok((column, same)),
            // 1.5 or 300 against a small integer column: a type that holds both.
            _ if column.data_type().is_numeric() && can_cast_types(column.data_type(), &DataType::Float64) => {
                let wide = |array: &ArrayRef| cast_with_options(array, &DataType::Float64, &CHECKED).map_err(failed);
                Ok((wide(&column)?, wide(&literal)?))
            }
            _ => Err(refused()),
        }
    }

    fn fits(&self, data_type: &DataType) -> bool {
        match self {
            Self::Boolean(_) => matches!(data_type, DataType::Boolean),
            Self::Integer(_) | Self::Unsigned(_) | Self::Float(_) => data_type.is_numeric(),
            Self::Text(_) => matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) || data_type.is_temporal(),
        }
    }

    fn is_kept_by(&self, cast: &ArrayRef) -> bool {
        if matches!(self, Self::Text(_) | Self::Boolean(_)) {
            return true;
        }
        let original = self.to_array();
        cast_with_options(cast, original.data_type(), &CHECKED).is_ok_and(|back| back.to_data() == original.to_data())
    }
}

impl std::fmt::Display for Literal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Boolean(value) => write!(formatter, "the boolean {value}"),
            Self::Integer(value) => write!(formatter, "the integer {value}"),
            Self::Unsigned(value) => write!(formatter, "the integer {value}"),
            Self::Float(value) => write!(formatter, "the float {value}"),
            Self::Text(value) => write!(formatter, "the string {value:?}"),
        }
    }
}
