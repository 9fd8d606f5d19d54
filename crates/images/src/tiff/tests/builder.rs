//! Builds TIFFs byte by byte and reads copies back. Beyond the header this is independent of the
//! code under test.

use std::ops::Range;

use crate::error::Result;
use crate::tiff::entry::Entry;
use crate::tiff::layout::Layout;
use crate::tiff::page::raw_entries;
use crate::tiff::walk::{TiffIndex, tiff_index};
use crate::tiff::{PageCopy, PageExtraction, TiffWalk, tags};

/// A file under construction; directories are linked in the order in which they are added.
pub(super) struct Builder {
    pub(super) layout: Layout,
    pub(super) bytes: Vec<u8>,
    link: usize,
}

/// Tag, type and values.
pub(super) type Tag = (u16, u16, Vec<u64>);

impl Builder {
    pub(super) fn new(layout: Layout) -> Self {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(match layout.endian {
            crate::endian::Endian::Little => b"II",
            crate::endian::Endian::Big => b"MM",
        });
        let mut builder = Self { layout, bytes, link: if layout.is_big { 8 } else { 4 } };
        for half in if layout.is_big { &[43, 8, 0][..] } else { &[42] } {
            builder.layout.endian.put_u16(&mut builder.bytes, *half);
        }
        builder.layout.put_offset(&mut builder.bytes, 0);
        builder
    }

    /// Appends bytes and returns their offset.
    pub(super) fn data(&mut self, bytes: &[u8]) -> u64 {
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        at
    }

    pub(super) fn link_to(&mut self, offset: u64) {
        let mut bytes = Vec::new();
        self.layout.put_offset(&mut bytes, offset);
        self.bytes[self.link..][..bytes.len()].copy_from_slice(&bytes);
    }

    /// Appends a directory outside the chain.
    pub(super) fn directory(&mut self, tags: &[Tag]) -> u64 {
        let mut entries = Vec::new();
        for (tag, kind, values) in tags {
            let mut value = Vec::new();
            for number in values {
                match tags::kind_len(*kind) {
                    Some(1) | None => value.push(*number as u8),
                    Some(2) => self.layout.endian.put_u16(&mut value, *number as u16),
                    Some(4) => self.layout.endian.put_u32(&mut value, *number as u32),
                    _ => self.layout.endian.put_u64(&mut value, *number),
                }
            }
            let mut field = value.clone();
            if value.len() as u64 > self.layout.offset_len() {
                let at = self.data(&value);
                field.clear();
                self.layout.put_offset(&mut field, at);
            }
            field.resize(self.layout.offset_len() as usize, 0);
            self.layout.endian.put_u16(&mut entries, *tag);
            self.layout.endian.put_u16(&mut entries, *kind);
            self.layout.put_offset(&mut entries, values.len() as u64);
            entries.extend_from_slice(&field);
        }
        let at = self.bytes.len() as u64;
        if self.layout.is_big {
            self.layout.endian.put_u64(&mut self.bytes, tags.len() as u64);
        } else {
            self.layout.endian.put_u16(&mut self.bytes, tags.len() as u16);
        }
        self.bytes.extend_from_slice(&entries);
        self.layout.put_offset(&mut self.bytes, 0);
        at
    }

    /// Appends a directory and links it to the chain.
    pub(super) fn page(&mut self, tags: &[Tag]) -> u64 {
        let at = self.directory(tags);
        self.link_to(at);
        self.link = self.bytes.len() - self.layout.offset_len() as usize;
        at
    }
}

/// Tags of a gray page of `width` x `height` with strips at `offsets`.
pub(super) fn gray(width: u64, height: u64, offsets: &[u64], counts: &[u64]) -> Vec<Tag> {
    vec![
        (tags::WIDTH, tags::SHORT, vec![width]),
        (tags::HEIGHT, tags::LONG, vec![height]),
        (tags::BITS_PER_SAMPLE, tags::SHORT, vec![8]),
        (tags::COMPRESSION, tags::SHORT, vec![1]),
        (tags::STRIP_OFFSETS, tags::LONG, offsets.to_vec()),
        (tags::SAMPLES_PER_PIXEL, tags::SHORT, vec![1]),
        (tags::STRIP_BYTE_COUNTS, tags::LONG, counts.to_vec()),
    ]
}

/// A file of gray pages with `strips` strips each; page k has strips of the byte k.
pub(super) fn gray_pages(layout: Layout, pages: u64, strips: u64) -> Vec<u8> {
    let mut builder = Builder::new(layout);
    for k in 0..pages {
        let offsets: Vec<u64> = (0..strips).map(|_| builder.data(&[k as u8; 10])).collect();
        builder.page(&gray(10, strips, &offsets, &vec![10; strips as usize]));
    }
    builder.bytes
}

/// The index, with every range checked and counted.
pub(super) fn index(payload: &[u8]) -> Result<(TiffIndex, usize)> {
    let mut walk = TiffWalk::new(payload.len() as u64);
    let mut requests = 0;
    while let Some(range) = walk.needs() {
        walk.push(inside(payload, &range))?;
        requests += 1;
    }
    Ok((walk.finish()?, requests))
}

/// The plan of a copy, with every range checked.
pub(super) fn plan(payload: &[u8], page: usize) -> Result<PageCopy> {
    let index = tiff_index(payload)?;
    let mut extraction = PageExtraction::new(&index, page)?;
    while let Some(range) = extraction.needs() {
        extraction.push(inside(payload, &range))?;
    }
    extraction.finish()
}

pub(super) fn segments(payload: &[u8], page: usize) -> Result<Vec<Range<u64>>> {
    Ok(match plan(payload, page)? {
        PageCopy::Whole => Vec::new(),
        PageCopy::Pieces { segments, .. } => segments,
    })
}

fn inside<'a>(payload: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    assert!(range.start < range.end && range.end <= payload.len() as u64, "{range:?}");
    &payload[range.start as usize..range.end as usize]
}

/// Type and values of a tag in the directory at `offset`; `None` if it is missing.
pub(super) fn read(payload: &[u8], offset: u64, tag: u16) -> Option<(u16, Vec<u64>)> {
    let (layout, _) = Layout::parse(payload)?;
    let at = offset as usize;
    let count = layout.entry_count(&payload[at..])? as usize;
    let from = at + layout.count_len() as usize;
    let entries = &payload[from..][..count * layout.entry_len() as usize];
    let entry = raw_entries(layout, entries)
        .filter_map(|bytes| Entry::parse(layout, bytes))
        .find(|entry| entry.tag == tag)?;
    let len = entry.value_len()? as usize;
    let value = match entry.out_of_line(layout) {
        Some(range) => &payload[range.start as usize..range.end as usize],
        None => &entry.field[..len],
    };
    let size = tags::kind_len(entry.kind)? as usize;
    let values = value.chunks(size).map(|bytes| match entry.kind {
        2 | 7 => u64::from(bytes[0]),
        5 => layout.endian.u64(bytes).unwrap_or_default(),
        kind => layout.unsigned(kind, bytes).unwrap_or_default(),
    });
    Some((entry.kind, values.collect()))
}

/// As [`read`], in the first page.
pub(super) fn tag(payload: &[u8], tag: u16) -> Option<(u16, Vec<u64>)> {
    let (_, offset) = Layout::parse(payload)?;
    read(payload, offset, tag)
}

/// The bytes of the strips or tiles of the first page, in the order of their tag.
pub(super) fn pixels(payload: &[u8], offsets: u16, counts: u16) -> Vec<Vec<u8>> {
    let (_, offsets) = tag(payload, offsets).expect("segment offsets");
    let (_, counts) = tag(payload, counts).expect("segment byte counts");
    offsets
        .iter()
        .zip(counts)
        .map(|(at, len)| payload[*at as usize..][..len as usize].to_vec())
        .collect()
}

pub(super) fn strips(payload: &[u8]) -> Vec<Vec<u8>> {
    pixels(payload, tags::STRIP_OFFSETS, tags::STRIP_BYTE_COUNTS)
}
