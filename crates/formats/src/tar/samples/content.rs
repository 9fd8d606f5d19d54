//! The content type of an extension, and validation of its bytes.
//!
//! Used by the reader and the writer of samples. The invariant: values accepted by the writer are accepted by the reader.

use serde::de::IgnoredAny;
use serde_json::Error as JsonError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tar) enum Content {
    Text,
    Json,
    Integer,
    Bytes,
}

impl Content {
    /// From the last part of the extension, as in the decoder of WebDataset. Other extensions stay bytes, pickles in particular.
    pub(in crate::tar) fn of(extension: &str) -> Self {
        match extension.rsplit('.').next().unwrap_or_default() {
            "txt" | "text" | "transcript" => Self::Text,
            "json" | "jsn" => Self::Json,
            "cls" | "cls2" | "class" | "count" | "index" | "inx" | "id" => Self::Integer,
            _ => Self::Bytes,
        }
    }

    /// What a reader expects of such members, if `bytes` are not valid.
    pub(in crate::tar) fn missed_by(self, bytes: &[u8]) -> Option<&'static str> {
        match self {
            Self::Bytes => None,
            Self::Text => std::str::from_utf8(bytes).is_err().then_some("text in UTF-8"),
            Self::Integer => integer(bytes).is_none().then_some("a whole number of 64 bits"),
            Self::Json => (!std::str::from_utf8(bytes).is_ok_and(|text| json_fault(text).is_none())).then_some("JSON"),
        }
    }
}

/// As Python's `int()` parses bytes: surrounding white space, a sign, underscores between digits.
pub(super) fn integer(bytes: &[u8]) -> Option<i64> {
    // Python also treats the vertical tab as white space.
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let start = bytes.iter().position(|byte| !is_space(byte))?;
    let end = bytes.iter().rposition(|byte| !is_space(byte))? + 1;
    let text = std::str::from_utf8(bytes.get(start..end)?).ok()?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()));
    if is_number { text.replace('_', "").parse().ok() } else { None }
}

/// Why Python's `json.loads` would reject a text, which may begin with a byte order mark and contain non-finite numbers.
pub(super) fn json_fault(text: &str) -> Option<JsonError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fault = |text: &str| serde_json::from_str::<IgnoredAny>(text).err();
    fault(text)?;
    fault(&with_finite_numbers(text))
}

/// The text with zeros in place of `NaN` and `Infinity` outside of strings, with the same length.
fn with_finite_numbers(text: &str) -> String {
    let mut finite = String::with_capacity(text.len());
    let (mut rest, mut is_in_string) = (text, false);
    let stops = |is_in_string| -> &[char] { if is_in_string { &['"', '\\'] } else { &['"', 'N', 'I'] } };
    while let Some((before, from)) = rest.find(stops(is_in_string)).map(|place| rest.split_at(place)) {
        finite.push_str(before);
        // A zero must not extend a preceding number, but a sign belongs to it.
        let (taken, put) = if from.starts_with('"') {
            is_in_string = !is_in_string;
            (1, "\"")
        } else if from.starts_with("NaN") {
            (3, " 0 ")
        } else if from.starts_with("Infinity") {
            (8, if finite.ends_with('-') { "0       " } else { " 0      " })
        } else {
            let kept = from.chars().take(if is_in_string { 2 } else { 1 }).map(char::len_utf8).sum();
            (kept, from.get(..kept).unwrap_or_default())
        };
        finite.push_str(put);
        rest = from.get(taken..).unwrap_or_default();
    }
    finite.push_str(rest);
    finite
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        for (text, number) in [("7", 7), (" -3\n", -3), ("+0012", 12), ("1_000", 1000), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text.as_bytes()), Some(number), "{text:?}");
        }
        for text in ["", " ", "-", "1.0", "0x1", "1__0", "_1", "9223372036854775808", "1 2", "é"] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn json_is_what_python_reads_as_json() {
        for text in ["1", "\u{feff}{}", "[NaN, -Infinity, Infinity]", "{\"NaN\": \"\\\"Infinity\"}", "\"\\ud800\"", "1e999", " [ ] \n", "\"é\\\\\""]
        {
            assert!(json_fault(text).is_none(), "{text:?}");
        }
        for text in ["", "{", "{\"a\": }", "[1,]", "1NaN", "-NaN", "[1 NaN]", "nan", "N", "Inf", "'a'", "\"\n\"", "01", "{} {}", "\"\\x\"", "\"NaN"] {
            assert!(json_fault(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn fault_after_non_finite_numbers_has_the_right_position() {
        let fault = json_fault("[NaN, Infinity, x]").map(|fault| (fault.line(), fault.column()));
        assert_eq!(fault, Some((1, 17)));
    }
}
