//! The JSON of the documents of a shard, read before the job runs.
//!
//! An uncompressed shard is read no further than the caller wants, unless it depends on another
//! member whether a member is a document, or the shard is damaged.

use crate::archive::Archive;
use crate::payload::append_range;
use crate::schema::{RESCUED, is_reserved};
use crate::source::keys::{list_at, object_of, sample_id};
use crate::source::tokens::Unresolved;
use crate::source::webdataset_options::WebDatasetOptions;
use crate::{Error, Result};
use serde_json::{Map, Value};
use shardmill_engine::Cancel;
use shardmill_formats::tar::{Compression, Entry, Member, sniff_compression, walk_members};
use shardmill_storage::{AnyStore, RangeRead, Store, whole_if_small};
use std::ops::ControlFlow;

const SNIFF_LEN: u64 = 16;

/// Options of a source whose documents are JSON.
pub trait Heads: Clone + Send + Sync + 'static {
    /// Shows the documents of a file to `see` until it breaks. What cannot be read is passed over;
    /// the run quarantines it. The state starts anew if the file is read a second time.
    ///
    /// # Errors
    /// For a file that cannot be read, and cancellation.
    fn read<S: Clone>(
        &self,
        path: &str,
        cancel: &Cancel,
        state: &mut S,
        see: impl Fn(&mut S, &Seen<'_>) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Shows the passthrough values of a document, as the run passes them through; none of a
    /// document that it quarantines because of their kinds.
    fn observe(&self, json: &Map<String, Value>, see: impl FnMut(&str, &Value));

    /// The keys that are always columns.
    fn columns(&self) -> Vec<&String>;

    /// Whether documents have no other columns.
    fn takes_none(&self) -> bool;

    fn passes(&self, key: &str) -> bool;
}

/// What is shown of a file.
pub enum Seen<'a> {
    /// The JSON of a document, and its size in the shard.
    Document(&'a Map<String, Value>, u64),
    /// A number of members that are not documents.
    Others(usize),
}

/// Shows the documents of a shard to `see` until it breaks. What cannot be read is passed over; the
/// run quarantines it. The state starts anew if the shard is read a second time.
///
/// # Errors
/// For a shard that cannot be read, and cancellation.
pub(super) fn read_heads<S: Clone>(
    path: &str,
    options: &WebDatasetOptions,
    cancel: &Cancel,
    state: &mut S,
    see: impl Fn(&mut S, &Seen<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let object = whole_if_small(AnyStore.open(path)?)?;
    let mut window = Vec::new();
    append_range(&*object, &(0..object.size().min(SNIFF_LEN)), &mut window)?;
    let before = state.clone();
    if matches!(sniff_compression(&window), Compression::None) {
        let (mut is_decided, mut is_enough) = (true, false);
        let end = walk_members(&*object, options.ignore_zeros, 0, |_, step| {
            cancel.check()?;
            let seen = match step {
                Ok(Some(Entry::File(member))) => {
                    show_member(&*object, &member, options, |seen| see(state, seen))
                }
                Ok(Some(Entry::Link(_))) | Err(_) => None,
                Ok(_) => Some(ControlFlow::Continue(())),
            };
            is_decided &= seen.is_some();
            is_enough = seen.is_some_and(|seen| seen.is_break());
            Ok::<_, Error>(seen.unwrap_or(ControlFlow::Continue(())))
        })?;
        if is_enough || (is_decided && end.is_some_and(|end| end.is_sound())) {
            return Ok(());
        }
    }
    *state = before;
    let archive = Archive::open_with(path, options.ignore_zeros, options.limit())?;
    let documents = options.keys.documents(&archive, options.limit());
    let others = archive.members.len() - documents.len();
    let mut seen = see(state, &Seen::Others(others));
    for member in documents.into_iter().filter_map(|index| archive.members.get(index)) {
        cancel.check()?;
        if seen.is_break() {
            break;
        }
        let json = object_of(&*archive.object, member, options.limit());
        if let Some(json) = json.ok().filter(|json| {
            archive.damage.is_none() || !has_lost_image(&archive, member, json, options)
        }) {
            seen = see(state, &Seen::Document(&json, member.size));
        }
    }
    Ok(())
}

impl Heads for WebDatasetOptions {
    fn read<S: Clone>(
        &self,
        path: &str,
        cancel: &Cancel,
        state: &mut S,
        see: impl Fn(&mut S, &Seen<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        read_heads(path, self, cancel, state, see)
    }

    fn observe(&self, json: &Map<String, Value>, mut see: impl FnMut(&str, &Value)) {
        let keys = &self.keys;
        let count = |field: &str, option: &str| {
            let list = list_at(json, field, option).ok()?;
            Some(list.iter().filter(|entry| !entry.is_null()).count())
        };
        let (Some(texts), Some(images)) =
            (count(&keys.texts_field, "texts_field"), count(&keys.images_field, "images_field"))
        else {
            return;
        };
        let mut lists = Vec::new();
        for (fields, others, rows) in [
            (&self.per_image_fields, &self.per_text_fields, images),
            (&self.per_text_fields, &self.per_image_fields, texts),
        ] {
            for field in fields {
                match json.get(field) {
                    None | Some(Value::Null) => {}
                    // A list with a value for each image and text is divided by reading order.
                    Some(Value::Array(list))
                        if others.contains(field) && list.len() == texts + images =>
                    {
                        lists.push((field, list.as_slice()));
                    }
                    Some(Value::Array(list)) => {
                        lists.push((field, list.get(..rows).unwrap_or(list)));
                    }
                    Some(_) => return,
                }
            }
        }
        for (field, value) in
            lists.into_iter().flat_map(|(field, list)| list.iter().map(move |value| (field, value)))
        {
            see(field, value);
        }
        for (key, value) in json
            .iter()
            .filter(|(key, _)| self.is_passed(key) && !is_reserved(key) && *key != RESCUED)
        {
            see(key, value);
        }
    }

    fn columns(&self) -> Vec<&String> {
        let rows = self.per_image_fields.iter().chain(&self.per_text_fields);
        self.fields.iter().flatten().chain(rows).collect()
    }

    fn takes_none(&self) -> bool {
        self.fields.is_some() && self.columns().is_empty()
    }

    fn passes(&self, key: &str) -> bool {
        self.is_passed(key)
    }
}

/// Whether the run quarantines a document of a damaged archive, because an image of it is missing.
fn has_lost_image(
    archive: &Archive,
    member: &Member,
    json: &Map<String, Value>,
    options: &WebDatasetOptions,
) -> bool {
    let keys = &options.keys;
    let id = sample_id(json, keys.sample_id_field.as_deref(), &member.name);
    let scope = keys.scope(archive, member, &id, keys.image_member(json));
    let images = list_at(json, &keys.images_field, "images_field").unwrap_or_default();
    let tokens: Vec<&Value> = images.iter().filter(|token| !token.is_null()).collect();
    let is_lost = |token: &&Value| {
        matches!(
            scope.resolve(token.as_str(), tokens.len() == 1),
            Err(Unresolved::Missing | Unresolved::Lost(_))
        )
    };
    tokens.iter().any(is_lost)
}

/// `None` if the member alone does not decide whether it is a document: `X.Y.json` without lists is
/// one only if there is no `X.json`.
fn show_member(
    object: &dyn RangeRead,
    member: &Member,
    options: &WebDatasetOptions,
    see: impl FnOnce(&Seen<'_>) -> ControlFlow<()>,
) -> Option<ControlFlow<()>> {
    let Some(stem) = options.keys.stem_of(member) else { return Some(see(&Seen::Others(1))) };
    let Ok(json) = object_of(object, member, options.limit()) else {
        return Some(ControlFlow::Continue(()));
    };
    if stem.rsplit('/').next().is_some_and(|file| file.contains('.'))
        && !options.keys.has_lists(&json)
    {
        return None;
    }
    Some(see(&Seen::Document(&json, member.size)))
}
