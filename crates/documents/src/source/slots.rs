//! Texts and places of images in reading order, before the images are known.

use super::picture::Picture;
use serde_json::{Map, Value};

/// With the values that its row has.
pub(crate) type Slots = Vec<(Slot, Map<String, Value>)>;

/// What takes a place in reading order.
pub(crate) enum Slot {
    Text(String),
    /// The next image of the field with images.
    Next,
    Own(Picture),
}

/// Cuts a text at its markers.
pub(crate) fn push_text(slots: &mut Slots, text: &str, marker: &str, values: &Map<String, Value>) {
    let mut rest = (!text.is_empty()).then_some(text);
    while let Some(text) = rest {
        let cut = if marker.is_empty() { None } else { text.split_once(marker) };
        let (before, after) = cut.map_or((text, None), |(before, after)| (before, Some(after)));
        if !before.is_empty() {
            slots.push((Slot::Text(before.to_owned()), values.clone()));
        }
        if cut.is_some() {
            slots.push((Slot::Next, values.clone()));
        }
        rest = after;
    }
}
