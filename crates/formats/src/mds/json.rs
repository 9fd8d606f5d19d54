//! JSON as Python's `json.dumps` writes it: `", "` and `": "` as separators, everything but ASCII escaped, floats as `repr` shows them.

use arrow_array::cast::AsArray;
use arrow_array::{Array, types};
use arrow_schema::DataType;
use std::fmt::Write;

/// A text in quotes.
pub(super) fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _infallible = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// As Python's `repr` shows it, and `json.dumps` those that are no numbers.
pub(super) fn write_float(value: f64, out: &mut String) {
    if !value.is_finite() {
        out.push_str(if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        });
        return;
    }
    write_finite(value, out);
}

/// As Python's `str` shows it.
pub(super) fn write_float_text(value: f64, out: &mut String) {
    if value.is_finite() {
        write_finite(value, out);
    } else {
        out.push_str(if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        });
    }
}

fn write_finite(value: f64, out: &mut String) {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _infallible = if (-4..16).contains(&exponent) {
        // The shortest digits that round-trip, which is what Python shows, too.
        if value.fract() == 0.0 { write!(out, "{value}.0") } else { write!(out, "{value}") }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{digits}e{sign}{:02}", exponent.abs())
    };
}

/// Whether [`write_value`] knows the type.
pub(super) fn is_writable(data_type: &DataType) -> bool {
    use DataType::{Boolean, Dictionary, FixedSizeList, LargeList, LargeUtf8, List, Map, Null, Struct, Utf8, Utf8View};
    match data_type {
        Null | Boolean | Utf8 | LargeUtf8 | Utf8View => true,
        List(item) | LargeList(item) | FixedSizeList(item, _) => is_writable(item.data_type()),
        Struct(fields) => fields.iter().all(|field| is_writable(field.data_type())),
        Map(entries, _) => match entries.data_type() {
            Struct(parts) => matches!(&parts[..], [key, value] if is_key(key.data_type()) && is_writable(value.data_type())),
            _ => false,
        },
        Dictionary(_, values) => is_writable(values),
        number => super::Number::of_type(number).is_some(),
    }
}

fn is_key(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// One value of an array, as text. A null is `null`.
pub(super) fn write_value(array: &dyn Array, row: usize, out: &mut String) {
    use DataType::{
        Boolean, Dictionary, FixedSizeList, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeList, LargeUtf8, List, Map, Struct, UInt8,
        UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    if array.is_null(row) {
        out.push_str("null");
        return;
    }
    macro_rules! integer {
        ($type:ty) => {{
            let _infallible = write!(out, "{}", array.as_primitive::<$type>().value(row));
        }};
    }
    match array.data_type() {
        Boolean => out.push_str(if array.as_boolean().value(row) { "true" } else { "false" }),
        Int8 => integer!(types::Int8Type),
        Int16 => integer!(types::Int16Type),
        Int32 => integer!(types::Int32Type),
        Int64 => integer!(types::Int64Type),
        UInt8 => integer!(types::UInt8Type),
        UInt16 => integer!(types::UInt16Type),
        UInt32 => integer!(types::UInt32Type),
        UInt64 => integer!(types::UInt64Type),
        Float16 => write_float(array.as_primitive::<types::Float16Type>().value(row).to_f64(), out),
        Float32 => write_float(f64::from(array.as_primitive::<types::Float32Type>().value(row)), out),
        Float64 => write_float(array.as_primitive::<types::Float64Type>().value(row), out),
        Utf8 => write_text(array.as_string::<i32>().value(row), out),
        LargeUtf8 => write_text(array.as_string::<i64>().value(row), out),
        Utf8View => write_text(array.as_string_view().value(row), out),
        List(_) => write_items(array.as_list::<i32>().value(row).as_ref(), out),
        LargeList(_) => write_items(array.as_list::<i64>().value(row).as_ref(), out),
        FixedSizeList(..) => write_items(array.as_fixed_size_list().value(row).as_ref(), out),
        Struct(fields) => {
            let parts = array.as_struct();
            out.push('{');
            for (number, (field, part)) in fields.iter().zip(parts.columns()).enumerate() {
                out.push_str(if number == 0 { "" } else { ", " });
                write_text(field.name(), out);
                out.push_str(": ");
                write_value(part.as_ref(), row, out);
            }
            out.push('}');
        }
        Map(..) => {
            let entries = array.as_map().value(row);
            out.push('{');
            if let [keys, values] = entries.columns() {
                for entry in 0..entries.len() {
                    out.push_str(if entry == 0 { "" } else { ", " });
                    write_value(keys.as_ref(), entry, out);
                    out.push_str(": ");
                    write_value(values.as_ref(), entry, out);
                }
            }
            out.push('}');
        }
        Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            if let Some(key) = dictionary.normalized_keys().get(row) {
                write_value(dictionary.values().as_ref(), *key, out);
            }
        }
        _ => out.push_str("null"),
    }
}

fn write_items(items: &dyn Array, out: &mut String) {
    out.push('[');
    for item in 0..items.len() {
        out.push_str(if item == 0 { "" } else { ", " });
        write_value(items, item, out);
    }
    out.push(']');
}

/// Whether `text` is one JSON value. `NaN` and the infinities count as numbers, as Python writes and reads them.
pub(super) fn is_json(text: &str) -> bool {
    let is_plain = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    is_plain(text) || without_special_floats(text).is_some_and(|text| is_plain(&text))
}

/// `text` with a 0 for each `NaN` and infinity outside of strings; `None` when there is none.
fn without_special_floats(text: &str) -> Option<String> {
    let mut replaced = String::with_capacity(text.len());
    let (mut is_inside, mut is_escaped, mut found) = (false, false, false);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let special = ["NaN", "Infinity", "-Infinity"].into_iter().find(|name| !is_inside && rest.starts_with(name));
        if let Some(special) = special {
            replaced.push('0');
            rest = rest.get(special.len()..).unwrap_or_default();
            found = true;
            continue;
        }
        match character {
            '"' if !is_escaped => is_inside = !is_inside,
            _ => {}
        }
        is_escaped = is_inside && character == '\\' && !is_escaped;
        replaced.push(character);
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    found.then_some(replaced)
}
