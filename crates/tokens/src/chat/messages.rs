//! Messages as a template sees them.

use crate::error::{Error, Result};
use serde_json::{Map, Value as Json};

/// The names of reasoning, the standard one first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
const MEDIA: [&str; 5] = ["image", "image_url", "video", "audio", "input_audio"];

/// Without null keys, as transformers passes messages, and with reasoning under all names.
pub(super) fn prepared(messages: &Json) -> Result<Vec<Json>> {
    let Json::Array(messages) = messages else {
        return Err(Error::Messages { problem: "are not a list".to_owned() });
    };
    messages.iter().enumerate().map(|(turn, message)| prepared_message(turn, message)).collect()
}

fn prepared_message(turn: usize, message: &Json) -> Result<Json> {
    let invalid = |problem: &str| Err(Error::Message { turn, problem: problem.to_owned() });
    let Json::Object(entries) = message else {
        return invalid("is not an object");
    };
    let entries: Map<String, Json> = entries.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())).collect();
    if entries.get("role").and_then(Json::as_str).is_none() {
        return invalid("has no role");
    }
    let parts = entries.get("content").and_then(Json::as_array).into_iter().flatten();
    for part in parts {
        if let Some(kind) = part.get("type").and_then(Json::as_str).filter(|kind| MEDIA.contains(kind)) {
            return invalid(&format!("has a part of type {kind:?}, and only text has tokens"));
        }
    }
    let Some(reasoning) = REASONING.into_iter().find_map(|name| entries.get(name)).cloned() else {
        return Ok(Json::Object(entries));
    };
    let mut aliased = Map::new();
    aliased.insert("thinking".to_owned(), reasoning.clone());
    aliased.extend(entries);
    aliased.insert("reasoning_content".to_owned(), reasoning);
    Ok(Json::Object(aliased))
}
