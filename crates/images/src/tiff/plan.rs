//! Decides for each tag of a directory whether and how it is copied.
//!
//! The [`Item`]s are in ascending order of tags; the extraction then fetches their out-of-line
//! values. Invariant: every range in an item is inside of the payload, so nothing is allocated for
//! a count that the payload cannot contain.

use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::tiff::entry::Entry;
use crate::tiff::layout::Layout;
use crate::tiff::page::raw_entries;
use crate::tiff::tags;

/// Page, EXIF, interop: valid files are not nested deeper.
const MAX_DEPTH: u8 = 2;

/// One tag of the copy.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) tag: u16,
    pub(crate) kind: u16,
    pub(crate) count: u64,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    /// The unchanged value field.
    Inline([u8; 8]),
    /// Not fetched yet.
    At(Range<u64>),
    Fetched(Bytes),
    /// A nested directory, by its index among the directories of the page;
    /// `None` if it cannot be copied.
    Child(Option<usize>),
    /// Positions in the copied segments, counted from the first of them;
    /// `None` stays a null offset.
    Placed(Vec<Option<u64>>),
}

/// A directory referenced by an item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nested {
    pub(crate) parent: usize,
    pub(crate) item: usize,
    pub(crate) offset: u64,
    pub(crate) depth: u8,
}

/// The origin of the raw entries of a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) page: usize,
    pub(crate) layout: Layout,
    pub(crate) payload_len: u64,
    /// Index among the directories of the page; 0 is the page itself.
    pub(crate) directory: usize,
    pub(crate) depth: u8,
    pub(crate) is_old_jpeg: bool,
}

impl Item {
    /// The values of an unsigned integer tag; `None` for other types.
    pub(crate) fn numbers(&self, layout: Layout) -> Option<Vec<u64>> {
        let len = usize::try_from(tags::kind_len(self.kind)?).ok()?;
        let count = usize::try_from(self.count).ok()?;
        let bytes: &[u8] = match &self.value {
            Value::Inline(field) => field,
            Value::Fetched(bytes) => bytes,
            _ => return None,
        };
        bytes
            .get(..len.checked_mul(count)?)?
            .chunks_exact(len)
            .map(|bytes| layout.unsigned(self.kind, bytes))
            .collect()
    }

    /// Size of the value in the copy.
    pub(crate) fn value_len(&self) -> Option<u64> {
        tags::kind_len(self.kind)?.checked_mul(self.count)
    }
}

/// The item of `tag`, if the directory contains it.
pub(crate) fn find(items: &[Item], tag: u16) -> Option<&Item> {
    items.binary_search_by_key(&tag, |item| item.tag).ok().and_then(|k| items.get(k))
}

/// The items of a directory, and its nested directories.
pub(crate) fn plan_directory(origin: Origin, entries: &[u8]) -> Result<(Vec<Item>, Vec<Nested>)> {
    let layout = origin.layout;
    let mut parsed: Vec<Entry> =
        raw_entries(layout, entries).filter_map(|bytes| Entry::parse(layout, bytes)).collect();
    // Stable, so that the first entry of a tag still counts.
    parsed.sort_by_key(|entry| entry.tag);
    parsed.dedup_by_key(|entry| entry.tag);

    let mut items = Vec::with_capacity(parsed.len());
    let mut nested = Vec::new();
    for entry in parsed {
        let Some(value) = plan_value(origin, &entry)? else {
            continue;
        };
        if let (Value::Child(_), Some(offset)) = (&value, entry.inline_unsigned(layout)) {
            nested.push(Nested {
                parent: origin.directory,
                item: items.len(),
                offset,
                depth: origin.depth + 1,
            });
        }
        items.push(Item { tag: entry.tag, kind: entry.kind, count: entry.count, value });
    }
    Ok((items, nested))
}

/// How a value is copied; `None` if the tag is dropped.
fn plan_value(origin: Origin, entry: &Entry) -> Result<Option<Value>> {
    let Origin { page, layout, payload_len, .. } = origin;
    let tag = entry.tag;
    let is_page = origin.depth == 0;
    let is_segment_pointer = matches!(tag, tags::STRIP_OFFSETS | tags::TILE_OFFSETS);
    let is_old_jpeg_pointer = tags::is_old_jpeg_pointer(tag);

    if tags::is_dropped(tag) {
        return Ok(None);
    }
    if tags::is_nested_directory(tag) {
        let can_be_followed = origin.depth < MAX_DEPTH
            && entry.count == 1
            && entry.kind != tags::SHORT
            && tags::is_offset_kind(entry.kind)
            && entry.inline_unsigned(layout).is_some_and(|at| at != 0);
        return Ok(can_be_followed.then_some(Value::Child(None)));
    }
    if is_segment_pointer && !is_page {
        return Ok(None);
    }
    if is_old_jpeg_pointer && !(is_page && origin.is_old_jpeg) {
        return Ok(None);
    }
    // TIFF 6.0 tells readers to skip unknown types, and a directory offset under any other tag
    // would be invalid in the copy.
    let is_unknown = tags::kind_len(entry.kind).is_none();
    let is_directory = matches!(entry.kind, tags::IFD | tags::IFD8);
    if is_unknown || (is_directory && !is_segment_pointer && !is_old_jpeg_pointer) {
        if is_page && tags::is_needed_for_decoding(tag) {
            return Err(Error::UnusableTag { page, tag, kind: entry.kind, count: entry.count });
        }
        return Ok(None);
    }
    match (entry.value_len(), entry.out_of_line(layout)) {
        (Some(_), None) => Ok(Some(Value::Inline(entry.field))),
        (Some(_), Some(range)) if range.end <= payload_len => Ok(Some(Value::At(range))),
        (len, _) if is_page && tags::is_needed_for_decoding(tag) => Err(Error::ValueOutOfFile {
            page,
            tag,
            offset: layout.offset(&entry.field).unwrap_or_default(),
            needed: len.unwrap_or(u64::MAX),
            payload_len,
        }),
        _ => Ok(None),
    }
}
