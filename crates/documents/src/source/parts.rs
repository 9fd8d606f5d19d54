//! The texts and images of a document that is one row or one JSON object, in reading order.

use super::layout::{DocumentKeys, Layout};
use super::messages::chat_slots;
use super::picture::Picture;
use super::slots::{Slot, Slots, push_text};
use crate::counted;
use crate::json::json_text;
use serde_json::{Map, Value};

/// A text or an image.
#[derive(Debug)]
pub(crate) struct Part {
    pub position: i32,
    pub content: Content,
    /// Values of this part alone, by column.
    pub values: Map<String, Value>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Text(String),
    Image(Picture),
}

/// One row or one object.
pub(crate) trait Record {
    /// The value of a field as JSON; null if there is none.
    ///
    /// # Errors
    /// Why it has no such value.
    fn value(&self, field: &str) -> Result<Value, String>;

    /// The images of a field that holds one or a list.
    ///
    /// # Errors
    /// Why it has no such value.
    fn pictures(&self, field: &str) -> Result<Vec<Option<Picture>>, String>;
}

/// The id of a record, if a field has it.
pub(crate) fn id_of(record: &impl Record, keys: &DocumentKeys) -> Result<Option<String>, String> {
    let Some(field) = &keys.sample_id_field else { return Ok(None) };
    Ok(text_of(record.value(field)?))
}

/// # Errors
/// Why the record is not a document of its layout.
pub(crate) fn parts_of(
    record: &impl Record,
    layout: &Layout,
    keys: &DocumentKeys,
) -> Result<Vec<Part>, String> {
    let pictures = |field: &Option<String>| {
        field.as_ref().map_or(Ok(Vec::new()), |field| record.pictures(field))
    };
    let mut parts = match layout {
        Layout::Lists { texts, images } => {
            let texts = match texts {
                Some(field) => list_of(record, field)?,
                None => Vec::new(),
            };
            parallel(texts, pictures(images)?)
        }
        Layout::Mmc4 => matched(list_of(record, "text_list")?, list_of(record, "image_info")?)?,
        Layout::Columns(columns) => in_order(record, columns, &keys.marker)?,
        Layout::Chat { messages, images } => {
            let slots = chat_slots(record.value(messages)?, &keys.marker)?;
            filled(slots, pictures(images)?)?
        }
    };
    for field in &keys.per_image_fields {
        divide(&mut parts, field, &list_of(record, field)?)?;
    }
    Ok(parts)
}

/// The list of a field; a text is its JSON.
fn list_of(record: &impl Record, field: &str) -> Result<Vec<Value>, String> {
    let value = match record.value(field)? {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        value => value,
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => Ok(list),
        other => Err(format!("`{field}` is {}, not a list", super::keys::kind_of(&other))),
    }
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(json_text(&other)),
    }
}

/// Lists of which each index has a text or an image; if it has both, the text is first.
fn parallel(texts: Vec<Value>, images: Vec<Option<Picture>>) -> Vec<Part> {
    let (mut texts, mut images) = (texts.into_iter(), images.into_iter());
    let mut parts = Vec::new();
    for position in 0_i32.. {
        let (text, image) = match (texts.next(), images.next()) {
            (None, None) => break,
            pair => pair,
        };
        let content = text.and_then(text_of).map(Content::Text).into_iter();
        for content in content.chain(image.flatten().map(Content::Image)) {
            parts.push(Part { position, content, values: Map::new() });
        }
    }
    parts
}

/// MMC4: each image stands before the text that it matches.
fn matched(texts: Vec<Value>, infos: Vec<Value>) -> Result<Vec<Part>, String> {
    let mut before: Vec<Vec<(Picture, Value)>> = Vec::new();
    before.resize_with(texts.len(), Vec::new);
    for info in infos {
        let index = info.get("matched_text_index").and_then(Value::as_u64);
        let place = index.and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX);
        let place = before.get_mut(place).ok_or_else(|| {
            format!(
                "`matched_text_index` of an image is {}, and there are {}",
                index.map_or_else(|| "not a number".to_owned(), |index| index.to_string()),
                counted(texts.len() as u64, "text"),
            )
        })?;
        let name = ["image_name", "raw_url"].iter().find_map(|key| info.get(*key)?.as_str());
        let picture = name.map_or(Picture::Missing("an image without `image_name`"), |name| {
            Picture::Named(name.to_owned())
        });
        place.push((picture, info));
    }
    let mut parts = Parts::default();
    for (text, images) in texts.into_iter().zip(before) {
        for (picture, info) in images {
            let values = Map::from_iter([("image_info".to_owned(), info)]);
            parts.push(Content::Image(picture), values);
        }
        if let Some(text) = text_of(text) {
            parts.push(Content::Text(text), Map::new());
        }
    }
    Ok(parts.0)
}

/// Columns one after the other, or the images in the places of markers in the texts.
fn in_order(
    record: &impl Record,
    columns: &[(String, bool)],
    marker: &str,
) -> Result<Vec<Part>, String> {
    let mut contents = Vec::new();
    for (name, is_image) in columns {
        if *is_image {
            let pictures = record.pictures(name)?.into_iter().flatten();
            contents.extend(pictures.map(Content::Image));
            continue;
        }
        let texts = match record.value(name)? {
            Value::Array(texts) => texts,
            one => vec![one],
        };
        contents.extend(texts.into_iter().filter_map(text_of).map(Content::Text));
    }
    let has_marker = |content: &Content| match content {
        Content::Text(text) => !marker.is_empty() && text.contains(marker),
        Content::Image(_) => false,
    };
    if !contents.iter().any(has_marker) {
        let mut parts = Parts::default();
        contents.into_iter().for_each(|content| parts.push(content, Map::new()));
        return Ok(parts.0);
    }
    let (mut slots, mut images) = (Slots::new(), Vec::new());
    for content in contents {
        match content {
            Content::Text(text) => push_text(&mut slots, &text, marker, &Map::new()),
            Content::Image(picture) => images.push(Some(picture)),
        }
    }
    filled(slots, images)
}

/// Puts images into their places.
///
/// # Errors
/// When there are more or fewer images than places.
fn filled(slots: Slots, images: Vec<Option<Picture>>) -> Result<Vec<Part>, String> {
    let places = slots.iter().filter(|(slot, _)| matches!(slot, Slot::Next)).count();
    if places != images.len() {
        return Err(format!(
            "its texts have {} for images, and it has {}",
            counted(places as u64, "place"),
            counted(images.len() as u64, "image"),
        ));
    }
    let (mut images, mut parts) = (images.into_iter(), Parts::default());
    for (slot, values) in slots {
        let content = match slot {
            Slot::Text(text) => Content::Text(text),
            Slot::Own(picture) => Content::Image(picture),
            Slot::Next => {
                let image = images.next().flatten();
                Content::Image(image.unwrap_or(Picture::Missing("the image is null")))
            }
        };
        parts.push(content, values);
    }
    Ok(parts.0)
}

/// Gives each image its value of a list with one for each image, or for each position.
fn divide(parts: &mut [Part], field: &str, list: &[Value]) -> Result<(), String> {
    if list.is_empty() {
        return Ok(());
    }
    let is_image = |part: &&mut Part| matches!(part.content, Content::Image(_));
    let images = parts.iter_mut().filter(is_image).count();
    let end = parts.iter().map(|part| part.position + 1).max().unwrap_or_default();
    let by_position = list.len() != images;
    if by_position && usize::try_from(end) != Ok(list.len()) {
        return Err(format!(
            "`{field}` has {}, and there are {}",
            counted(list.len() as u64, "value"),
            counted(images as u64, "image"),
        ));
    }
    for (number, part) in parts.iter_mut().filter(is_image).enumerate() {
        let index = if by_position { usize::try_from(part.position).ok() } else { Some(number) };
        if let Some(value) = index.and_then(|index| list.get(index)) {
            part.values.insert(field.to_owned(), value.clone());
        }
    }
    Ok(())
}

/// Parts without gaps.
#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn push(&mut self, content: Content, values: Map<String, Value>) {
        let position = i32::try_from(self.0.len()).unwrap_or(i32::MAX);
        self.0.push(Part { position, content, values });
    }
}
