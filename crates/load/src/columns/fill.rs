//! Values that replace nulls.

use super::numbers::Numbers;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use std::fmt::{Display, Formatter};
use std::sync::Arc;

/// A value of `fill_values`.
#[derive(Debug, Clone, PartialEq)]
pub enum FillValue {
    Boolean(bool),
    Integer(i128),
    Float(f64),
    /// A date or a time in ISO 8601.
    Text(String),
}

const CHECKED: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

impl FillValue {
    /// Zero, or false.
    pub(crate) fn zero(element: &DataType) -> Self {
        if *element == DataType::Boolean { Self::Boolean(false) } else { Self::Integer(0) }
    }

    /// The value as an array of one number, like [`Self::to_number`].
    pub(crate) fn to_array(&self, element: &DataType) -> Option<ArrayRef> {
        self.to_number(element)?;
        self.cast_to(element)
    }

    /// The value as one number of the type `element`; `None` if the type cannot hold it. Only
    /// floats are rounded.
    pub(super) fn to_number(&self, element: &DataType) -> Option<Numbers> {
        let (number, nulls) = Numbers::take(self.cast_to(element)?).ok()?;
        let overflows = |is_infinite: bool| {
            is_infinite && !matches!(self, Self::Float(value) if value.is_infinite())
        };
        let fits = match &number {
            Numbers::Float16(values) => !overflows(values.iter().any(|value| value.is_infinite())),
            Numbers::Float32(values) => !overflows(values.iter().any(|value| value.is_infinite())),
            _ => true,
        };
        (nulls.is_none() && number.len() == 1 && fits).then_some(number)
    }

    fn cast_to(&self, element: &DataType) -> Option<ArrayRef> {
        let is_float = element.is_floating();
        let array: ArrayRef = match self {
            Self::Boolean(value) if *element == DataType::Boolean => {
                Arc::new(BooleanArray::from(vec![*value]))
            }
            Self::Integer(value) if *element != DataType::Boolean => {
                match (i64::try_from(*value), u64::try_from(*value)) {
                    (Ok(value), _) => Arc::new(Int64Array::from(vec![value])),
                    (_, Ok(value)) => Arc::new(UInt64Array::from(vec![value])),
                    _ => return None,
                }
            }
            Self::Float(value) if is_float => Arc::new(Float64Array::from(vec![*value])),
            Self::Text(text) if element.is_temporal() => {
                Arc::new(StringArray::from(vec![text.as_str()]))
            }
            _ => return None,
        };
        // Counts of units: Arrow casts 32-bit types from 32-bit integers only.
        let array = match (self, element) {
            (Self::Integer(_), DataType::Date32 | DataType::Time32(_)) => {
                cast_with_options(&array, &DataType::Int32, &CHECKED).ok()?
            }
            _ => array,
        };
        cast_with_options(&array, element, &CHECKED).ok()
    }
}

impl Display for FillValue {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Boolean(true) => formatter.write_str("True"),
            Self::Boolean(false) => formatter.write_str("False"),
            Self::Integer(value) => write!(formatter, "{value}"),
            Self::Float(value) => write!(formatter, "{value}"),
            Self::Text(value) => write!(formatter, "{value:?}"),
        }
    }
}
