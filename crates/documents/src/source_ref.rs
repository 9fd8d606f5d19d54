//! The locator of a row: where its content came from.
//!
//! `{"path", "member", "byte_offset", "byte_size"[, "frame_index"]}` in this order, ASCII-escaped
//! (interleaved specification §1.2). The invariant: an offset is only written for an archive whose
//! bytes it can address, never for a compressed one.

use serde_json::{Map, Value};
use shardmill_formats::json::json_dumps;
use std::ops::Range;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceRef {
    pub path: Option<String>,
    pub member: Option<String>,
    pub byte_offset: Option<u64>,
    pub byte_size: Option<u64>,
    pub frame_index: Option<u64>,
}

/// The text is not a valid locator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceRefError {
    #[error("source_ref is not a JSON object: {text}")]
    NotAnObject { text: String },
    /// An invalid number: treated as missing, it would select other bytes.
    #[error("`{key}` of source_ref is not a number of bytes or pages: {value}")]
    Number { key: &'static str, value: String },
    #[error("`byte_offset` and `byte_size` of source_ref end beyond any file")]
    Overflow,
}

impl SourceRef {
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut object = Map::new();
        object.insert("path".to_owned(), Value::from(self.path.as_deref()));
        object.insert("member".to_owned(), Value::from(self.member.as_deref()));
        object.insert("byte_offset".to_owned(), Value::from(self.byte_offset));
        object.insert("byte_size".to_owned(), Value::from(self.byte_size));
        if let Some(frame) = self.frame_index {
            object.insert("frame_index".to_owned(), Value::from(frame));
        }
        json_dumps(&object, true)
    }

    /// Null, NaN and "" give the empty locator; unknown keys are ignored.
    ///
    /// # Errors
    /// [`SourceRefError`] for any other text, and for numbers that are negative,
    /// fractions, or too large.
    pub fn parse(text: Option<&str>) -> Result<Self, SourceRefError> {
        let Some(text) = text.filter(|text| !text.is_empty() && *text != "NaN" && *text != "null")
        else {
            return Ok(Self::default());
        };
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text) else {
            return Err(SourceRefError::NotAnObject { text: text.to_owned() });
        };
        let string = |key: &str| match object.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            None | Some(Value::Null) => None,
            Some(other) => Some(other.to_string()),
        };
        let number = |key: &'static str| {
            let value = match object.get(key) {
                None | Some(Value::Null) => return Ok(None),
                Some(value) => value,
            };
            let found = match value {
                Value::Number(number) => number.as_u64().or_else(|| whole(number.as_str())),
                Value::String(text) if text.is_empty() => return Ok(None),
                Value::String(text) => text.parse().ok().or_else(|| whole(text)),
                _ => None,
            };
            found.map(Some).ok_or_else(|| SourceRefError::Number { key, value: value.to_string() })
        };
        let found = Self {
            path: string("path"),
            member: string("member"),
            byte_offset: number("byte_offset")?,
            byte_size: number("byte_size")?,
            frame_index: number("frame_index")?,
        };
        match found.byte_offset.zip(found.byte_size) {
            Some((offset, size)) if offset.checked_add(size).is_none() => {
                Err(SourceRefError::Overflow)
            }
            _ => Ok(found),
        }
    }

    /// The byte range of the archive file, if the locator names a usable one.
    #[must_use]
    pub fn range(&self) -> Option<Range<u64>> {
        self.stated_range().filter(|_| self.member.is_some())
    }

    /// The byte range that the locator names, with or without a member.
    #[must_use]
    pub fn stated_range(&self) -> Option<Range<u64>> {
        let (offset, size) = (self.byte_offset?, self.byte_size?);
        if size == 0 { None } else { Some(offset..offset.checked_add(size)?) }
    }
}

/// Accepts `512.0`, as written by tables without nullable integers.
fn whole(text: &str) -> Option<u64> {
    let (integer, fraction) = text.split_once('.')?;
    if fraction.bytes().all(|byte| byte == b'0') { integer.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_and_frame_index_appears_only_when_set() {
        let mut locator = SourceRef {
            path: Some("a.tar".to_owned()),
            member: Some("ü.tiff".to_owned()),
            ..SourceRef::default()
        };
        assert_eq!(
            locator.to_json(),
            r#"{"path": "a.tar", "member": "\u00fc.tiff", "byte_offset": null, "byte_size": null}"#
        );
        locator.frame_index = Some(0);
        assert!(locator.to_json().ends_with(r#""byte_size": null, "frame_index": 0}"#));
        assert_eq!(SourceRef::parse(Some(&locator.to_json())), Ok(locator));
    }

    #[test]
    fn missing_locators_are_empty_and_lists_are_refused() {
        for text in
            [None, Some(""), Some("null"), Some("NaN"), Some("{}"), Some(r#"{"legacy": 1}"#)]
        {
            assert_eq!(SourceRef::parse(text), Ok(SourceRef::default()));
        }
        let float = SourceRef::parse(Some(r#"{"byte_offset": 512.0, "byte_size": "7"}"#)).unwrap();
        assert_eq!((float.byte_offset, float.byte_size), (Some(512), Some(7)));
        assert!(SourceRef::parse(Some("[1]")).is_err());
        assert!(SourceRef::parse(Some("{")).is_err());
    }

    #[test]
    fn number_that_counts_nothing_is_refused() {
        for value in [
            "-1",
            "1.5",
            "1e400",
            "18446744073709551616",
            "true",
            "[1]",
            r#""-1""#,
            r#""x""#,
            "-0.5",
            "1e3x",
        ] {
            for key in ["byte_offset", "byte_size", "frame_index"] {
                assert!(
                    SourceRef::parse(Some(&format!(r#"{{"path": "a", "{key}": {value}}}"#)))
                        .is_err(),
                    "{key} {value}"
                );
            }
        }
        let beyond = format!(
            r#"{{"path": "a", "member": "m", "byte_offset": {}, "byte_size": 2}}"#,
            u64::MAX
        );
        assert_eq!(SourceRef::parse(Some(&beyond)), Err(SourceRefError::Overflow));
    }

    #[test]
    fn range_needs_a_member_and_a_size() {
        let whole = SourceRef { byte_offset: Some(1), byte_size: Some(2), ..SourceRef::default() };
        assert_eq!(whole.range(), None);
        let member = SourceRef { member: Some("m".to_owned()), ..whole };
        assert_eq!(member.range(), Some(1..3));
        assert_eq!(SourceRef { byte_size: Some(0), ..member.clone() }.range(), None);
        assert_eq!(SourceRef { byte_offset: Some(u64::MAX), ..member }.range(), None);
    }
}
