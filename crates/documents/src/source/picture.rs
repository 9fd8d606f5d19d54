//! An image of a document, as a row or a JSON object states it.

use bytes::Bytes;
use serde_json::Value;

#[derive(Debug)]
pub(crate) enum Picture {
    /// The bytes of an image, and the name that it had.
    Bytes(Bytes, Option<String>),
    /// A path, an URL, or bytes in base64.
    Named(String),
    Missing(&'static str),
}

impl Picture {
    /// The image that a JSON value holds or names.
    pub(crate) fn of(value: Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::String(text) => Some(Self::Named(text)),
            Value::Object(mut object) => {
                let keys = ["bytes", "base64", "data", "image_url", "image", "url", "path"];
                let mut found = keys.iter().filter_map(|key| {
                    object.get_mut(*key).map(Value::take).filter(|value| !value.is_null())
                });
                found
                    .next()
                    .map_or(Some(Self::Missing("an image without bytes and path")), Self::of)
            }
            _ => Some(Self::Missing("an image that is neither a text nor an object")),
        }
    }

    /// Those of a value that is one image or a list.
    pub(crate) fn all_of(value: Value) -> Vec<Option<Self>> {
        match value {
            Value::Null => Vec::new(),
            Value::Array(list) => list.into_iter().map(Self::of).collect(),
            one => vec![Self::of(one)],
        }
    }
}
