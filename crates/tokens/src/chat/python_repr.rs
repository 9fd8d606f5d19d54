//! `str` and `repr` of Python.

use super::bounds::{Class, check_length, class, invalid};
use super::python_json::float;
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use std::fmt::Write;

/// Levels of the values that are written: those of a variable, and those that an expression adds.
const DEPTH: usize = 700;

/// `str` of a value, and nothing for an undefined one.
pub(super) fn text_of(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Undefined => Ok(String::new()),
        _ => {
            let mut out = String::new();
            write_repr(&mut out, value, 0)?;
            Ok(out)
        }
    }
}

fn write_repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    check_length(out.len())?;
    if depth > DEPTH {
        return Err(invalid(format!(
            "a value that is written is nested more than {DEPTH} levels deep"
        )));
    }
    if let Some(text) = value.as_str() {
        write_string(out, text);
        return Ok(());
    }
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Number => out.push_str(&number(value)),
        _ => match value.as_object().map(class) {
            Some(Class::Tuple | Class::Group) => {
                out.push('(');
                let count = write_items(out, value, depth)?;
                out.push_str(if count == 1 { ",)" } else { ")" });
            }
            Some(Class::List | Class::LazyList) => {
                out.push('[');
                write_items(out, value, depth)?;
                out.push(']');
            }
            Some(Class::Dict | Class::LazyDict) => write_dict(out, value, depth)?,
            Some(Class::Namespace) => {
                out.push_str("<Namespace ");
                write_dict(out, value, depth)?;
                out.push('>');
            }
            Some(Class::Loop | Class::Function) | None => out.push_str(&value.to_string()),
        },
    }
    Ok(())
}

fn write_items(out: &mut String, value: &Value, depth: usize) -> Result<usize, Error> {
    let mut count = 0;
    for item in value.try_iter()?.checked() {
        if count > 0 {
            out.push_str(", ");
        }
        write_repr(out, &item?, depth + 1)?;
        count += 1;
    }
    Ok(count)
}

fn write_dict(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    out.push('{');
    for (place, key) in value.try_iter()?.checked().enumerate() {
        let key = key?;
        if place > 0 {
            out.push_str(", ");
        }
        write_repr(out, &key, depth + 1)?;
        out.push_str(": ");
        write_repr(out, &value.get_item(&key)?, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

fn number(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if !value.is_integer() => match number {
            number if number.is_nan() => "nan".to_owned(),
            number if number.is_infinite() => if number > 0.0 { "inf" } else { "-inf" }.to_owned(),
            number => float(number),
        },
        _ => value.to_string(),
    }
}

fn write_string(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            character if character == quote => out.extend(['\\', quote]),
            character if is_printable(character) => out.push(character),
            character => {
                let code = u32::from(character);
                let _infallible = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// As `str.isprintable`: not a control, format, surrogate, private-use or unassigned character, and
/// no separator but the space.
pub(super) fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    if character.is_alphanumeric() {
        return true;
    }
    // The escapes of Rust follow the same categories. After another character,
    // marks are not escaped.
    let mut bytes = [b'a'; 5];
    let length = character.encode_utf8(bytes.get_mut(1..).unwrap_or_default()).len();
    let pair =
        bytes.get(..=length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    pair.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::is_printable;

    #[test]
    fn characters_are_printable_as_in_python() {
        for character in ['é', '中', '😀', '\u{301}', '¡', '\u{93f}', '→'] {
            assert!(is_printable(character), "{character:?}");
        }
        for character in [
            '\u{7f}',
            '\u{a0}',
            '\u{ad}',
            '\u{200b}',
            '\u{2028}',
            '\u{feff}',
            '\u{e000}',
            '\u{378}',
            '\u{3000}',
            '\u{10ffff}',
        ] {
            assert!(!is_printable(character), "{character:?}");
        }
    }
}
