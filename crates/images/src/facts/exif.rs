//! The orientation tag of a directory.
//!
//! A directory of EXIF is one of TIFF, and is read as Pillow reads it: an entry whose value is
//! outside of the record ends the reading. Invariant: the entries are walked once.

use crate::endian::Endian;
use crate::facts::xmp;
use crate::tiff::Layout;

const ORIENTATION: u16 = 274;
const XMP: u16 = 700;
const PREFIX: &[u8] = b"Exif\0\0";

/// What a directory states.
#[derive(Debug, Default)]
pub(super) struct Tags {
    /// 0 for a value that means nothing.
    orientation: Option<u8>,
    xmp: Option<std::ops::Range<usize>>,
}

impl Tags {
    /// The orientation of the page that this directory describes, 1 to 8.
    pub(super) fn upright_by(&self, payload: &[u8]) -> u8 {
        let from_xmp = || payload.get(self.xmp.clone()?).and_then(xmp::stated);
        self.orientation.or_else(from_xmp).filter(|value| (2..=8).contains(value)).unwrap_or(1)
    }
}

/// The orientation in an EXIF record; `Some(0)` for a tag whose value means nothing.
pub(super) fn stated(record: &[u8]) -> Option<u8> {
    // Some writers put the prefix twice.
    let record = record.strip_prefix(PREFIX).unwrap_or(record);
    let record = record.strip_prefix(PREFIX).unwrap_or(record);
    // Pillow also takes the version in the other byte order.
    let endian = match record.first_chunk::<4>()? {
        b"II\x2a\0" | b"II\0\x2a" => Endian::Little,
        b"MM\0\x2a" | b"MM\x2a\0" => Endian::Big,
        _ => return None,
    };
    let offset = endian.u32(record.get(4..)?)?;
    read(record, Layout { endian, is_big: false }, offset.into()).orientation
}

/// Reads the directory at `offset` of `bytes`.
pub(super) fn read(bytes: &[u8], layout: Layout, offset: u64) -> Tags {
    let mut tags = Tags::default();
    let Some(directory) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..))
    else {
        return tags;
    };
    let (count_len, entry_len, inline_len) = if layout.is_big { (8, 20, 8) } else { (2, 12, 4) };
    let Some(count) = layout.entry_count(directory) else { return tags };
    let entries = directory.get(count_len..).unwrap_or_default().chunks_exact(entry_len);
    let (mut seen_orientation, mut seen_xmp) = (false, false);
    let mut value_bytes: u64 = 0;
    for (k, entry) in entries.take(usize::try_from(count).unwrap_or(usize::MAX)).enumerate() {
        let (Some(tag), Some(kind)) =
            (layout.endian.u16(entry), entry.get(2..).and_then(|rest| layout.endian.u16(rest)))
        else {
            break;
        };
        if tag == ORIENTATION && seen_orientation || tag == XMP && seen_xmp {
            continue;
        }
        let (Some(unit), Some(count)) =
            (unit_len(kind), entry.get(4..).and_then(|rest| layout.offset(rest)))
        else {
            continue;
        };
        let len = count.saturating_mul(unit);
        let field = entry.get(entry_len - inline_len..).unwrap_or_default();
        let inline_at =
            bytes.len() - directory.len() + count_len + (k + 1) * entry_len - inline_len;
        let start = if len > inline_len as u64 {
            value_bytes = value_bytes.saturating_add(len);
            if value_bytes > bytes.len() as u64 {
                continue;
            }
            layout.offset(field).unwrap_or(u64::MAX)
        } else {
            inline_at as u64
        };
        let range =
            usize::try_from(start).ok().zip(usize::try_from(start.saturating_add(len)).ok());
        let Some((range, value)) =
            range.and_then(|(start, end)| Some((start..end, bytes.get(start..end)?)))
        else {
            break;
        };
        if value.is_empty() {
            continue;
        }
        match tag {
            ORIENTATION => {
                seen_orientation = true;
                // Pillow leaves bytes and texts as they are, and they equal no orientation.
                let value = if matches!(kind, 3 | 4 | 6 | 8 | 9 | 13 | 16) {
                    layout.unsigned(kind, value)
                } else {
                    None
                };
                tags.orientation =
                    Some(value.and_then(|value| u8::try_from(value).ok()).unwrap_or(0));
            }
            XMP => {
                seen_xmp = true;
                tags.xmp = matches!(kind, 1 | 7).then_some(range);
            }
            _ => {}
        }
    }
    tags
}

/// Size of one value; `None` for types that Pillow does not know.
fn unit_len(kind: u16) -> Option<u64> {
    match kind {
        1 | 2 | 6 | 7 => Some(1),
        3 | 8 => Some(2),
        4 | 9 | 11 | 13 => Some(4),
        5 | 10 | 12 | 16 => Some(8),
        _ => None,
    }
}
