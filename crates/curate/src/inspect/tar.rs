//! Inspects a WebDataset tar: member headers, JSON, image headers.

use super::summary::{ColumnSummary, DamageSummary, FirstText, Inspection, Measures};
use super::table::inspect_table;
use super::{InspectOptions, cut};
use crate::Result;
use crate::archive::{Archive, Damage};
use crate::image_header::{Depth, ImageBytes, ImageHeader};
use crate::json::json_text;
use crate::source::columns::Columns;
use crate::source::keys::{read_object, sample_id};
use crate::source::tokens::content_type;
use serde_json::{Map, Value};
use shardmill_engine::Cancel;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::tar::{Compression, Member, sniff_compression};
use shardmill_load::Format;
use shardmill_storage::RangeRead;
use std::collections::HashMap;
use std::sync::Arc;

const SNIFF_LEN: u64 = 16;

pub(super) fn inspect_tar(object: &Arc<dyn RangeRead>, options: &InspectOptions, cancel: &Cancel, inspection: &mut Inspection) -> Result<()> {
    let mut prefix = Vec::new();
    if crate::payload::append_range(&**object, &(0..object.size().min(SNIFF_LEN)), &mut prefix).is_ok() {
        let compression = sniff_compression(&prefix);
        inspection.compression = Some(compression_name(compression).to_owned());
        // The reader of rows reports compressions that are not read.
        if !matches!(compression, Compression::None | Compression::Gzip | Compression::Zstd) {
            inspect_table(object.path(), Format::WebDataset, cancel, inspection);
            return Ok(());
        }
    }
    let Some(archive) = inspection.readable(Archive::examined(object.path(), options.ignore_zeros)?) else { return Ok(()) };
    inspection.members = Some(archive.members.len() as u64);
    inspection.damage.extend(archive.damage.iter().chain(&archive.unreadable).map(damage_of));
    inspection.damage.extend(archive.lost.values().map(|(member, fault)| DamageSummary {
        member: Some(member.name.clone()),
        offset: Some(member.offset),
        reason: fault.to_string(),
    }));
    let documents = options.keys.documents(&archive, DecodeLimit::default());
    // A plain WebDataset, whose samples are rows of a table.
    if archive.damage.is_none() && documents.is_empty() {
        inspect_table(object.path(), Format::WebDataset, cancel, inspection);
        return Ok(());
    }
    let mut samples =
        Samples { archive: &archive, options, inspection, columns: Columns::default(), measures: Measures::default(), headers: HashMap::new() };
    for member in documents.into_iter().filter_map(|index| archive.members.get(index)) {
        cancel.check()?;
        samples.add(member);
    }
    let (columns, measures) = (samples.columns.fields(), samples.measures.finish());
    inspection.images = measures;
    inspection.columns = columns.iter().map(|field| ColumnSummary::of(field)).collect();
    Ok(())
}

struct Samples<'a> {
    archive: &'a Archive,
    options: &'a InspectOptions,
    inspection: &'a mut Inspection,
    columns: Columns,
    measures: Measures,
    /// Image headers read so far; one TIFF serves many rows.
    headers: HashMap<usize, std::result::Result<ImageHeader, String>>,
}

impl Samples<'_> {
    fn add(&mut self, member: &Member) {
        self.inspection.samples += 1;
        let object = match read_object(self.archive, member, DecodeLimit::default()) {
            Ok(object) => object,
            Err(reason) => {
                self.inspection.damage.push(DamageSummary { member: Some(member.name.clone()), offset: Some(member.offset), reason });
                return;
            }
        };
        self.inspection.rows.metadata += 1;
        self.inspection.content_type("application/json");
        let keys = &self.options.keys;
        let id = sample_id(&object, keys.sample_id_field.as_deref(), &member.name);
        let text_bytes = self.texts(&id, list(&object, &keys.texts_field));
        self.inspection.bytes_by_modality.metadata += member.size.saturating_sub(text_bytes);
        self.images(&id, member, &object);
        let consumed = [Some(&keys.texts_field), Some(&keys.images_field), keys.image_member_field.as_ref()];
        for (key, value) in object.iter().filter(|(key, _)| !consumed.contains(&Some(*key))) {
            let column = self.columns.number(key);
            self.columns.observe(column, value);
        }
    }

    fn texts(&mut self, id: &str, texts: &[Value]) -> u64 {
        let mut bytes = 0;
        for (position, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_null()) {
            let text = text.as_str().map_or_else(|| json_text(text), str::to_owned);
            bytes += text.len() as u64;
            self.inspection.rows.text += 1;
            self.inspection.content_type("text/plain");
            if self.inspection.texts.len() < self.options.first {
                let position = i64::try_from(position).unwrap_or(i64::MAX);
                self.inspection.texts.push(FirstText { sample: id.to_owned(), position, text: cut(&text, self.options.text_len) });
            }
        }
        self.inspection.bytes_by_modality.text += bytes;
        bytes
    }

    fn images(&mut self, id: &str, member: &Member, object: &Map<String, Value>) {
        let keys = &self.options.keys;
        let images = list(object, &keys.images_field);
        let scope = keys.scope(self.archive, member, id, keys.image_member(object));
        let is_only = images.iter().filter(|token| !token.is_null()).count() == 1;
        let mut frames: HashMap<usize, usize> = HashMap::new();
        for token in images.iter().filter(|token| !token.is_null()) {
            self.inspection.rows.image += 1;
            let (index, image) = match scope.resolve(token.as_str(), is_only) {
                Ok(found) => found,
                Err(unresolved) => {
                    let name = token.as_str().map_or_else(|| json_text(token), str::to_owned);
                    let damage = DamageSummary { member: Some(member.name.clone()), offset: Some(member.offset), reason: unresolved.text(&name) };
                    self.inspection.damage.push(damage);
                    continue;
                }
            };
            let mime = content_type(&image.name);
            self.inspection.content_type(mime);
            let frame = frames.entry(index).or_default();
            let page = if mime == "image/tiff" { *frame } else { 0 };
            *frame += 1;
            self.image(index, image, page);
        }
    }

    fn image(&mut self, index: usize, image: &Member, page: usize) {
        if !self.headers.contains_key(&index) {
            let range = image.offset..image.offset + image.size;
            let header = ImageHeader::read(ImageBytes::Member(&*self.archive.object, &range), Depth::Sizes);
            self.measures.file(&header);
            self.inspection.bytes_by_modality.image += image.size;
            if self.inspection.image_names.len() < self.options.first {
                self.inspection.image_names.push(image.name.clone());
            }
            if let Err(reason) = &header {
                let damage = DamageSummary { member: Some(image.name.clone()), offset: Some(image.offset), reason: reason.clone() };
                self.inspection.damage.push(damage);
            }
            self.headers.insert(index, header);
        }
        let size = self.headers.get(&index).and_then(|header| header.as_ref().ok()?.pages.get(page)?.as_ref().ok().copied());
        self.measures.image(size);
    }
}

fn list<'a>(object: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn damage_of(damage: &Damage) -> DamageSummary {
    DamageSummary { member: damage.member.clone(), offset: Some(damage.offset), reason: damage.reason.clone() }
}

fn compression_name(compression: Compression) -> &'static str {
    match compression {
        Compression::None => "none",
        Compression::Gzip => "gzip",
        Compression::Zstd => "zstd",
        Compression::Bzip2 => "bzip2",
        Compression::Xz => "xz",
        _ => "unknown",
    }
}
