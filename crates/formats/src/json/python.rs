//! Output of Python's `json.dumps`, for values of serde and single floats.

use super::text::write_ascii;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{Result as IoResult, Write};

struct PythonFormatter {
    is_ascii: bool,
}

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> IoResult<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> IoResult<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> IoResult<()> {
        if !self.is_ascii || fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut escaped = Vec::with_capacity(fragment.len() * 2);
        write_ascii(fragment, &mut escaped);
        writer.write_all(&escaped)
    }
}

/// The value as `json.dumps(value, ensure_ascii=is_ascii)` would spell it.
#[must_use]
pub fn json_dumps(value: &impl Serialize, is_ascii: bool) -> String {
    let mut text = Vec::new();
    // Serializing plain values to memory cannot fail.
    let _infallible = value.serialize(&mut Serializer::with_formatter(&mut text, PythonFormatter { is_ascii }));
    String::from_utf8(text).unwrap_or_default()
}

/// NaN and infinity, with the names of `json.dumps`.
pub(super) const JSON_NAMES: [&str; 2] = ["NaN", "Infinity"];

/// As `str` and `repr` show it; `names` are those of NaN and infinity.
pub(crate) fn write_float(value: f64, [nan, infinity]: [&str; 2], out: &mut Vec<u8>) {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let _infallible = match value {
        _ if value.is_nan() => write!(out, "{nan}"),
        _ if value.is_infinite() => write!(out, "{}{infinity}", if value < 0.0 { "-" } else { "" }),
        // The shortest digits that round-trip, as in Python.
        _ if (-4..16).contains(&exponent) && value.fract() == 0.0 => write!(out, "{value}.0"),
        _ if (-4..16).contains(&exponent) => write!(out, "{value}"),
        _ => write!(out, "{digits}e{sign}{:02}", exponent.abs()),
    };
}
