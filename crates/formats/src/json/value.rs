//! The values of one column as JSON.

use super::python::{JSON_NAMES, write_float};
use super::{Dialect, Unwritable};
use crate::table::type_name;
use arrow_array::cast::AsArray;
use arrow_array::timezone::Tz;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeBinaryArray, LargeStringArray, OffsetSizeTrait,
    PrimitiveArray, StringArray, StringViewArray, make_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::parse::string_to_datetime;
use arrow_schema::{ArrowError, DataType};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use half::f16;
use std::collections::HashSet;
use std::fmt::Debug;
use std::io::Write;

const UTC: &str = "+00:00";

/// Writes values of a column.
#[derive(Debug)]
pub struct ValueEncoder {
    column: String,
    dialect: Dialect,
    nulls: Option<NullBuffer>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Null,
    Boolean(BooleanArray),
    Number(Box<dyn Numbers>),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    List(OffsetBuffer<i32>, Box<ValueEncoder>),
    LargeList(OffsetBuffer<i64>, Box<ValueEncoder>),
    FixedList(usize, Box<ValueEncoder>),
    Object(Vec<(Vec<u8>, ValueEncoder)>),
    /// Keys and values.
    Map(OffsetBuffer<i32>, Box<[ValueEncoder; 2]>),
    Base64(LargeBinaryArray),
    /// Text formatted by `arrow-cast`, either quoted or numbers.
    Displayed {
        array: ArrayRef,
        is_quoted: bool,
    },
    /// Times of a named zone, and the same times in UTC.
    Zoned {
        local: ArrayRef,
        utc: ArrayRef,
    },
}

/// Numbers of one type.
trait Numbers: Debug + Send + Sync {
    /// Returns false for a number that the dialect does not support.
    fn write(&self, row: usize, dialect: Dialect, out: &mut Vec<u8>) -> bool;
}

impl<T: ArrowPrimitiveType<Native: Spell>> Numbers for PrimitiveArray<T> {
    fn write(&self, row: usize, dialect: Dialect, out: &mut Vec<u8>) -> bool {
        self.values().get(row).is_some_and(|value| value.spell(dialect, out))
    }
}

trait Spell {
    fn spell(&self, dialect: Dialect, out: &mut Vec<u8>) -> bool;
}

macro_rules! spell {
    ($($integer:ty)*; $($float:ty: $shortest:expr;)*) => {
        $(impl Spell for $integer {
            fn spell(&self, _dialect: Dialect, out: &mut Vec<u8>) -> bool {
                write!(out, "{self}").is_ok()
            }
        })*
        $(impl Spell for $float {
            fn spell(&self, dialect: Dialect, out: &mut Vec<u8>) -> bool {
                write_float_as(&$shortest(*self), f64::from(*self), dialect, out)
            }
        })*
    };
}

spell!(i8 i16 i32 i64 u8 u16 u32 u64; f64: f64::from; f32: f32::from; f16: f16::to_f32;);

/// The shortest spelling of `value` that distinguishes a float from an integer. Python uses its
/// `wide` form.
fn write_float_as(value: &impl Debug, wide: f64, dialect: Dialect, out: &mut Vec<u8>) -> bool {
    match dialect {
        Dialect::Python => write_float(wide, JSON_NAMES, out),
        Dialect::Document if !wide.is_finite() => out.extend_from_slice(b"null"),
        _ => return wide.is_finite() && write!(out, "{value:?}").is_ok(),
    }
    true
}

fn numbers<T: ArrowPrimitiveType<Native: Spell>>(array: &ArrayRef) -> Values {
    Values::Number(Box::new(array.as_primitive::<T>().clone()))
}

impl ValueEncoder {
    /// # Errors
    /// [`Unwritable::Type`] for a type that the dialect does not support.
    pub fn new(column: &str, array: &ArrayRef, dialect: Dialect) -> Result<Self, Unwritable> {
        let inner = |array: &ArrayRef| Self::new(column, array, dialect).map(Box::new);
        let refused = || Unwritable::Type {
            column: column.to_owned(),
            data_type: type_name(array.data_type()),
        };
        if !dialect.holds(array.data_type()) {
            return Err(refused());
        }
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
            DataType::Int8 => numbers::<Int8Type>(array),
            DataType::Int16 => numbers::<Int16Type>(array),
            DataType::Int32 => numbers::<Int32Type>(array),
            DataType::Int64 => numbers::<Int64Type>(array),
            DataType::UInt8 => numbers::<UInt8Type>(array),
            DataType::UInt16 => numbers::<UInt16Type>(array),
            DataType::UInt32 => numbers::<UInt32Type>(array),
            DataType::UInt64 => numbers::<UInt64Type>(array),
            DataType::Float16 => numbers::<Float16Type>(array),
            DataType::Float32 => numbers::<Float32Type>(array),
            DataType::Float64 => numbers::<Float64Type>(array),
            DataType::Utf8 => Values::Text(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 => Values::LargeText(array.as_string::<i64>().clone()),
            DataType::Utf8View => Values::TextView(array.as_string_view().clone()),
            DataType::List(_) => Values::List(
                array.as_list::<i32>().offsets().clone(),
                inner(array.as_list::<i32>().values())?,
            ),
            DataType::LargeList(_) => Values::LargeList(
                array.as_list::<i64>().offsets().clone(),
                inner(array.as_list::<i64>().values())?,
            ),
            DataType::FixedSizeList(_, len) => {
                let values = array.as_fixed_size_list().values();
                Values::FixedList(usize::try_from(*len).unwrap_or_default(), inner(values)?)
            }
            DataType::Struct(fields) => {
                let mut members = Vec::with_capacity(fields.len());
                let (comma, colon) = dialect.separators();
                for (number, (field, member)) in
                    fields.iter().zip(array.as_struct().columns()).enumerate()
                {
                    let mut key = if number == 0 { Vec::new() } else { comma.to_vec() };
                    dialect.quote(field.name(), &mut key);
                    key.extend_from_slice(colon);
                    members.push((key, Self::new(column, member, dialect)?));
                }
                Values::Object(members)
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Values::Map(
                    map.offsets().clone(),
                    Box::new([
                        Self::new(column, map.keys(), dialect)?,
                        Self::new(column, map.values(), dialect)?,
                    ]),
                )
            }
            DataType::Dictionary(_, value) => {
                return Self::new(
                    column,
                    &cast(array, value).map_err(|_unknown| refused())?,
                    dialect,
                );
            }
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Values::Base64(
                cast(array, &DataType::LargeBinary)
                    .map_err(|_unknown| refused())?
                    .as_binary::<i64>()
                    .clone(),
            ),
            // Converting a named zone needs a time zone data base that may be missing; the instant
            // in UTC is always the same.
            DataType::Timestamp(unit, Some(zone)) if !zone.starts_with(['+', '-']) => {
                let instants = array
                    .to_data()
                    .into_builder()
                    .data_type(DataType::Timestamp(*unit, Some(UTC.into())))
                    .build();
                let utc = make_array(instants.map_err(|_unknown| refused())?);
                match dialect {
                    Dialect::Document => Values::Displayed { array: utc, is_quoted: true },
                    _ => Values::Zoned { local: ArrayRef::clone(array), utc },
                }
            }
            other => Values::Displayed {
                array: ArrayRef::clone(array),
                is_quoted: dialect == Dialect::Document || !other.is_decimal(),
            },
        };
        Ok(Self { column: column.to_owned(), dialect, nulls: array.logical_nulls(), values })
    }

    #[must_use]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| row < nulls.len() && nulls.is_null(row))
    }

    /// Appends the value of `row`.
    ///
    /// # Errors
    /// [`Unwritable::Number`] for a non-finite number, if the dialect does not support it, and
    /// [`Unwritable::Value`] for a value that it cannot spell, such as a map with a key twice.
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
            Values::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            }
            Values::Number(values) => {
                if !values.write(row, self.dialect, out) {
                    return Err(Reason::Number(
                        "a number that is not finite (nan or inf)".to_owned(),
                    ));
                }
            }
            Values::Text(values) => self.dialect.quote(values.value(row), out),
            Values::LargeText(values) => self.dialect.quote(values.value(row), out),
            Values::TextView(values) => self.dialect.quote(values.value(row), out),
            Values::Base64(values) => self.dialect.quote(&STANDARD.encode(values.value(row)), out),
            Values::List(offsets, items) => items.append_items(range_of(offsets, row), out)?,
            Values::LargeList(offsets, items) => items.append_items(range_of(offsets, row), out)?,
            Values::FixedList(len, items) => {
                items.append_items((row * len, (row + 1) * len), out)?;
            }
            Values::Object(members) => {
                out.push(b'{');
                for (key, member) in members {
                    out.extend_from_slice(key);
                    member.append(row, out)?;
                }
                out.push(b'}');
            }
            Values::Map(offsets, entries) => {
                self.append_entries(range_of(offsets, row), entries, out)?;
            }
            Values::Displayed { array, is_quoted } => {
                let text =
                    displayed(array, row).map_err(|error| Reason::Text(error.to_string()))?;
                if *is_quoted {
                    self.dialect.quote(&text, out);
                } else {
                    out.extend_from_slice(text.as_bytes());
                }
            }
            Values::Zoned { local, utc } => {
                let text =
                    |array| displayed(array, row).map_err(|error| Reason::Text(error.to_string()));
                let (local, utc) = (text(local)?, text(utc)?);
                self.dialect.quote(if is_same_time(&local, &utc) { &local } else { &utc }, out);
            }
        }
        Ok(())
    }

    fn append_items(&self, (start, end): (usize, usize), out: &mut Vec<u8>) -> Result<(), Reason> {
        out.push(b'[');
        for item in start..end {
            if item > start {
                out.extend_from_slice(self.dialect.separators().0);
            }
            self.append(item, out)?;
        }
        out.push(b']');
        Ok(())
    }

    fn append_entries(
        &self,
        (start, end): (usize, usize),
        [keys, values]: &[Self; 2],
        out: &mut Vec<u8>,
    ) -> Result<(), Reason> {
        let (comma, colon) = self.dialect.separators();
        let mut known = HashSet::new();
        out.push(b'{');
        for entry in start..end {
            out.extend_from_slice(if entry > start { comma } else { b"" });
            let key = out.len();
            keys.append(entry, out)?;
            // A key that is not text becomes its JSON text.
            if out.get(key) != Some(&b'"') {
                let text = String::from_utf8_lossy(&out.split_off(key)).into_owned();
                self.dialect.quote(&text, out);
            }
            let written = out.get(key..).unwrap_or_default();
            // Other JSON is shown, and not read again.
            if self.dialect == Dialect::Python && !known.insert(written.to_vec()) {
                let key = String::from_utf8_lossy(written);
                return Err(Reason::Text(format!("a map has the key {key} twice")));
            }
            out.extend_from_slice(colon);
            values.append(entry, out)?;
        }
        out.push(b'}');
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

fn displayed(array: &ArrayRef, row: usize) -> Result<String, ArrowError> {
    ArrayFormatter::try_new(array, &FormatOptions::new())?.value(row).try_to_string()
}

/// The text of a local time has minutes of its distance from UTC. Around 1900,
/// zones had seconds as well.
fn is_same_time(local: &str, utc: &str) -> bool {
    let Ok(zone) = UTC.parse::<Tz>() else { return false };
    matches!(
        (string_to_datetime(&zone, local), string_to_datetime(&zone, utc)),
        (Ok(local), Ok(utc)) if local == utc
    )
}
