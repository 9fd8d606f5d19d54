//! Integers and floats.

use super::parse::{Parse, trim};
use arrow_array::ArrowPrimitiveType;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_schema::DataType;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

/// This many digits fit into 64 bits.
const MAX_DIGITS: usize = 18;

/// Decimal digits with an optional minus sign, or hexadecimal digits, as in pyarrow.
pub(crate) struct Integer<T>(PhantomData<T>);

/// A decimal number with an optional exponent, `inf` or `nan`.
pub(crate) struct Float<T>(PhantomData<T>);

impl<T> Integer<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Float<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

fn plain_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > MAX_DIGITS {
        return None;
    }
    let mut value = 0i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if is_negative { -value } else { value })
}

fn any_integer(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// The digits after `0x`.
fn hexadecimal(text: &[u8]) -> Option<&str> {
    let [b'0', b'x' | b'X', digits @ ..] = text else { return None };
    let is_plain = digits.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(digits).ok().filter(|_| is_plain)
}

macro_rules! integer {
    ($arrow:ty, $unsigned:ty, $convert:expr) => {
        impl Parse for Integer<$arrow> {
            type Arrow = $arrow;

            fn parse_plain(&self, text: &[u8]) -> Option<<$arrow as ArrowPrimitiveType>::Native> {
                plain_integer(text).and_then(|value| value.try_into().ok())
            }

            fn parse(&self, text: &[u8]) -> Option<<$arrow as ArrowPrimitiveType>::Native> {
                let text = trim(text);
                match hexadecimal(text) {
                    Some(digits) => <$unsigned>::from_str_radix(digits, 16).ok().map($convert),
                    None => any_integer(text).and_then(|value| value.try_into().ok()),
                }
            }
        }
    };
}

integer!(Int8Type, u8, u8::cast_signed);
integer!(Int16Type, u16, u16::cast_signed);
integer!(Int32Type, u32, u32::cast_signed);
integer!(Int64Type, u64, u64::cast_signed);
integer!(UInt8Type, u8, |value| value);
integer!(UInt16Type, u16, |value| value);
integer!(UInt32Type, u32, |value| value);
integer!(UInt64Type, u64, |value| value);

/// Sign, digits without the point, and the number of digits after it.
fn plain_float(text: &[u8]) -> Option<(bool, u64, usize)> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // One more for the point.
    if digits.len() > MAX_DIGITS + 1 {
        return None;
    }
    let (mut mantissa, mut len, mut point) = (0u64, 0usize, None);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            mantissa = mantissa * 10 + u64::from(digit);
            len += 1;
        } else if *byte == b'.' && point.is_none() {
            point = Some(len);
        } else {
            return None;
        }
    }
    (len > 0).then_some((is_negative, mantissa, point.map_or(0, |point| len - point)))
}

/// An exact integer divided by an exact power of ten gives a correctly rounded quotient (Clinger).
macro_rules! float {
    ($arrow:ty, $float:ty, $max_mantissa:expr, $powers:expr) => {
        impl Parse for Float<$arrow> {
            type Arrow = $arrow;

            fn parse_plain(&self, text: &[u8]) -> Option<$float> {
                const POWERS: &[$float] = &$powers;
                let (is_negative, mantissa, behind_point) = plain_float(text)?;
                let power = POWERS.get(behind_point)?;
                if mantissa > $max_mantissa {
                    return None;
                }
                let value = mantissa as $float / power;
                Some(if is_negative { -value } else { value })
            }

            fn parse(&self, text: &[u8]) -> Option<$float> {
                std::str::from_utf8(trim(text)).ok()?.parse().ok()
            }
        }
    };
}

float!(Float32Type, f32, 1 << 24, [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10]);
float!(
    Float64Type,
    f64,
    1 << 53,
    [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22
    ]
);

/// A text of this length is an integer that float64 holds exactly.
const EXACT_DIGITS: usize = 15;

/// Whether `text` is an integer, of any length, that float64 rounds.
pub(crate) fn is_rounded(text: &[u8]) -> bool {
    text.len() > EXACT_DIGITS && is_rounded_by::<f64>(text)
}

/// Whether `text` is an integer that floats of the type round, or a number beyond all of them.
pub(crate) fn is_beyond(text: &[u8], data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 => is_rounded_by::<f32>(trim(text)) || is_infinite::<f32>(text),
        DataType::Float64 => is_rounded_by::<f64>(trim(text)) || is_infinite::<f64>(text),
        _ => false,
    }
}

fn is_rounded_by<F: FromStr + Display>(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text).trim_start_matches('0');
    // Rust writes all digits of a float, not only those that distinguish it from its neighbors.
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.parse::<F>().is_ok_and(|value| format!("{value:.0}") != digits)
}

/// Whether a number in digits is infinite, unlike `inf`, which says so.
fn is_infinite<F: FromStr + Into<f64>>(text: &[u8]) -> bool {
    let value = std::str::from_utf8(trim(text)).ok().and_then(|text| text.parse::<F>().ok());
    value.is_some_and(|value| value.into().is_infinite()) && text.iter().any(u8::is_ascii_digit)
}

/// Whether a column of floats can hold it.
pub(crate) fn is_float(text: &[u8]) -> bool {
    plain_float(text).is_some() || Float::<Float64Type>::new().parse(text).is_some()
}
