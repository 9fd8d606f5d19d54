//! Parses single values from text, with the spellings that pyarrow accepts.
//!
//! Returns a native value, or `None` if the text does not fit the type: nothing is rounded to an
//! integer, wrapped or truncated. Floats are rounded to the nearest.

mod decimal;
mod number;
mod parse;
mod time;

use decimal::Decimal;
use number::Float;
pub(crate) use number::{Integer, is_beyond, is_float, is_rounded};
pub(crate) use parse::Parse;
use time::Timestamp;
pub(crate) use time::{Date, Stamp, TimeOfDay};

use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, TimeUnit};

/// A callback that receives the parser of a type.
pub(crate) trait UseParser {
    type Made;

    fn with<P: Parse + 'static>(self, parser: P) -> Self::Made;
}

/// Calls `user` with the parser of `data_type`; `None` when values of this type are not parsed one
/// by one.
pub(crate) fn with_parser<U: UseParser>(data_type: &DataType, user: U) -> Option<U::Made> {
    Some(match data_type {
        DataType::Int8 => user.with(Integer::<Int8Type>::new()),
        DataType::Int16 => user.with(Integer::<Int16Type>::new()),
        DataType::Int32 => user.with(Integer::<Int32Type>::new()),
        DataType::Int64 => user.with(Integer::<Int64Type>::new()),
        DataType::UInt8 => user.with(Integer::<UInt8Type>::new()),
        DataType::UInt16 => user.with(Integer::<UInt16Type>::new()),
        DataType::UInt32 => user.with(Integer::<UInt32Type>::new()),
        DataType::UInt64 => user.with(Integer::<UInt64Type>::new()),
        DataType::Float32 => user.with(Float::<Float32Type>::new()),
        DataType::Float64 => user.with(Float::<Float64Type>::new()),
        DataType::Date32 => user.with(Date),
        DataType::Time32(unit @ TimeUnit::Second) => {
            user.with(TimeOfDay::<Time32SecondType>::new(*unit))
        }
        DataType::Time32(unit @ TimeUnit::Millisecond) => {
            user.with(TimeOfDay::<Time32MillisecondType>::new(*unit))
        }
        DataType::Time64(unit @ TimeUnit::Microsecond) => {
            user.with(TimeOfDay::<Time64MicrosecondType>::new(*unit))
        }
        DataType::Time64(unit @ TimeUnit::Nanosecond) => {
            user.with(TimeOfDay::<Time64NanosecondType>::new(*unit))
        }
        DataType::Timestamp(unit, zone) => match unit {
            TimeUnit::Second => {
                user.with(Timestamp::<TimestampSecondType>::new(*unit, zone.is_some()))
            }
            TimeUnit::Millisecond => {
                user.with(Timestamp::<TimestampMillisecondType>::new(*unit, zone.is_some()))
            }
            TimeUnit::Microsecond => {
                user.with(Timestamp::<TimestampMicrosecondType>::new(*unit, zone.is_some()))
            }
            TimeUnit::Nanosecond => {
                user.with(Timestamp::<TimestampNanosecondType>::new(*unit, zone.is_some()))
            }
        },
        DataType::Decimal32(precision, scale) => {
            user.with(Decimal::<Decimal32Type>::new(*precision, *scale)?)
        }
        DataType::Decimal64(precision, scale) => {
            user.with(Decimal::<Decimal64Type>::new(*precision, *scale)?)
        }
        DataType::Decimal128(precision, scale) => {
            user.with(Decimal::<Decimal128Type>::new(*precision, *scale)?)
        }
        DataType::Decimal256(precision, scale) => {
            user.with(Decimal::<Decimal256Type>::new(*precision, *scale)?)
        }
        _ => return None,
    })
}

/// The spellings of pyarrow.
pub(crate) fn parse_bool(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"true" | b"True" | b"TRUE" => Some(true),
        b"0" | b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
