//! Writes the part of a copy before its segments.
//!
//! Invariant: directories and out-of-line values begin at even offsets,
//! and the head has an even length.

use std::iter::zip;

use crate::tiff::layout::Layout;
use crate::tiff::plan::{Item, Value};
use crate::tiff::tags;

/// Positions of the parts of the head.
struct Places {
    directories: Vec<u64>,
    /// One position per item; unused for inline values.
    values: Vec<Vec<u64>>,
    head_len: u64,
}

/// The head of a page whose first directory is `directories[0]`; `None` if it does not fit the
/// offsets of its flavour.
pub(crate) fn encode_head(layout: Layout, directories: &mut [Vec<Item>]) -> Option<Vec<u8>> {
    // Widening an offset type makes the head longer, which moves the offsets; two steps lead from
    // SHORT to LONG8.
    let mut places = lay_out(layout, directories)?;
    while widen(layout, directories, places.head_len) {
        places = lay_out(layout, directories)?;
    }
    let mut out = Vec::with_capacity(usize::try_from(places.head_len).ok()?);
    put_header(layout, &mut out)?;
    for (items, (start, values)) in zip(&*directories, zip(&places.directories, &places.values)) {
        pad_to(&mut out, *start)?;
        put_directory(layout, items, values, &places, &mut out)?;
    }
    pad_to(&mut out, places.head_len)?;
    Some(out)
}

fn lay_out(layout: Layout, directories: &[Vec<Item>]) -> Option<Places> {
    let mut cursor = layout.header_len();
    let mut starts = Vec::with_capacity(directories.len());
    let mut values = Vec::with_capacity(directories.len());
    for items in directories {
        starts.push(cursor);
        cursor = cursor.checked_add(layout.directory_len(items.len() as u64)?)?;
        let mut places = Vec::with_capacity(items.len());
        for item in items {
            places.push(cursor);
            let len = item.value_len()?;
            if len > layout.offset_len() {
                cursor = cursor.checked_add(len)?.checked_next_multiple_of(2)?;
            }
        }
        values.push(places);
    }
    Some(Places { directories: starts, values, head_len: cursor })
}

/// Widens the type of offsets that do not fit; returns whether there were any.
fn widen(layout: Layout, directories: &mut [Vec<Item>], head_len: u64) -> bool {
    let mut widened = false;
    for item in directories.iter_mut().flatten() {
        let Value::Placed(places) = &item.value else {
            continue;
        };
        let last = places.iter().flatten().max();
        let largest = last.map_or(0, |place| head_len.saturating_add(*place));
        let wider = match item.kind {
            tags::SHORT if largest > u64::from(u16::MAX) => tags::LONG,
            tags::LONG | tags::IFD if layout.is_big && largest > u64::from(u32::MAX) => tags::LONG8,
            _ => continue,
        };
        item.kind = wider;
        widened = true;
    }
    widened
}

fn put_header(layout: Layout, out: &mut Vec<u8>) -> Option<()> {
    use crate::endian::Endian;
    out.extend_from_slice(match layout.endian {
        Endian::Little => b"II",
        Endian::Big => b"MM",
    });
    if layout.is_big {
        layout.endian.put_u16(out, 43);
        layout.endian.put_u16(out, 8);
        layout.endian.put_u16(out, 0);
    } else {
        layout.endian.put_u16(out, 42);
    }
    layout.put_offset(out, layout.header_len())
}

fn put_directory(
    layout: Layout,
    items: &[Item],
    values: &[u64],
    places: &Places,
    out: &mut Vec<u8>,
) -> Option<()> {
    let endian = layout.endian;
    if layout.is_big {
        endian.put_u64(out, items.len() as u64);
    } else {
        endian.put_u16(out, u16::try_from(items.len()).ok()?);
    }
    for (item, value_at) in zip(items, values) {
        endian.put_u16(out, item.tag);
        endian.put_u16(out, item.kind);
        layout.put_offset(out, item.count)?;
        if item.value_len()? > layout.offset_len() {
            layout.put_offset(out, *value_at)?;
        } else {
            let end = out.len().checked_add(usize::try_from(layout.offset_len()).ok()?)?;
            put_value(layout, item, places, out)?;
            // An inline field includes its padding, others are shorter than the field.
            out.resize(end, 0);
        }
    }
    layout.put_offset(out, 0)?;
    for (item, value_at) in zip(items, values) {
        if item.value_len()? > layout.offset_len() {
            pad_to(out, *value_at)?;
            put_value(layout, item, places, out)?;
        }
    }
    Some(())
}

fn put_value(layout: Layout, item: &Item, places: &Places, out: &mut Vec<u8>) -> Option<()> {
    match &item.value {
        Value::Inline(field) => {
            out.extend_from_slice(field);
            Some(())
        }
        Value::Fetched(bytes) => {
            out.extend_from_slice(bytes);
            Some(())
        }
        Value::Child(child) => {
            let start = places.directories.get((*child)?)?;
            layout.put_unsigned(out, item.kind, *start)
        }
        Value::Placed(segments) => segments.iter().try_for_each(|place| {
            let offset = match place {
                Some(place) => places.head_len.checked_add(*place)?,
                None => 0,
            };
            layout.put_unsigned(out, item.kind, offset)
        }),
        Value::At(_) => None,
    }
}

/// Pads with zeros; `None` if more was written than laid out.
fn pad_to(out: &mut Vec<u8>, place: u64) -> Option<()> {
    let place = usize::try_from(place).ok()?;
    (out.len() <= place).then(|| out.resize(place, 0))
}
