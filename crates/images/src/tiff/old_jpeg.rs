//! Determines the extents of the tables of an old-style JPEG page (compression 6).
//!
//! The length of the interchange stream is given by its length tag, that of quantization tables is
//! fixed, and that of Huffman tables follows from the sixteen counts at their start. Invariant: a
//! page with a table of unknown length is rejected.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::tiff::fetch::Fetch;
use crate::tiff::plan::{Item, find};
use crate::tiff::segments::{Page, Segments, check_kind};
use crate::tiff::tags;

const Q_TABLE_LEN: u64 = 64;
const HUFFMAN_COUNTS_LEN: u64 = 16;

/// The counts of the Huffman tables, which determine the lengths of the tables.
pub(crate) fn huffman_counts(page: Page, items: &[Item]) -> Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    for tag in [tags::JPEG_DC_TABLES, tags::JPEG_AC_TABLES] {
        for offset in offsets(page, items, tag)? {
            if offset != 0 {
                ranges.push(page.range(offset, HUFFMAN_COUNTS_LEN)?);
            }
        }
    }
    Ok(ranges)
}

/// All ranges that the old-style tags refer to.
pub(crate) fn find_tables(page: Page, items: &[Item], counts: &Fetch) -> Result<Vec<Segments>> {
    let mut found = Vec::new();
    for tag in
        [tags::JPEG_INTERCHANGE, tags::JPEG_Q_TABLES, tags::JPEG_DC_TABLES, tags::JPEG_AC_TABLES]
    {
        if find(items, tag).is_none() {
            continue;
        }
        let mut ranges = Vec::new();
        for offset in offsets(page, items, tag)? {
            // A null offset means that the table is missing, or is that of the preceding component.
            if offset == 0 {
                ranges.push(0..0);
                continue;
            }
            let len = match tag {
                tags::JPEG_INTERCHANGE => interchange_len(page, items)?,
                tags::JPEG_Q_TABLES => Q_TABLE_LEN,
                _ => huffman_len(page, tag, offset, counts)?,
            };
            ranges.push(page.range(offset, len)?);
        }
        found.push(Segments { tag, ranges });
    }
    Ok(found)
}

fn offsets(page: Page, items: &[Item], tag: u16) -> Result<Vec<u64>> {
    check_kind(page, items, tag)?;
    let offsets = page.numbers(items, tag)?.unwrap_or_default();
    // JPEG has at most four components in a scan.
    let is_plausible = offsets.len() <= if tag == tags::JPEG_INTERCHANGE { 1 } else { 4 };
    is_plausible.then_some(offsets).ok_or(Error::OldJpegNotRelocatable { page: page.number, tag })
}

fn interchange_len(page: Page, items: &[Item]) -> Result<u64> {
    let lens = page.numbers(items, tags::JPEG_INTERCHANGE_LENGTH)?.unwrap_or_default();
    match lens.as_slice() {
        [len] if *len > 0 => Ok(*len),
        _ => Err(Error::OldJpegNotRelocatable {
            page: page.number,
            tag: tags::JPEG_INTERCHANGE_LENGTH,
        }),
    }
}

fn huffman_len(page: Page, tag: u16, offset: u64, counts: &Fetch) -> Result<u64> {
    let counts = counts
        .get(&page.range(offset, HUFFMAN_COUNTS_LEN)?)
        .ok_or(Error::OldJpegNotRelocatable { page: page.number, tag })?;
    let codes: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    Ok(HUFFMAN_COUNTS_LEN + codes)
}
