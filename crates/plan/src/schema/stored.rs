//! A schema as text: for the plan of a job, and for other machines.
//!
//! As in the metadata of a Parquet file: the IPC message of Arrow, in base64.

use arrow_ipc::convert::try_schema_from_flatbuffer_bytes;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};
use arrow_schema::{ArrowError, Schema};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The schema as text.
#[must_use]
pub fn schema_text(schema: &Schema) -> String {
    let (mut dictionaries, options) = (DictionaryTracker::new(false), IpcWriteOptions::default());
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        schema,
        &mut dictionaries,
        &options,
    );
    STANDARD.encode(encoded.ipc_message)
}

/// The schema of a text that [`schema_text`] made.
///
/// # Errors
/// For another text.
pub fn schema_of_text(text: &str) -> Result<Schema, ArrowError> {
    let bytes = STANDARD.decode(text).map_err(|error| ArrowError::ParseError(error.to_string()))?;
    try_schema_from_flatbuffer_bytes(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field, TimeUnit};
    use std::collections::HashMap;

    #[test]
    fn schema_survives_as_text() {
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let of = |key: &str| HashMap::from([(key.to_owned(), "value".to_owned())]);
        let list =
            DataType::new_list(DataType::Struct(vec![Field::new("a", zoned, false)].into()), true);
        let fields = vec![
            Field::new("list", list, true),
            Field::new("words", words, false).with_metadata(of("field")),
        ];
        let schema = Schema::new_with_metadata(fields, of("schema"));
        assert_eq!(schema_of_text(&schema_text(&schema)).unwrap(), schema);
        assert!(schema_of_text("not a schema").is_err() && schema_of_text("AAAA").is_err());
    }
}
