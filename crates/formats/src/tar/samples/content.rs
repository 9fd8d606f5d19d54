//! The content type of an extension, and validation of its bytes.
//!
//! Used by the reader and the writer of samples. The invariant: values accepted by the writer are
//! accepted by the reader.

use crate::json::json_fault;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tar) enum Content {
    Text,
    Json,
    Integer,
    Bytes,
}

impl Content {
    /// From the last part of the extension, as in the decoder of WebDataset. Other extensions stay
    /// bytes, pickles in particular.
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
            Self::Json => (!std::str::from_utf8(bytes)
                .is_ok_and(|text| json_fault(text, true).is_none()))
            .then_some("JSON"),
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
    let is_number = digits
        .split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()));
    if is_number { text.replace('_', "").parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        for (text, number) in [
            ("7", 7),
            (" -3\n", -3),
            ("+0012", 12),
            ("1_000", 1000),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(integer(text.as_bytes()), Some(number), "{text:?}");
        }
        for text in ["", " ", "-", "1.0", "0x1", "1__0", "_1", "9223372036854775808", "1 2", "é"] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
