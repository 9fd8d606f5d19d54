//! JSON text as Python writes it, and Arrow cells as JSON values.
//!
//! Cells that hold lists or objects are stored as text. Users compare that text with what `json.dumps(…, ensure_ascii=False)` gives them, so the
//! separators are Python's; numbers keep the digits they came with.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Number, Value};
use std::io::{Result as IoResult, Write};
use std::str::FromStr;

struct PythonFormatter;

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
}

/// The value as `json.dumps(value, ensure_ascii=False)` would spell it.
#[must_use]
pub fn json_text(value: &Value) -> String {
    let mut text = Vec::new();
    // Writing a JSON value to memory has no way to fail.
    let _infallible = value.serialize(&mut Serializer::with_formatter(&mut text, PythonFormatter));
    String::from_utf8(text).unwrap_or_default()
}

/// The same with every non-ASCII character escaped, as `source_ref` requires.
#[must_use]
pub fn ascii_json_text(value: &Value) -> String {
    let text = json_text(value);
    if text.is_ascii() {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

/// One cell as the JSON value that a WebDataset sample carries: temporal types as ISO 8601 text, decimals as text, binary as base64, NaN as null.
///
/// # Errors
/// [`ArrowError`] for a type that has no text form.
pub fn cell_json(array: &ArrayRef, row: usize) -> Result<Value, ArrowError> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Utf8 => Value::from(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Value::from(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Value::from(array.as_string_view().value(row)),
        DataType::Binary => base64(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => base64(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => base64(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => base64(array.as_fixed_size_binary().value(row)),
        DataType::Float16 => float(array.as_primitive::<Float16Type>().value(row).to_f64()),
        // The shortest text that reads back as the same f32, not the digits of its f64 neighbour.
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).to_string().parse().unwrap_or(f64::NAN)),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal32(..) => Value::from(array.as_primitive::<Decimal32Type>().value_as_string(row)),
        DataType::Decimal64(..) => Value::from(array.as_primitive::<Decimal64Type>().value_as_string(row)),
        DataType::Decimal128(..) => Value::from(array.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Decimal256(..) => Value::from(array.as_primitive::<Decimal256Type>().value_as_string(row)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys().get(row).copied().unwrap_or_default();
            cell_json(dictionary.values(), key)?
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row))?,
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row))?,
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let pairs = fields.iter().zip(columns).map(|(field, column)| Ok((field.name().clone(), cell_json(column, row)?)));
            Value::Object(pairs.collect::<Result<Map<_, _>, ArrowError>>()?)
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pair = |entry| {
                let key = match cell_json(keys, entry)? {
                    Value::String(text) => text,
                    other => json_text(&other),
                };
                Ok((key, cell_json(values, entry)?))
            };
            Value::Object((0..entries.len()).map(pair).collect::<Result<Map<_, _>, ArrowError>>()?)
        }
        // A named zone needs a data base that may be missing; the instant in UTC is the same everywhere.
        DataType::Timestamp(unit, Some(zone)) if !zone.starts_with(['+', '-']) => {
            let instant = array.slice(row, 1).to_data().into_builder().data_type(DataType::Timestamp(*unit, None)).build()?;
            let text = ArrayFormatter::try_new(&make_array(instant), &FormatOptions::default())?.value(0).try_to_string()?;
            Value::String(format!("{text}Z"))
        }
        data_type => {
            let text = ArrayFormatter::try_new(array, &FormatOptions::default())?.value(row).try_to_string()?;
            if data_type.is_integer() { Number::from_str(&text).map_or(Value::Null, Value::Number) } else { Value::String(text) }
        }
    })
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn list(items: &ArrayRef) -> Result<Value, ArrowError> {
    Ok(Value::Array((0..items.len()).map(|item| cell_json(items, item)).collect::<Result<_, _>>()?))
}

fn base64(bytes: &[u8]) -> Value {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit) & 63) as usize;
            let symbol = ALPHABET.get(index).copied().unwrap_or(b'A');
            text.push(if digit <= group.len() { char::from(symbol) } else { '=' });
        }
    }
    Value::String(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float32Array, StringArray, TimestampMicrosecondArray};
    use std::sync::Arc;

    #[test]
    fn text_is_spelled_as_python_spells_it() {
        let value: Value = serde_json::from_str(r#"{"a":[1,2.50,"ü",null],"b":{},"big":123456789012345678901234567890}"#).unwrap();
        assert_eq!(json_text(&value), r#"{"a": [1, 2.50, "ü", null], "b": {}, "big": 123456789012345678901234567890}"#);
        assert_eq!(ascii_json_text(&Value::from("ü😀")), r#""\u00fc\ud83d\ude00""#);
    }

    #[test]
    fn base64_pads_like_the_standard() {
        let encode = |text: &str| base64(text.as_bytes());
        assert_eq!([encode(""), encode("f"), encode("fo"), encode("foo"), encode("foob")], ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }

    #[test]
    fn floats_keep_their_digits_and_nan_becomes_null() {
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.1, f32::NAN]));
        assert_eq!(json_text(&cell_json(&floats, 0).unwrap()), "0.1");
        assert_eq!(cell_json(&floats, 1).unwrap(), Value::Null);
    }

    #[test]
    fn timestamps_are_iso_8601() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC"));
        assert_eq!(cell_json(&times, 0).unwrap(), "1970-01-01T00:00:01.500Z");
        for (zone, text) in [("Europe/Berlin", "1970-01-01T00:00:01.500Z"), ("+02:00", "1970-01-01T02:00:01.500+02:00")] {
            let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, 1_500_000]).with_timezone(zone));
            assert_eq!(cell_json(&times, 1).unwrap(), text);
        }
        let words: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        assert_eq!(cell_json(&words, 1).unwrap(), Value::Null);
    }
}
