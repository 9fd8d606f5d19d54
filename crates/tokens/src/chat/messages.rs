//! Messages as a template sees them.

use super::environment::value;
use crate::error::{Error, Result};
use crate::quote::quoted;
use minijinja::Value;
use serde_json::Value as Json;

/// The names of reasoning, the standard one first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
const IMAGES: [&str; 2] = ["image", "image_url"];
const MEDIA: [&str; 3] = ["video", "audio", "input_audio"];

/// A message, converted once however many times it is rendered.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) is_assistant: bool,
    pub(super) value: Value,
}

/// Without null keys, as transformers passes messages. As there, reasoning under any name is also
/// `reasoning_content`, and `thinking` if the message has none.
pub(super) fn prepared(messages: &Json, with_images: bool) -> Result<Vec<Message>> {
    let Json::Array(messages) = messages else {
        return Err(Error::Messages { problem: "are not a list".to_owned() });
    };
    let messages = messages.iter().enumerate();
    messages.map(|(turn, message)| prepared_message(turn, message, with_images)).collect()
}

fn prepared_message(turn: usize, message: &Json, with_images: bool) -> Result<Message> {
    let invalid = |problem: &str| Err(Error::Message { turn, problem: problem.to_owned() });
    let Json::Object(entries) = message else {
        return invalid("is not an object");
    };
    let Some(role) = entries.get("role").and_then(Json::as_str) else {
        return invalid("has no role");
    };
    let parts = entries.get("content").and_then(Json::as_array).into_iter().flatten();
    let is_refused = |kind: &&str| MEDIA.contains(kind) || (IMAGES.contains(kind) && !with_images);
    for part in parts {
        if let Some(kind) = part.get("type").and_then(Json::as_str).filter(is_refused) {
            let encoded = if with_images { "text and images" } else { "text" };
            return invalid(&format!(
                "has a part of type {}, but only {encoded} can be encoded",
                quoted(kind)
            ));
        }
    }
    let reasoning = REASONING
        .into_iter()
        .find_map(|name| entries.get(name).filter(|reasoning| !reasoning.is_null()))
        .map(value);
    let alias = |name: &'static str| reasoning.clone().map(|reasoning| (name, reasoning));
    let given = entries
        .iter()
        .filter(|(_, item)| !item.is_null())
        .map(|(key, item)| (key.as_str(), value(item)));
    // A name that is given keeps its place, as in a dict.
    Ok(Message {
        is_assistant: role == "assistant",
        value: Value::from_pairs(
            alias("thinking").into_iter().chain(given).chain(alias("reasoning_content")),
        ),
    })
}
