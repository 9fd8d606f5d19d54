//! Finds the strips and tiles of a page.
//!
//! Returns one source range per strip or tile. Invariant: every range is inside
//! of the payload, or empty.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::tiff::layout::Layout;
use crate::tiff::plan::{Item, Value, find};
use crate::tiff::tags;

/// The segments of one offset tag.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) tag: u16,
    pub(crate) ranges: Vec<Range<u64>>,
}

/// The page of the items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) number: usize,
    pub(crate) layout: Layout,
    pub(crate) payload_len: u64,
}

impl Page {
    /// The values of an integer tag; `None` if the tag is missing.
    pub(crate) fn numbers(&self, items: &[Item], tag: u16) -> Result<Option<Vec<u64>>> {
        let Some(item) = find(items, tag) else {
            return Ok(None);
        };
        let numbers = item.numbers(self.layout).ok_or(Error::UnusableTag {
            page: self.number,
            tag,
            kind: item.kind,
            count: item.count,
        })?;
        Ok(Some(numbers))
    }

    /// The first value of an integer tag, or the TIFF default of a missing one.
    fn number(&self, items: &[Item], tag: u16, default: Option<u64>) -> Result<u64> {
        let number = self.numbers(items, tag)?.and_then(|numbers| numbers.first().copied());
        number.or(default).ok_or(Error::MissingTag { page: self.number, tag })
    }

    /// A range of the source, if it is inside of the payload.
    pub(crate) fn range(&self, offset: u64, len: u64) -> Result<Range<u64>> {
        offset.checked_add(len).filter(|end| *end <= self.payload_len).map(|end| offset..end).ok_or(
            Error::SegmentOutOfFile {
                page: self.number,
                offset,
                needed: len,
                payload_len: self.payload_len,
            },
        )
    }
}

/// The strips and tiles of a page. An inferred byte count is added to `items`.
pub(crate) fn find_segments(page: Page, items: &mut Vec<Item>) -> Result<Vec<Segments>> {
    let mut found = Vec::new();
    for (tag, counts_tag) in [
        (tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS),
        (tags::TILE_OFFSETS, tags::TILE_BYTE_COUNTS),
    ] {
        let Some(offsets) = page.numbers(items, tag)? else {
            continue;
        };
        if offsets.is_empty() {
            continue;
        }
        check_kind(page, items, tag)?;
        let mut counts = page.numbers(items, counts_tag)?;
        if let ([offset], None | Some([0])) = (offsets.as_slice(), counts.as_deref())
            && *offset != 0
            && tag == tags::STRIP_OFFSETS
        {
            let len = infer_strip_len(page, items)?;
            set_byte_count(page, items, len)?;
            counts = Some(vec![len]);
        }
        let counts = counts.ok_or(Error::UnknownSegmentLength { page: page.number })?;
        if offsets.len() != counts.len() {
            return Err(Error::SegmentCountMismatch {
                page: page.number,
                offsets: offsets.len() as u64,
                counts: counts.len() as u64,
            });
        }
        let ranges = offsets
            .into_iter()
            .zip(counts)
            // The offset of an empty segment is irrelevant.
            .map(|(offset, len)| match len {
                0 => Ok(offset..offset),
                _ => page.range(offset, len),
            })
            .collect::<Result<_>>()?;
        found.push(Segments { tag, ranges });
    }
    Ok(found)
}

/// Offsets must have a type that new offsets can be written in.
pub(crate) fn check_kind(page: Page, items: &[Item], tag: u16) -> Result<()> {
    match find(items, tag) {
        Some(item) if !tags::is_offset_kind(item.kind) => {
            Err(Error::UnusableTag { page: page.number, tag, kind: item.kind, count: item.count })
        }
        _ => Ok(()),
    }
}

/// The length of the only strip of an uncompressed page.
fn infer_strip_len(page: Page, items: &[Item]) -> Result<u64> {
    let unknown = Error::UnknownSegmentLength { page: page.number };
    let compression = page.number(items, tags::COMPRESSION, Some(tags::UNCOMPRESSED))?;
    let samples = page.number(items, tags::SAMPLES_PER_PIXEL, Some(1))?;
    let is_planar = page.number(items, tags::PLANAR_CONFIG, Some(1))? == 2 && samples > 1;
    // Subsampled YCbCr has fewer bytes than its number of samples suggests.
    let is_ycbcr = page.number(items, tags::PHOTOMETRIC, Some(0))? == tags::YCBCR;
    if compression != tags::UNCOMPRESSED || is_planar || is_ycbcr {
        return Err(unknown);
    }
    let width = page.number(items, tags::WIDTH, None)?;
    let height = page.number(items, tags::HEIGHT, None)?;
    let bits = page.numbers(items, tags::BITS_PER_SAMPLE)?.unwrap_or_else(|| vec![1]);
    let pixel_bits = match bits.as_slice() {
        [bits] => bits.checked_mul(samples),
        several if several.len() as u64 == samples => {
            several.iter().try_fold(0_u64, |sum, bits| sum.checked_add(*bits))
        }
        _ => None,
    };
    pixel_bits
        .and_then(|bits| bits.checked_mul(width))
        .and_then(|bits| bits.div_ceil(8).checked_mul(height))
        .filter(|len| *len > 0)
        .ok_or(unknown)
}

fn set_byte_count(page: Page, items: &mut Vec<Item>, len: u64) -> Result<()> {
    let kind = if page.layout.is_big { tags::LONG8 } else { tags::LONG };
    let mut bytes = Vec::with_capacity(8);
    page.layout
        .put_unsigned(&mut bytes, kind, len)
        .ok_or(Error::PageTooLarge { page: page.number })?;
    bytes.resize(8, 0);
    let field = bytes.first_chunk().copied().unwrap_or_default();
    let item = Item { tag: tags::STRIP_BYTE_COUNTS, kind, count: 1, value: Value::Inline(field) };
    match items.binary_search_by_key(&item.tag, |item| item.tag) {
        Ok(k) => {
            if let Some(old) = items.get_mut(k) {
                *old = item;
            }
        }
        Err(k) => items.insert(k, item),
    }
    Ok(())
}
