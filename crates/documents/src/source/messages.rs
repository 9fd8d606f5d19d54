//! The texts and places of images in a chat.
//!
//! Both spellings are read: `role` and `content`, of which a content is a text or a list of typed
//! parts (OpenAI, Hugging Face), and `from` and `value` (ShareGPT, LLaVA).

use super::keys::kind_of;
use super::picture::Picture;
use super::slots::{Slot, Slots, push_text};
use serde_json::{Map, Value};

/// # Errors
/// Why the value is not a list of messages with texts and images.
pub(super) fn chat_slots(messages: Value, marker: &str) -> Result<Slots, String> {
    let messages = match messages {
        Value::String(text) => {
            serde_json::from_str(&text).map_err(|error| format!("broken messages: {error}"))?
        }
        messages => messages,
    };
    let mut slots = Slots::new();
    let Value::Array(messages) = messages else {
        return match messages {
            Value::Null => Ok(slots),
            other => Err(format!("the messages are {}, not a list", kind_of(&other))),
        };
    };
    for (turn, message) in messages.into_iter().enumerate() {
        let Value::Object(mut message) = message else {
            return Err(format!("message {turn} is {}, not an object", kind_of(&message)));
        };
        let mut take = |names: [&str; 2]| {
            let value = names.iter().find_map(|name| message.shift_remove(*name));
            value.unwrap_or_default()
        };
        let (role, content) = (take(["role", "from"]), take(["content", "value"]));
        let values = Map::from_iter([
            ("role".to_owned(), role),
            ("turn".to_owned(), Value::from(turn as u64)),
        ]);
        let others = |value: &Value| !value.is_null() && value.as_array() != Some(&Vec::new());
        if let Some((key, _)) = message.iter().find(|(_, value)| others(value)) {
            return Err(format!("message {turn} has the key `{key}`, which a row cannot hold"));
        }
        let before = slots.len();
        match content {
            Value::Null => {}
            Value::String(text) => push_text(&mut slots, &text, marker, &values),
            Value::Array(parts) => {
                for part in parts {
                    push_part(&mut slots, part, marker, &values)
                        .map_err(|problem| format!("message {turn} has {problem}"))?;
                }
            }
            other => return Err(format!("the content of message {turn} is {}", kind_of(&other))),
        }
        if slots.len() == before {
            slots.push((Slot::Text(String::new()), values));
        }
    }
    Ok(slots)
}

fn push_part(
    slots: &mut Slots,
    part: Value,
    marker: &str,
    values: &Map<String, Value>,
) -> Result<(), String> {
    let mut part = match part {
        Value::Object(part) => part,
        Value::String(text) => {
            push_text(slots, &text, marker, values);
            return Ok(());
        }
        other => return Err(format!("a part that is {}", kind_of(&other))),
    };
    part.retain(|_, value| !value.is_null());
    match part.shift_remove("type").as_ref().and_then(Value::as_str) {
        Some("text" | "input_text" | "output_text") | None if part.contains_key("text") => {
            let text = part.shift_remove("text").unwrap_or_default();
            let text = text.as_str().ok_or("a text that is not a string")?;
            // A typed text is only text: its images are parts of their own.
            if !text.is_empty() {
                slots.push((Slot::Text(text.to_owned()), values.clone()));
            }
        }
        Some("image" | "image_url" | "input_image") => {
            part.shift_remove("detail");
            part.shift_remove("index");
            let slot = if part.is_empty() {
                Slot::Next
            } else {
                let picture = Picture::of(Value::Object(part));
                Slot::Own(picture.unwrap_or(Picture::Missing("the image is null")))
            };
            slots.push((slot, values.clone()));
        }
        kind => return Err(format!("a part of type {}", kind.unwrap_or("null"))),
    }
    Ok(())
}
