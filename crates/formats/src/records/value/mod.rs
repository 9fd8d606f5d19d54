//! Single values from their text, in the spellings that pyarrow reads.
//!
//! A slice of text enters, a native value leaves, or `None` where it does not fit the type: nothing is rounded to an integer, wrapped or cut. Floats are
//! rounded to the nearest.

mod decimal;
mod number;
mod time;

pub(crate) use decimal::Decimal;
pub(crate) use number::{Float, Integer, is_float};
pub(crate) use time::{Date, Stamp, TimeOfDay, Timestamp};

use arrow_array::ArrowPrimitiveType;

/// Reads one type of value.
pub(crate) trait Parse: Send {
    type Arrow: ArrowPrimitiveType;

    /// The plain spellings only, which are nearly all values; `None` says nothing.
    fn parse_plain(&self, text: &[u8]) -> Option<<Self::Arrow as ArrowPrimitiveType>::Native>;

    /// Any spelling.
    fn parse(&self, text: &[u8]) -> Option<<Self::Arrow as ArrowPrimitiveType>::Native>;
}

/// The spellings of pyarrow.
pub(crate) fn parse_bool(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"true" | b"True" | b"TRUE" => Some(true),
        b"0" | b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Blanks around numbers, dates and times of day are ignored.
fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
