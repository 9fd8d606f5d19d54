//! The JSON of Python: what `json.loads` reads, and the output of `json.dumps`, for values of serde
//! and single floats.

use super::text::write_ascii;
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Error as JsonError, Number, Value};
use std::io::{Result as IoResult, Write};

/// Numbers of Python that are not finite: their names, how a [`Number`] spells them here, as no
/// writer does, and their values.
const NON_FINITE: [(&str, &str, f64); 3] = [
    ("NaN", "0e+9999999999", f64::NAN),
    ("Infinity", "1e+9999999999", f64::INFINITY),
    ("-Infinity", "-1e+9999999999", f64::NEG_INFINITY),
];

/// The value that Python's `json.loads` reads. [`json_dumps`] and [`as_float`] know its numbers
/// that are not finite.
///
/// # Errors
/// When the text is not JSON, with the fault of the original text.
pub fn json_loads(json: &[u8]) -> Result<Value, JsonError> {
    loads(json, NON_FINITE.map(|(_, spelled, _)| spelled))
}

/// As [`json_loads`], with nulls in place of numbers that are not finite.
///
/// # Errors
/// As [`json_loads`].
pub fn json_loads_finite(json: &[u8]) -> Result<Value, JsonError> {
    loads(json, ["null"; 3])
}

fn loads(json: &[u8], words: [&str; 3]) -> Result<Value, JsonError> {
    serde_json::from_slice(json).or_else(|error| {
        let Ok(text) = std::str::from_utf8(json) else { return Err(error) };
        serde_json::from_str(&with_words(text, words))
            .map_err(|_| json_fault(text, true).unwrap_or(error))
    })
}

/// The value as a double. `None` for a finite number beyond its range.
#[must_use]
pub fn as_float(number: &Number) -> Option<f64> {
    let non_finite = NON_FINITE.iter().find(|(_, spelled, _)| *spelled == number.as_str());
    non_finite.map_or_else(|| number.as_f64(), |(.., value)| Some(*value))
}

/// Why Python's `json.loads` would reject a text, which may begin with a byte order mark and, if
/// that is allowed, contain non-finite numbers.
pub(crate) fn json_fault(text: &str, allows_non_finite: bool) -> Option<JsonError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fault = |text: &str| serde_json::from_str::<IgnoredAny>(text).err();
    let plain = fault(text)?;
    if allows_non_finite { fault(&with_words(text, ["0"; 3])) } else { Some(plain) }
}

/// The text with other words in place of the names of [`NON_FINITE`] outside of strings. Words of
/// one letter keep the length.
fn with_words(text: &str, words: [&str; 3]) -> String {
    let mut other = String::with_capacity(text.len());
    let (mut rest, mut is_in_string) = (text, false);
    let stops =
        |is_in_string| -> &[char] { if is_in_string { &['"', '\\'] } else { &['"', 'N', 'I'] } };
    while let Some((before, from)) =
        rest.find(stops(is_in_string)).map(|place| rest.split_at(place))
    {
        other.push_str(before);
        let is_negative = other.ends_with('-');
        let name =
            NON_FINITE.iter().zip(words).find(|((name, ..), _)| match name.strip_prefix('-') {
                Some(name) => is_negative && from.starts_with(name),
                None => !is_negative && from.starts_with(name),
            });
        let taken = match name {
            Some(((name, ..), word)) => {
                let taken = name.trim_start_matches('-').len();
                other.truncate(other.len() - (name.len() - taken));
                // A word must not extend a number beside it.
                let width = name.len() - 1;
                other.push_str(&format!(" {word:<width$}"));
                other.push_str(if word.len() < width { "" } else { " " });
                taken
            }
            None => {
                is_in_string ^= from.starts_with('"');
                let kept = from
                    .chars()
                    .take(if from.starts_with('\\') { 2 } else { 1 })
                    .map(char::len_utf8)
                    .sum();
                other.push_str(from.get(..kept).unwrap_or_default());
                kept
            }
        };
        rest = from.get(taken..).unwrap_or_default();
    }
    other.push_str(rest);
    other
}

struct PythonFormatter {
    is_ascii: bool,
}

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> IoResult<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> IoResult<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        writer.write_all(b": ")
    }

    fn write_number_str<W: ?Sized + Write>(&mut self, writer: &mut W, value: &str) -> IoResult<()> {
        let non_finite = NON_FINITE.iter().find(|(_, spelled, _)| *spelled == value);
        writer.write_all(non_finite.map_or(value, |(name, ..)| name).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> IoResult<()> {
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
    let _infallible =
        value.serialize(&mut Serializer::with_formatter(&mut text, PythonFormatter { is_ascii }));
    String::from_utf8(text).unwrap_or_default()
}

/// NaN and infinity, with the names of `json.dumps`.
pub(super) const JSON_NAMES: [&str; 2] = [NON_FINITE[0].0, NON_FINITE[1].0];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_what_python_reads_as_json() {
        for text in [
            "1",
            "\u{feff}{}",
            "[NaN, -Infinity, Infinity]",
            "{\"NaN\": \"\\\"Infinity\"}",
            "\"\\ud800\"",
            "1e999",
            " [ ] \n",
            "\"é\\\\\"",
        ] {
            assert!(json_fault(text, true).is_none(), "{text:?}");
        }
        for text in [
            "",
            "{",
            "{\"a\": }",
            "[1,]",
            "1NaN",
            "-NaN",
            "[1 NaN]",
            "nan",
            "N",
            "Inf",
            "'a'",
            "\"\n\"",
            "01",
            "{} {}",
            "\"\\x\"",
            "\"NaN",
        ] {
            assert!(json_fault(text, true).is_some(), "{text:?}");
        }
    }

    #[test]
    fn non_finite_numbers_can_be_refused() {
        assert!(json_fault("[1, \"NaN\"]", false).is_none());
        assert_eq!(json_fault("[1, NaN]", false).map(|fault| fault.column()), Some(5));
    }

    #[test]
    fn fault_after_non_finite_numbers_has_the_right_position() {
        let fault =
            json_fault("[NaN, Infinity, x]", true).map(|fault| (fault.line(), fault.column()));
        assert_eq!(fault, Some((1, 17)));
    }

    #[test]
    fn non_finite_numbers_are_read_and_written_by_name() {
        let text =
            r#"{"a": NaN, "b": [-Infinity, Infinity, 1e+400, "NaN \" -Infinity"], "NaN": -1}"#;
        let value = json_loads(text.as_bytes()).unwrap();
        assert_eq!(json_dumps(&value, false), text);
        let floats = [&value["a"], &value["b"][0], &value["b"][1], &value["b"][2], &value["NaN"]]
            .map(|value| match value {
                Value::Number(number) => as_float(number).map(|float| float.to_string()),
                other => panic!("{other}"),
            });
        assert_eq!(floats.map(Option::unwrap_or_default), ["NaN", "-inf", "inf", "", "-1"]);
        let nulls = json_loads_finite(text.as_bytes()).unwrap();
        assert_eq!(
            json_dumps(&nulls, false),
            r#"{"a": null, "b": [null, null, 1e+400, "NaN \" -Infinity"], "NaN": -1}"#
        );
    }

    #[test]
    fn what_is_not_json_has_the_fault_of_its_own_text() {
        for text in [
            "[NaN, Infinity, x]",
            "[1Infinity]",
            "[NaN1]",
            "[-NaN]",
            "[1 -Infinity]",
            "{\"a\": NaN",
            "[--Infinity]",
        ] {
            for loads in [json_loads, json_loads_finite] {
                assert_eq!(
                    loads(text.as_bytes()).err().map(|fault| fault.to_string()),
                    json_fault(text, true).map(|fault| fault.to_string()),
                    "{text}"
                );
                assert!(loads(text.as_bytes()).is_err());
            }
        }
    }
}
