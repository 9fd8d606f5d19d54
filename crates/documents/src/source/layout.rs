//! Where the texts and images of a document are, if it is one row or one JSON object.
//!
//! A layout is recognised by the names and kinds of fields. The invariant: where two readings are
//! possible, none is chosen.

use crate::schema::{is_reserved, json_field};
use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names that the user gives; those that are left out are recognised.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentKeys {
    pub sample_id_field: Option<String>,
    pub texts_field: Option<String>,
    pub images_field: Option<String>,
    pub messages_field: Option<String>,
    /// Texts and images in this order.
    pub parts: Option<Vec<String>>,
    /// Lists with one value for each image, or for each text and image.
    pub per_image_fields: Vec<String>,
    /// Stands in texts for the next image.
    pub marker: String,
    /// The directory of references; that of the file if `None`.
    pub image_root: Option<String>,
}

impl Default for DocumentKeys {
    fn default() -> Self {
        Self {
            sample_id_field: None,
            texts_field: None,
            images_field: None,
            messages_field: None,
            parts: None,
            per_image_fields: Vec::new(),
            marker: "<image>".to_owned(),
            image_root: None,
        }
    }
}

impl DocumentKeys {
    /// The fields that the user names.
    pub(super) fn named(&self) -> impl Iterator<Item = &String> {
        [&self.sample_id_field, &self.texts_field, &self.images_field, &self.messages_field]
            .into_iter()
            .flatten()
            .chain(self.parts.iter().flatten())
            .chain(&self.per_image_fields)
    }
}

/// What a field may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Text,
    Image,
    /// A list of [`FieldKind::Image`].
    Images,
    /// A list, null, or any other value.
    Other,
}

impl FieldKind {
    fn of_type(data_type: &DataType) -> Self {
        match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Dictionary(_, values) => Self::of_type(values),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Image,
            // Image of Hugging Face `datasets`.
            DataType::Struct(fields) => match fields.find("bytes") {
                Some((_, bytes)) if fields.find("path").is_some() => {
                    match Self::of_type(bytes.data_type()) {
                        Self::Image => Self::Image,
                        _ => Self::Other,
                    }
                }
                _ => Self::Other,
            },
            DataType::List(values)
            | DataType::LargeList(values)
            | DataType::FixedSizeList(values, _) => match Self::of_type(values.data_type()) {
                Self::Image => Self::Images,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }

    fn is_image(self) -> bool {
        matches!(self, Self::Image | Self::Images)
    }
}

/// The fields with the content of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Parallel lists, as in OBELICS and OmniCorpus.
    Lists {
        texts: Option<String>,
        images: Option<String>,
    },
    /// MMC4: images name the text that they belong to.
    Mmc4,
    /// Texts and images in this order; the flag tells which are images.
    Columns(Vec<(String, bool)>),
    Chat {
        messages: String,
        images: Option<String>,
    },
}

const TEXT_LIST: &str = "text_list";
const IMAGE_INFO: &str = "image_info";
const TEXTS: [&str; 3] = ["texts", "text", "caption"];
const IMAGES: [&str; 2] = ["images", "image"];
const MESSAGES: [&str; 2] = ["messages", "conversations"];

impl Layout {
    /// The layout of rows with these columns.
    pub(crate) fn of_schema(keys: &DocumentKeys, schema: &Schema) -> Option<Self> {
        let fields = schema.fields().iter().filter(|field| !is_reserved(field.name()));
        let kind = |field: &Field| FieldKind::of_type(field.data_type());
        let fields: Vec<_> = fields.map(|field| (field.name().as_str(), kind(field))).collect();
        Self::of(keys, &fields)
    }

    /// The layout of a JSON object.
    pub(crate) fn of_object(keys: &DocumentKeys, object: &Map<String, Value>) -> Option<Self> {
        let kind = |value: &Value| match value {
            Value::String(_) => FieldKind::Text,
            _ => FieldKind::Other,
        };
        let fields: Vec<_> =
            object.iter().map(|(name, value)| (name.as_str(), kind(value))).collect();
        Self::of(keys, &fields)
    }

    fn of(keys: &DocumentKeys, fields: &[(&str, FieldKind)]) -> Option<Self> {
        let kind =
            |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let there = |name: &&str| kind(name).is_some();
        let named = |given: &Option<String>, names: &[&'static str]| match given {
            Some(name) => Some(name.as_str()).filter(there).map(str::to_owned),
            None => only(names.iter().copied().filter(there)).map(str::to_owned),
        };
        let is_image = |name: &str| {
            keys.images_field.as_deref() == Some(name)
                || IMAGES.contains(&name)
                || kind(name).is_some_and(FieldKind::is_image)
        };
        if let Some(parts) = &keys.parts {
            let parts = parts.iter().map(|name| (name.clone(), is_image(name))).collect::<Vec<_>>();
            return parts
                .iter()
                .any(|(name, _)| there(&name.as_str()))
                .then_some(Self::Columns(parts));
        }
        let images = named(&keys.images_field, &IMAGES).or_else(|| {
            let own = fields.iter().filter(|(_, kind)| kind.is_image()).map(|(name, _)| *name);
            only(own).filter(|_| keys.images_field.is_none()).map(str::to_owned)
        });
        if let Some(messages) = named(&keys.messages_field, &MESSAGES) {
            return Some(Self::Chat { messages, images });
        }
        if [TEXT_LIST, IMAGE_INFO].iter().all(there) {
            return Some(Self::Mmc4);
        }
        let texts = named(&keys.texts_field, &TEXTS).or_else(|| {
            let may_be_any = images.as_deref().and_then(kind).is_some_and(FieldKind::is_image)
                && keys.texts_field.is_none()
                && TEXTS.iter().copied().filter(there).count() == 0;
            let own = fields.iter().filter(|(_, kind)| *kind == FieldKind::Text);
            only(own.map(|(name, _)| *name)).filter(|_| may_be_any).map(str::to_owned)
        });
        let are_texts =
            |name: &String| *name == TEXTS[0] || keys.texts_field.as_ref() == Some(name);
        match (texts, images) {
            (Some(texts), Some(images))
                if kind(&texts) == Some(FieldKind::Text)
                    || matches!(kind(&images), Some(FieldKind::Image | FieldKind::Text)) =>
            {
                Some(Self::Columns(vec![(images, true), (texts, false)]))
            }
            (Some(texts), Some(images)) => {
                Some(Self::Lists { texts: Some(texts), images: Some(images) })
            }
            (Some(texts), None) if are_texts(&texts) && kind(&texts) != Some(FieldKind::Text) => {
                Some(Self::Lists { texts: Some(texts), images: None })
            }
            _ => None,
        }
    }

    /// The fields with content, which are not passed through.
    pub(crate) fn content(&self) -> Vec<&str> {
        match self {
            Self::Lists { texts, images } => {
                texts.iter().chain(images).map(String::as_str).collect()
            }
            Self::Mmc4 => vec![TEXT_LIST, IMAGE_INFO],
            Self::Columns(parts) => parts.iter().map(|(name, _)| name.as_str()).collect(),
            Self::Chat { messages, images } => {
                std::iter::once(messages).chain(images).map(String::as_str).collect()
            }
        }
    }

    /// The columns with values of single texts and images.
    pub(crate) fn of_parts(&self) -> Vec<Field> {
        match self {
            Self::Mmc4 => vec![json_field(IMAGE_INFO)],
            Self::Chat { .. } => vec![
                Field::new("role", DataType::Utf8, true),
                Field::new("turn", DataType::Int64, true),
            ],
            Self::Lists { .. } | Self::Columns(_) => Vec::new(),
        }
    }
}

/// The item of an iterator with only one.
fn only<'a>(mut items: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    items.next().filter(|_| items.next().is_none())
}
