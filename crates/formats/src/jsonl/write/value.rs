//! The values of one column as JSON.

use super::Unwritable;
use super::text::quote;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, LargeStringArray, OffsetSizeTrait, PrimitiveArray, StringArray, StringViewArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use std::fmt::Display;
use std::io::Write;

/// Writes single values of a column.
pub struct ValueEncoder {
    column: String,
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Null,
    Boolean(BooleanArray),
    Integer(Box<dyn WriteNumber>),
    Float(Box<dyn WriteNumber>),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    List(OffsetBuffer<i32>, Box<ValueEncoder>),
    LargeList(OffsetBuffer<i64>, Box<ValueEncoder>),
    FixedList(usize, Box<ValueEncoder>),
    Object(Vec<(Vec<u8>, ValueEncoder)>),
    /// Texts that `arrow-cast` makes; in quotes, or numbers.
    Displayed {
        array: ArrayRef,
        is_quoted: bool,
    },
}

/// False for a number that JSON lacks.
trait WriteNumber: Send {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> bool;
}

struct Integers<T: ArrowPrimitiveType>(PrimitiveArray<T>);
struct Floats<T: ArrowPrimitiveType>(PrimitiveArray<T>);

impl<T: ArrowPrimitiveType<Native: Display>> WriteNumber for Integers<T> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> bool {
        self.0.values().get(row).is_some_and(|value| write!(out, "{value}").is_ok())
    }
}

impl WriteNumber for Floats<Float64Type> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> bool {
        // Of the two shortest spellings, the one that keeps a float apart from an integer.
        self.0.values().get(row).is_some_and(|value| value.is_finite() && write!(out, "{value:?}").is_ok())
    }
}

impl WriteNumber for Floats<Float32Type> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> bool {
        self.0.values().get(row).is_some_and(|value| value.is_finite() && write!(out, "{value:?}").is_ok())
    }
}

impl WriteNumber for Floats<Float16Type> {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> bool {
        self.0.values().get(row).is_some_and(|value| value.is_finite() && write!(out, "{:?}", value.to_f32()).is_ok())
    }
}

fn integers<T: ArrowPrimitiveType<Native: Display>>(array: &ArrayRef) -> Values {
    Values::Integer(Box::new(Integers(array.as_primitive::<T>().clone())))
}

impl ValueEncoder {
    /// # Errors
    /// [`Unwritable::Type`] for a type that JSON does not have.
    pub fn new(column: &str, array: &ArrayRef) -> Result<Self, Unwritable> {
        let inner = |array: &ArrayRef| Self::new(column, array).map(Box::new);
        let refused = || Unwritable::Type { column: column.to_owned(), data_type: array.data_type().to_string() };
        if !super::holds(array.data_type()) {
            return Err(refused());
        }
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
            DataType::Int8 => integers::<Int8Type>(array),
            DataType::Int16 => integers::<Int16Type>(array),
            DataType::Int32 => integers::<Int32Type>(array),
            DataType::Int64 => integers::<Int64Type>(array),
            DataType::UInt8 => integers::<UInt8Type>(array),
            DataType::UInt16 => integers::<UInt16Type>(array),
            DataType::UInt32 => integers::<UInt32Type>(array),
            DataType::UInt64 => integers::<UInt64Type>(array),
            DataType::Float16 => Values::Float(Box::new(Floats(array.as_primitive::<Float16Type>().clone()))),
            DataType::Float32 => Values::Float(Box::new(Floats(array.as_primitive::<Float32Type>().clone()))),
            DataType::Float64 => Values::Float(Box::new(Floats(array.as_primitive::<Float64Type>().clone()))),
            DataType::Utf8 => Values::Text(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 => Values::LargeText(array.as_string::<i64>().clone()),
            DataType::Utf8View => Values::TextView(array.as_string_view().clone()),
            DataType::List(_) => Values::List(array.as_list::<i32>().offsets().clone(), inner(array.as_list::<i32>().values())?),
            DataType::LargeList(_) => Values::LargeList(array.as_list::<i64>().offsets().clone(), inner(array.as_list::<i64>().values())?),
            DataType::FixedSizeList(_, len) => {
                let values = array.as_fixed_size_list().values();
                Values::FixedList(usize::try_from(*len).unwrap_or_default(), inner(values)?)
            }
            DataType::Struct(fields) => {
                let mut members = Vec::with_capacity(fields.len());
                for (number, (field, member)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
                    let mut key = if number == 0 { Vec::new() } else { vec![b','] };
                    quote(field.name(), &mut key);
                    key.push(b':');
                    members.push((key, Self::new(column, member)?));
                }
                Values::Object(members)
            }
            DataType::Dictionary(_, value) => return Self::new(column, &cast(array, value).map_err(|_unknown| refused())?),
            other => {
                let is_number =
                    matches!(other, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..));
                Values::Displayed { array: ArrayRef::clone(array), is_quoted: !is_number }
            }
        };
        Ok(Self { column: column.to_owned(), nulls: array.logical_nulls(), values })
    }

    #[must_use]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| row < nulls.len() && nulls.is_null(row))
    }

    /// Appends the value of `row`.
    ///
    /// # Errors
    /// [`Unwritable::Number`] for what is not finite.
    pub fn write(&self, row: usize, first_row: u64, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        self.append(row, out).map_err(|reason| {
            let (column, row) = (self.column.clone(), first_row + row as u64);
            match reason {
                Reason::Number(value) => Unwritable::Number { column, row, value },
                Reason::Text(reason) => Unwritable::Value { column, row, reason },
            }
        })
    }

    fn append(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Reason> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match &self.values {
            Values::Null => out.extend_from_slice(b"null"),
            Values::Boolean(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            Values::Integer(values) => {
                values.write(row, out);
            }
            Values::Float(values) => {
                if !values.write(row, out) {
                    return Err(Reason::Number("a number that is not finite (nan or inf)".to_owned()));
                }
            }
            Values::Text(values) => quote(values.value(row), out),
            Values::LargeText(values) => quote(values.value(row), out),
            Values::TextView(values) => quote(values.value(row), out),
            Values::List(offsets, items) => items.append_items(range_of(offsets, row), out)?,
            Values::LargeList(offsets, items) => items.append_items(range_of(offsets, row), out)?,
            Values::FixedList(len, items) => items.append_items((row * len, (row + 1) * len), out)?,
            Values::Object(members) => {
                out.push(b'{');
                for (key, member) in members {
                    out.extend_from_slice(key);
                    member.append(row, out)?;
                }
                out.push(b'}');
            }
            Values::Displayed { array, is_quoted } => append_displayed(array, row, *is_quoted, out)?,
        }
        Ok(())
    }

    fn append_items(&self, (start, end): (usize, usize), out: &mut Vec<u8>) -> Result<(), Reason> {
        out.push(b'[');
        for item in start..end {
            if item > start {
                out.push(b',');
            }
            self.append(item, out)?;
        }
        out.push(b']');
        Ok(())
    }
}

enum Reason {
    Number(String),
    Text(String),
}

fn range_of<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, row: usize) -> (usize, usize) {
    let at = |index: usize| offsets.get(index).map_or(0, |offset| offset.as_usize());
    (at(row), at(row + 1))
}

fn append_displayed(array: &ArrayRef, row: usize, is_quoted: bool, out: &mut Vec<u8>) -> Result<(), Reason> {
    let failed = |error: arrow_schema::ArrowError| Reason::Text(error.to_string());
    let options = FormatOptions::new();
    let formatter = ArrayFormatter::try_new(array, &options).map_err(failed)?;
    let text = formatter.value(row).try_to_string().map_err(failed)?;
    if is_quoted {
        quote(&text, out);
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    Ok(())
}
