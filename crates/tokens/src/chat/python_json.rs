//! `json.dumps` of Python.

use super::bounds::{check_length, invalid};
use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use std::fmt::Write;

/// Nesting of the values that are written.
const DEPTH: usize = 128;

struct Writer {
    ensure_ascii: bool,
    indent: Option<String>,
    between: String,
    after_key: String,
    sort_keys: bool,
    out: String,
}

pub(super) fn dumps(
    value: &Value,
    ensure_ascii: bool,
    indent: Option<&Value>,
    separators: Option<&Value>,
    sort_keys: bool,
) -> Result<String, Error> {
    let indent =
        match indent {
            None => None,
            Some(text) if text.as_str().is_some() => text.as_str().map(str::to_owned),
            Some(width) => Some(" ".repeat(
                width.as_i64().map_or(0, |width| usize::try_from(width).unwrap_or(0)).min(64),
            )),
        };
    let (between, after_key) = match separators {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(pair) => {
            let text = |place| {
                pair.get_item_by_index(place).ok().and_then(|part| part.as_str().map(str::to_owned))
            };
            text(0)
                .zip(text(1))
                .ok_or_else(|| invalid("separators of tojson are two strings".to_owned()))?
        }
    };
    let mut writer =
        Writer { ensure_ascii, indent, between, after_key, sort_keys, out: String::new() };
    writer.value(value, 0)?;
    Ok(writer.out)
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(invalid("tojson of a value that is nested too deeply".to_owned()));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                self.out.push('[');
                let mut is_empty = true;
                for item in value.try_iter()?.checked() {
                    self.begin_item(is_empty, depth)?;
                    self.value(&item?, depth + 1)?;
                    is_empty = false;
                }
                self.end(']', is_empty, depth)?;
            }
            ValueKind::Map => {
                let mut entries = Vec::new();
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    let item = value.get_item(&key)?;
                    entries.push((name(&key)?, item));
                }
                if self.sort_keys {
                    entries.sort_by(|(first, _), (second, _)| first.cmp(second));
                }
                self.out.push('{');
                for (place, (key, item)) in entries.iter().enumerate() {
                    self.begin_item(place == 0, depth)?;
                    self.text(key);
                    self.out.push_str(&self.after_key);
                    self.value(item, depth + 1)?;
                }
                self.end('}', entries.is_empty(), depth)?;
            }
            other => return Err(invalid(format!("tojson of {other}, which is not JSON"))),
        }
        Ok(())
    }

    fn begin_item(&mut self, is_first: bool, depth: usize) -> Result<(), Error> {
        if !is_first {
            self.out.push_str(&self.between);
        }
        self.line(depth + 1)
    }

    fn end(&mut self, close: char, is_empty: bool, depth: usize) -> Result<(), Error> {
        if !is_empty {
            self.line(depth)?;
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) -> Result<(), Error> {
        let indent = self.indent.as_deref();
        check_length(
            self.out
                .len()
                .saturating_add(indent.map_or(0, |indent| indent.len().saturating_mul(depth))),
        )?;
        if let Some(indent) = indent {
            self.out.push('\n');
            self.out.push_str(&indent.repeat(depth));
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                control if control < ' ' => self.escape(u32::from(control)),
                other if self.ensure_ascii && !(' '..='~').contains(&other) => {
                    let mut units = [0; 2];
                    other
                        .encode_utf16(&mut units)
                        .iter()
                        .for_each(|unit| self.escape(u32::from(*unit)));
                }
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, unit: u32) {
        let _infallible = write!(self.out, "\\u{unit:04x}");
    }
}

/// A key as Python writes it.
fn name(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::Number => Ok(number(key)),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        other => Err(invalid(format!("tojson of a dict with a key that is {other}"))),
    }
}

fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
}

/// `repr` of a float, and the names that JSON has for the others.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // The shortest digits that read back, with the decimal exponent.
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::float;

    #[test]
    fn floats_are_written_as_by_python() {
        let cases = [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (123_456_789.125, "123456789.125"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
        ];
        for (value, expected) in cases {
            assert_eq!(float(value), expected);
        }
    }
}
