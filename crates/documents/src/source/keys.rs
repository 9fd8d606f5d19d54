//! Which members of a shard are samples, and the meaning of the keys of their JSON.
//!
//! Shared by the source, `inspect` and `verify`, so that all three agree on documents and ids.

use crate::archive::Archive;
use crate::json::json_text;
use crate::locate::LocateError;
use crate::payload::append_range;
use crate::reason;
use crate::source::surrogates::lone_surrogate;
use crate::source::tokens::{IMAGE_EXTENSIONS, TokenScope, stem};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardmill_formats::json::json_loads;
use shardmill_formats::limit::{DecodeLimit, TooLarge};
use shardmill_formats::tar::{
    Compression, Member, Role, TarError, documents, inflate, role, sniff_compression,
};
use shardmill_storage::RangeRead;
use std::io::{self, Write};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SampleKeys {
    pub texts_field: String,
    pub images_field: String,
    pub sample_id_field: Option<String>,
    pub image_member_field: Option<String>,
    pub json_extensions: Vec<String>,
    /// Each with a leading dot.
    pub image_extensions: Vec<String>,
}

impl Default for SampleKeys {
    fn default() -> Self {
        Self {
            texts_field: "texts".to_owned(),
            images_field: "images".to_owned(),
            sample_id_field: None,
            image_member_field: None,
            json_extensions: vec![".json".to_owned()],
            image_extensions: IMAGE_EXTENSIONS.map(str::to_owned).to_vec(),
        }
    }
}

impl SampleKeys {
    /// The documents of an archive, as indices of its members.
    #[must_use]
    pub fn documents(&self, archive: &Archive, limit: DecodeLimit) -> Vec<usize> {
        documents(&archive.members, &self.json_extensions, |member| {
            self.has_content(archive, member, limit)
        })
    }

    /// The name without its ending, if it is the name of a document.
    #[must_use]
    pub fn stem_of<'a>(&self, member: &'a Member) -> Option<&'a str> {
        match role(&member.name, &self.json_extensions) {
            Role::Document { stem } => Some(stem),
            _ => None,
        }
    }

    /// Whether a member has the content of a document. A member that cannot be read or parsed may
    /// be a document, and is reported as one.
    fn has_content(&self, archive: &Archive, member: &Member, limit: DecodeLimit) -> bool {
        let Ok(json) = member_bytes(&*archive.object, member, limit) else { return true };
        match json_loads(without_mark(&json)) {
            Ok(Value::Object(object)) => self.has_lists(&object),
            Ok(_) => false,
            Err(_) => true,
        }
    }

    /// Whether the object has one of the lists of an interleaved document.
    #[must_use]
    pub fn has_lists(&self, object: &Map<String, Value>) -> bool {
        [&self.texts_field, &self.images_field].iter().any(|key| object.contains_key(*key))
    }

    /// Value of the image-member field.
    #[must_use]
    pub fn image_member<'a>(&self, object: &'a Map<String, Value>) -> Option<&'a str> {
        object.get(self.image_member_field.as_ref()?)?.as_str()
    }

    /// Where the image tokens of a sample are looked up.
    #[must_use]
    pub fn scope<'a>(
        &'a self,
        archive: &'a Archive,
        member: &'a Member,
        sample_id: &'a str,
        image_member: Option<&'a str>,
    ) -> TokenScope<'a> {
        TokenScope {
            archive,
            json_name: &member.name,
            sample_id,
            image_member,
            extensions: &self.image_extensions,
        }
    }
}

/// `str(value)` of the id field, else the name of the JSON member without its last extension.
#[must_use]
pub fn sample_id(object: &Map<String, Value>, field: Option<&str>, json_name: &str) -> String {
    match field.and_then(|field| object.get(field)) {
        None | Some(Value::Null) => stem(json_name).to_owned(),
        Some(Value::String(id)) => id.clone(),
        Some(Value::Bool(true)) => "True".to_owned(),
        Some(Value::Bool(false)) => "False".to_owned(),
        Some(other) => json_text(other),
    }
}

/// The JSON member as an object.
///
/// # Errors
/// Why it is not an object.
pub fn read_object(
    archive: &Archive,
    member: &Member,
    limit: DecodeLimit,
) -> Result<Map<String, Value>, String> {
    object_of(&*archive.object, member, limit)
}

/// As [`read_object`], for an archive that was not walked completely.
///
/// # Errors
/// Why it is not an object.
pub fn object_of(
    archive: &dyn RangeRead,
    member: &Member,
    limit: DecodeLimit,
) -> Result<Map<String, Value>, String> {
    let bytes = member_bytes(archive, member, limit).map_err(|error| match error {
        LocateError::Row(text) => text,
        LocateError::Storage(error) => reason(&*error),
    })?;
    parse_object(&bytes)
}

/// # Errors
/// For a member above the memory limit, and when the archive cannot be read.
pub(crate) fn member_bytes(
    archive: &dyn RangeRead,
    member: &Member,
    limit: DecodeLimit,
) -> Result<Vec<u8>, LocateError> {
    check_member(limit, archive.path(), member)?;
    let mut bytes = Vec::new();
    append_range(archive, &(member.offset..member.offset + member.size), &mut bytes).map_err(
        |error| {
            let text = reason(&error);
            LocateError::of_read(error, || text)
        },
    )?;
    // No JSON begins with the magic number of a compression.
    match sniff_compression(&bytes) {
        Compression::None => Ok(bytes),
        compression => Ok(unpacked(compression, &bytes, member, limit)?),
    }
}

/// Bytes up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: u64,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() as u64 + bytes.len() as u64 > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// # Errors
/// For damage, a compression that is not read, and content above the memory limit.
fn unpacked(
    compression: Compression,
    stored: &[u8],
    member: &Member,
    limit: DecodeLimit,
) -> Result<Vec<u8>, String> {
    let mut content = Bounded { bytes: Vec::new(), limit: limit.bytes() };
    match inflate(compression, stored, &mut content) {
        Ok(_) => Ok(content.bytes),
        Err(TarError::WriteInflated { .. }) => {
            let (name, limit) = (&member.name, limit.bytes());
            Err(format!(
                "member `{name}` is larger after decompression than max_decoded_bytes, \
                 which is {limit}; {}",
                TooLarge::HINT
            ))
        }
        Err(error) => Err(format!("broken JSON: {error}")),
    }
}

/// The JSON without a byte order mark.
fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json)
}

/// # Errors
/// Why the JSON is not an object.
pub(crate) fn parse_object(json: &[u8]) -> Result<Map<String, Value>, String> {
    let text = without_mark(json);
    match json_loads(text) {
        // Keys become columns, and column names end at a NUL where Arrow data is exchanged.
        Ok(Value::Object(object)) => match object.keys().find(|key| key.contains('\0')) {
            Some(key) => Err(format!("the JSON key {key:?} holds the character NUL")),
            None => Ok(object),
        },
        Ok(other) => Err(format!("the JSON is {}, not an object", kind_of(&other))),
        Err(error) => Err(match lone_surrogate(text) {
            Some(lone) => format!("broken JSON: {lone}"),
            None => format!("broken JSON: {error}"),
        }),
    }
}

/// # Errors
/// For a member above the memory limit.
pub fn check_member(limit: DecodeLimit, path: &str, member: &Member) -> Result<(), String> {
    let place = || format!("member `{}`, byte {}", member.name, member.offset);
    limit
        .check(path, member.size, "a member has", place)
        .map_err(|refusal| format!("{refusal}; {}", TooLarge::HINT))
}

/// The name of a value's kind in messages.
#[must_use]
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The list at `field`; null and a missing key count as an empty list.
///
/// # Errors
/// Why it is not a list.
pub fn list_at<'a>(
    object: &'a Map<String, Value>,
    field: &str,
    option: &str,
) -> Result<&'a [Value], String> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => {
            let keys: Vec<String> =
                object.keys().take(12).map(|key| format!("`{}`", key.escape_debug())).collect();
            Err(format!(
                "`{field}` is {}, not a list; {option} names the list, and the keys there are {}",
                kind_of(other),
                keys.join(", ")
            ))
        }
    }
}
