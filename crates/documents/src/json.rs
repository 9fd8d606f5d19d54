//! JSON text with Python's formatting, and Arrow cells as JSON values.
//!
//! Cells with lists or objects are stored as text. Users compare that text with the output of
//! `json.dumps(…, ensure_ascii=False)`, so the separators are Python's; numbers keep their digits.

use crate::{Error, Result};
use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use serde_json::Value;
use shardmill_formats::json::{Dialect, Unwritable, ValueEncoder, json_dumps};

/// The value formatted as by `json.dumps(value, ensure_ascii=False)`.
#[must_use]
pub fn json_text(value: &Value) -> String {
    json_dumps(value, false)
}

/// The cells of a column as the JSON that a WebDataset sample carries.
#[derive(Debug)]
pub struct JsonCells {
    column: String,
    encoder: ValueEncoder,
}

impl JsonCells {
    /// # Errors
    /// [`Error::Cast`] for a type that has no text form.
    pub fn new(column: &str, array: &ArrayRef) -> Result<Self> {
        let encoder = ValueEncoder::new(column, array, Dialect::Document)
            .map_err(|refused| no_json(column, &refused))?;
        Ok(Self { column: column.to_owned(), encoder })
    }

    /// `None` for a null, and for a non-finite number.
    ///
    /// # Errors
    /// [`Error::Cast`] for a value that has no text.
    pub fn text(&self, row: usize) -> Result<Option<String>> {
        let mut text = Vec::new();
        self.encoder.write(row, 0, &mut text).map_err(|refused| no_json(&self.column, &refused))?;
        Ok(String::from_utf8(text).ok().filter(|text| text != "null"))
    }

    /// # Errors
    /// As [`JsonCells::text`].
    pub fn value(&self, row: usize) -> Result<Value> {
        Ok(self.text(row)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }
}

fn no_json(column: &str, refused: &Unwritable) -> Error {
    Error::Cast {
        column: column.to_owned(),
        data_type: "JSON".to_owned(),
        source: ArrowError::CastError(refused.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{BooleanBuilder, Int32Builder, MapBuilder};
    use arrow_array::{BinaryArray, Float32Array, StringArray, TimestampMicrosecondArray};
    use std::sync::Arc;

    #[test]
    fn text_is_spelled_as_python_spells_it() {
        let value: Value = serde_json::from_str(
            r#"{"a":[1,2.50,"ü",null],"b":{},"big":123456789012345678901234567890}"#,
        )
        .unwrap();
        assert_eq!(
            json_text(&value),
            r#"{"a": [1, 2.50, "ü", null], "b": {}, "big": 123456789012345678901234567890}"#
        );
        assert_eq!(json_dumps(&Value::from("ü😀"), true), r#""\u00fc\ud83d\ude00""#);
    }

    fn cell(array: &ArrayRef, row: usize) -> Value {
        JsonCells::new("x", array).unwrap().value(row).unwrap()
    }

    #[test]
    fn binaries_are_base64_and_maps_are_objects() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from_iter_values(["", "f", "foob"]));
        assert_eq!([0, 1, 2].map(|row| cell(&bytes, row)), ["", "Zg==", "Zm9vYg=="]);
        let mut maps = MapBuilder::new(None, Int32Builder::new(), BooleanBuilder::new());
        maps.keys().append_slice(&[1, 2]);
        maps.values().append_slice(&[true, false]);
        maps.append(true).unwrap();
        assert_eq!(
            json_text(&cell(&(Arc::new(maps.finish()) as ArrayRef), 0)),
            r#"{"1": true, "2": false}"#
        );
    }

    #[test]
    fn floats_keep_their_digits_and_nan_becomes_null() {
        let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.1, f32::NAN]));
        assert_eq!(json_text(&cell(&floats, 0)), "0.1");
        assert_eq!(cell(&floats, 1), Value::Null);
    }

    #[test]
    fn timestamps_are_iso_8601() {
        let times: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC"));
        assert_eq!(cell(&times, 0), "1970-01-01T00:00:01.500Z");
        for (zone, text) in [
            ("Europe/Berlin", "1970-01-01T00:00:01.500Z"),
            ("+02:00", "1970-01-01T02:00:01.500+02:00"),
        ] {
            let times: ArrayRef =
                Arc::new(TimestampMicrosecondArray::from(vec![0, 1_500_000]).with_timezone(zone));
            assert_eq!(cell(&times, 1), text);
        }
        let words: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
        assert_eq!(cell(&words, 1), Value::Null);
    }
}
