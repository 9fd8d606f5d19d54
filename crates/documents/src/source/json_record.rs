//! A JSON object as a document.

use super::layout::{DocumentKeys, Layout};
use super::parts::{Part, Record, id_of, parts_of};
use super::picture::Picture;
use serde_json::{Map, Value};

impl Record for Map<String, Value> {
    fn value(&self, field: &str) -> Result<Value, String> {
        Ok(self.get(field).cloned().unwrap_or_default())
    }

    fn pictures(&self, field: &str) -> Result<Vec<Option<Picture>>, String> {
        Ok(Picture::all_of(self.value(field)?))
    }
}

/// The content of an object, and its other values.
pub(super) struct JsonDocument {
    pub id: Option<String>,
    pub parts: Vec<Part>,
    pub values: Map<String, Value>,
}

impl JsonDocument {
    /// # Errors
    /// Why the object is not a document.
    pub(super) fn of(object: &Map<String, Value>, keys: &DocumentKeys) -> Result<Self, String> {
        let Some(layout) = Layout::of_object(keys, object) else {
            return Err("the document has no known layout".to_owned());
        };
        let (id, parts) = (id_of(object, keys)?, parts_of(object, &layout, keys)?);
        let content = layout.content();
        let is_passed = |key: &String| {
            !content.contains(&key.as_str())
                && keys.sample_id_field.as_ref() != Some(key)
                && !keys.per_image_fields.contains(key)
        };
        let values = object.iter().filter(|(key, _)| is_passed(key));
        let values = values.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Self { id, parts, values })
    }
}
