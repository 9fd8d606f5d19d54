//! Converts one JSON member of a WebDataset shard to the rows of a document.

use crate::archive::Archive;
use crate::json::json_text;
use crate::ledger::Ledger;
use crate::locate::{LocateError, frame_error};
use crate::payload::{Located, Payload};
use crate::schema::is_reserved;
use crate::source::draft::Draft;
use crate::source::keys::{check_member, kind_of, list_at, member_bytes, parse_object, sample_id};
use crate::source::named_keys::NamedKeys;
use crate::source::pairs::Pair;
use crate::source::part_rows::of_base64;
use crate::source::row_lists::RowLists;
use crate::source::tokens::{TokenScope, Unresolved, content_type};
use crate::source::values::{JobColumns, Values};
use crate::source::webdataset_options::WebDatasetOptions;
use crate::source_ref::SourceRef;
use crate::tiff_pages::TiffPages;
use crate::{Modality, Row};
use serde_json::{Map, Value};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::tar::{Compression, Member};
use shardmill_storage::Error as StorageError;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// State shared by all samples of one archive.
pub(crate) struct SampleReader<'a> {
    pub archive: &'a Archive,
    pub options: &'a WebDatasetOptions,
    pub columns: &'a JobColumns<'a>,
    /// Which of the lists occurred in the archive.
    pub lists: &'a mut NamedKeys,
    pub row_lists: &'a mut RowLists,
    pub ledger: &'a mut Ledger,
    /// Indices of the members that documents name.
    pub named: &'a mut HashSet<usize>,
    pub is_located: bool,
}

impl SampleReader<'_> {
    /// # Errors
    /// The reason why the sample goes to quarantine, or a failure of the store or of a disk.
    pub(crate) fn read(&mut self, json_member: &Member, file: usize) -> Result<Draft, LocateError> {
        let options = self.options;
        let mut object =
            parse_object(&member_bytes(&*self.archive.object, json_member, options.limit())?)?;
        let keys = &options.keys;
        let id = sample_id(&object, keys.sample_id_field.as_deref(), &json_member.name);
        let pair = Pair::of(self.archive, json_member, &object, keys);
        if pair.is_none() {
            self.lists.observe(&object);
        }
        let image_member = keys.image_member(&object).map(str::to_owned);
        list_at(&object, &keys.texts_field, "texts_field")?;
        list_at(&object, &keys.images_field, "images_field")?;
        self.warn_of_kinds(&object);
        let (texts, images) = match pair {
            None => (
                list_of(object.get_mut(&keys.texts_field)),
                list_of(object.get_mut(&keys.images_field)),
            ),
            Some(pair) => {
                self.named.insert(pair.caption_index);
                let caption = self.caption(pair.caption)?;
                (vec![Value::Null, caption], vec![Value::from(pair.image_name())])
            }
        };
        self.warn_of_lengths(&texts, &images);
        let of_texts = split_content_lists(&mut object, options, &texts, &images);
        let [image_rows, text_rows] =
            [&images, &texts].map(|list| list.iter().filter(|entry| !entry.is_null()).count());
        let image_values =
            self.per_row_values(&mut object, &options.per_image_fields, image_rows)?;
        object.extend(of_texts);
        let text_values = self.per_row_values(&mut object, &options.per_text_fields, text_rows)?;
        for (key, value) in object
            .iter()
            .filter(|(key, value)| options.is_passed(key) && !is_reserved(key) && !value.is_null())
        {
            self.row_lists.observe(key, value.as_array().map(Vec::len), image_rows, text_rows);
        }
        let metadata_values = self.passthrough(object);

        let metadata = Row {
            position: -1,
            content_type: Some("application/json".to_owned()),
            source_ref: Some(self.member_ref(json_member)),
            ..Row::default()
        };
        let mut rows = vec![(metadata.clone(), metadata_values)];
        let scope = keys.scope(self.archive, json_member, &id, image_member.as_deref());
        let is_only = image_rows == 1;
        let mut images_of_sample =
            SampleImages::new(self.archive, options.limit(), self.is_located);
        let (mut text_values, mut image_values) =
            (text_values.into_iter(), image_values.into_iter());
        let (mut texts, mut images) = (texts.into_iter(), images.into_iter());
        for position in 0_i32.. {
            let (text, token) = match (texts.next(), images.next()) {
                (None, None) => break,
                pair => pair,
            };
            if let Some(text) = text.filter(|text| !text.is_null()) {
                let text = match text {
                    Value::String(text) => text,
                    other => json_text(&other),
                };
                let row = Row {
                    position,
                    modality: Modality::Text,
                    content_type: Some("text/plain".to_owned()),
                    text: Some(text),
                    ..metadata.clone()
                };
                rows.push((row, text_values.next().unwrap_or_default()));
            }
            if let Some(token) = token.filter(|token| !token.is_null()) {
                let image = images_of_sample
                    .resolve(&scope, &token, is_only)
                    .map_err(LocateError::Storage)?;
                self.named.extend(image.member);
                if image.is_missing
                    && let Some(damage) = &self.archive.damage
                {
                    return Err(format!("an image of the sample is lost: {}", damage.reason).into());
                }
                let row = Row { position, modality: Modality::Image, ..image.row };
                rows.push((row, image_values.next().unwrap_or_default()));
            }
        }
        self.ledger.pages_remuxed += images_of_sample.remuxed;
        self.ledger.pages_whole += images_of_sample.whole;
        Ok(Draft { id, rows, file })
    }

    fn caption(&self, member: &Member) -> Result<Value, LocateError> {
        let bytes = member_bytes(&*self.archive.object, member, self.options.limit())?;
        let text = String::from_utf8(bytes);
        Ok(Value::from(text.map_err(|_| format!("`{}` is not valid UTF-8", member.name))?))
    }

    /// Warns of lists that lack the nulls from which the order of texts and images follows.
    fn warn_of_lengths(&mut self, texts: &[Value], images: &[Value]) {
        let is_shared = |(text, image): (&Value, &Value)| !text.is_null() && !image.is_null();
        if texts.len() != images.len() && texts.iter().zip(images).any(is_shared) {
            let keys = &self.options.keys;
            self.ledger.warn(format!(
                "`{}` (texts_field) and `{}` (images_field) of a sample have different lengths, \
                 and both have a value at the same index, so this text and this image get the same \
                 position; where one of two parallel lists has a value, the other must be null",
                keys.texts_field, keys.images_field
            ));
        }
    }

    /// Warns of values whose meaning may differ from the writer's intention.
    fn warn_of_kinds(&mut self, object: &Map<String, Value>) {
        let keys = &self.options.keys;
        for entry in list_at(object, &keys.texts_field, "texts_field").unwrap_or_default() {
            if !matches!(entry, Value::Null | Value::String(_)) {
                self.ledger.warn(format!(
                    "an entry of `{}` (texts_field) is {}, and became JSON text",
                    keys.texts_field,
                    entry_kind(entry)
                ));
            }
        }
        for entry in list_at(object, &keys.images_field, "images_field").unwrap_or_default() {
            if matches!(entry, Value::Bool(_) | Value::Array(_) | Value::Object(_)) {
                self.ledger.warn(format!(
                    "an entry of `{}` (images_field) is {}, not the name of a member",
                    keys.images_field,
                    entry_kind(entry)
                ));
            }
        }
        let (id, member) = (&keys.sample_id_field, &keys.image_member_field);
        if let Some(field) =
            id.as_ref().filter(|field| object.get(*field).is_none_or(Value::is_null))
        {
            self.ledger.warn(format!(
                "`{field}` (sample_id_field) has no value in a sample, \
                 whose id became the name of its JSON"
            ));
        }
        if let Some((field, value)) =
            member.as_ref().and_then(|field| Some((field, object.get(field)?)))
            && !matches!(value, Value::Null | Value::String(_))
        {
            self.ledger.warn(format!(
                "`{field}` (image_member_field) is {}, not the name of a member",
                kind_of(value)
            ));
        }
    }

    fn member_ref(&self, member: &Member) -> String {
        image_ref(self.archive, member, None)
    }

    /// Values of the per-row fields: element k belongs to the k-th row of the modality.
    fn per_row_values(
        &mut self,
        object: &mut Map<String, Value>,
        fields: &[String],
        rows: usize,
    ) -> Result<Vec<Values>, String> {
        let mut values = vec![Values::default(); rows];
        for field in fields {
            let list = match object.get_mut(field).map(Value::take) {
                None | Some(Value::Null) => {
                    self.ledger.warn(format!("field `{field}` is missing in a sample"));
                    continue;
                }
                Some(Value::Array(list)) => list,
                Some(_) => return Err(format!("field `{field}` is not a list")),
            };
            if list.len() != rows {
                self.ledger.warn(format!(
                    "field `{field}` has another number of values than its sample has rows"
                ));
            }
            for (row, value) in values.iter_mut().zip(list) {
                self.columns.add(row, field.clone(), value, self.ledger);
            }
        }
        Ok(values)
    }

    fn passthrough(&mut self, mut object: Map<String, Value>) -> Values {
        let options = self.options;
        let mut values = Values::default();
        if let Some(fields) = &options.fields {
            for field in fields {
                match object.get_mut(field).map(Value::take) {
                    Some(value) => self.columns.add(&mut values, field.clone(), value, self.ledger),
                    None => self.ledger.warn(format!("field `{field}` is missing in a sample")),
                }
            }
            return values;
        }
        for (key, value) in object {
            if options.is_consumed(&key) {
                continue;
            }
            if is_reserved(&key) {
                self.ledger.drop_key(format!("key `{key}` has the name of a reserved column"));
                continue;
            }
            self.columns.add(&mut values, key, value, self.ledger);
        }
        values
    }
}

/// The images of one sample: members are opened once, pages are assigned in token order.
struct SampleImages<'a> {
    archive: &'a Archive,
    limit: DecodeLimit,
    is_located: bool,
    frames: HashMap<usize, u64>,
    tiffs: HashMap<usize, TiffPages>,
    remuxed: u64,
    whole: u64,
}

struct ResolvedImage {
    row: Row,
    /// Index of its member.
    member: Option<usize>,
    is_missing: bool,
}

impl<'a> SampleImages<'a> {
    fn new(archive: &'a Archive, limit: DecodeLimit, is_located: bool) -> Self {
        Self {
            archive,
            limit,
            is_located,
            frames: HashMap::new(),
            tiffs: HashMap::new(),
            remuxed: 0,
            whole: 0,
        }
    }

    /// # Errors
    /// A failure of the store or of a disk.
    fn resolve(
        &mut self,
        scope: &TokenScope<'a>,
        token: &Value,
        is_only: bool,
    ) -> Result<ResolvedImage, Arc<StorageError>> {
        let data = token.as_str().filter(|text| text.starts_with("data:"));
        if let Some(row) = data.and_then(of_base64) {
            return Ok(ResolvedImage { row, member: None, is_missing: false });
        }
        let mut row = Row { modality: Modality::Image, ..Row::default() };
        let (index, member) = match scope.resolve(token.as_str(), is_only) {
            Ok(found) => found,
            Err(unresolved) => {
                row.source_ref = Some(SourceRef::default().to_json());
                let name = token.as_str().map_or_else(|| json_text(token), str::to_owned);
                row.error = Some(unresolved.text(&name));
                let is_missing = matches!(unresolved, Unresolved::Missing | Unresolved::Lost(_));
                return Ok(ResolvedImage { row, member: None, is_missing });
            }
        };
        let mime = content_type(&member.name);
        row.content_type = Some(mime.to_owned());
        let frame = (mime == "image/tiff").then(|| {
            let next = self.frames.entry(index).or_default();
            *next += 1;
            *next - 1
        });
        row.source_ref = Some(image_ref(self.archive, member, frame));
        if self.is_located {
            match self.locate(index, member, frame) {
                Ok(located) => row.payload = Payload::Located(located),
                Err(LocateError::Row(text)) => row.error = Some(text),
                Err(LocateError::Storage(error)) => return Err(error),
            }
        }
        Ok(ResolvedImage { row, member: Some(index), is_missing: false })
    }

    fn locate(
        &mut self,
        index: usize,
        member: &Member,
        frame: Option<u64>,
    ) -> Result<Located, LocateError> {
        let range = member.offset..member.offset + member.size;
        check_member(self.limit, &self.archive.path, member)?;
        let Some(frame) = frame else {
            return Ok(Located::verbatim(Arc::clone(&self.archive.object), range));
        };
        let text = || frame_error(frame, &member.name);
        let failed = |error| LocateError::of_read(error, text);
        let pages = match self.tiffs.entry(index) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new
                .insert(TiffPages::open(Arc::clone(&self.archive.object), range).map_err(failed)?),
        };
        let located = pages.page(frame).map_err(failed)?.ok_or_else(text)?;
        if located.head.is_empty() {
            self.whole += 1;
        } else {
            self.remuxed += 1;
        }
        Ok(located)
    }
}

fn image_ref(archive: &Archive, member: &Member, frame: Option<u64>) -> String {
    let range = (archive.compression == Compression::None).then_some((member.offset, member.size));
    SourceRef {
        path: Some(archive.path.clone()),
        member: Some(member.name.clone()),
        byte_offset: range.map(|(offset, _)| offset),
        byte_size: range.map(|(_, size)| size),
        frame_index: frame,
    }
    .to_json()
}

/// The kind of an entry, with the keys of an object, since one of them may have been intended.
fn entry_kind(entry: &Value) -> String {
    match entry {
        Value::Object(object) if !object.is_empty() => {
            let keys: Vec<String> =
                object.keys().take(12).map(|key| format!("`{}`", key.escape_debug())).collect();
            format!("an object with the keys {}", keys.join(", "))
        }
        other => kind_of(other).to_owned(),
    }
}

fn list_of(value: Option<&mut Value>) -> Vec<Value> {
    match value.map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// Divides lists that belong to both images and texts. A list with one value per content row is
/// divided by reading order, and the images' part stays in `object`; for any other list, element k
/// belongs to the k-th image and to the k-th text. Returns the texts' lists.
fn split_content_lists(
    object: &mut Map<String, Value>,
    options: &WebDatasetOptions,
    texts: &[Value],
    images: &[Value],
) -> Map<String, Value> {
    let mut of_texts = Map::new();
    let is_there =
        |list: &[Value], index: usize| list.get(index).is_some_and(|value| !value.is_null());
    let positions = 0..texts.len().max(images.len());
    let rows: Vec<bool> = positions
        .flat_map(|index| {
            [is_there(texts, index).then_some(true), is_there(images, index).then_some(false)]
        })
        .flatten()
        .collect();
    for field in
        options.per_image_fields.iter().filter(|field| options.per_text_fields.contains(field))
    {
        let Some(value) = object.get_mut(field) else { continue };
        match value {
            Value::Array(list) if list.len() == rows.len() => {
                let (texts, images): (Vec<_>, Vec<_>) =
                    std::mem::take(list).into_iter().zip(&rows).partition(|(_, is_text)| **is_text);
                let values = |pairs: Vec<(Value, &bool)>| {
                    Value::Array(pairs.into_iter().map(|(value, _)| value).collect())
                };
                of_texts.insert(field.clone(), values(texts));
                *value = values(images);
            }
            other => {
                of_texts.insert(field.clone(), other.clone());
            }
        }
    }
    of_texts
}
