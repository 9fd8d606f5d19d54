//! EXIF and XMP chunks of a WebP.
//!
//! They may follow the pixels; the flags of VP8X tell whether there are any. Invariant: a chunk
//! that leaves the payload ends the walk.

use std::borrow::Cow;

use crate::facts::Metadata;

const EXIF_FLAG: u8 = 0x08;
const XMP_FLAG: u8 = 0x04;

/// The end of the container according to its header.
pub(super) fn end(payload: &[u8]) -> u64 {
    let len = payload
        .get(4..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |len| u32::from_le_bytes(*len));
    u64::from(len) + 8
}

/// Makes the header say that the container ends with the payload.
pub(super) fn set_end(payload: &mut [u8]) {
    let len = u32::try_from(payload.len().saturating_sub(8)).unwrap_or(u32::MAX);
    if let Some(field) = payload.get_mut(4..8) {
        field.copy_from_slice(&len.to_le_bytes());
    }
}

/// The part of the payload that is in the container.
fn riff(payload: &[u8]) -> &[u8] {
    usize::try_from(end(payload)).ok().and_then(|end| payload.get(..end)).unwrap_or(payload)
}

fn flags(riff: &[u8]) -> u8 {
    let chunk = riff.get(12..).unwrap_or_default();
    chunk.get(8).copied().filter(|_| chunk.starts_with(b"VP8X")).unwrap_or(0)
        & (EXIF_FLAG | XMP_FLAG)
}

/// Whether the header says that there is EXIF or XMP.
pub(super) fn has_metadata(prefix: &[u8]) -> bool {
    flags(riff(prefix)) != 0
}

/// The header of the container and of the image, whose length is set to the required one.
pub(super) fn header(prefix: &[u8]) -> Vec<u8> {
    let mut header = prefix.get(..30).unwrap_or(prefix).to_vec();
    if let Some(len) = header.get_mut(16..20) {
        len.copy_from_slice(&10_u32.to_le_bytes());
    }
    header
}

/// Whether a chunk with this name is read by [`metadata`].
pub(super) fn states_facts(name: &[u8; 4]) -> bool {
    matches!(name, b"EXIF" | b"XMP ")
}

pub(super) fn metadata(payload: &[u8]) -> Metadata<'_> {
    let mut metadata = Metadata::default();
    let riff = riff(payload);
    let flags = flags(riff);
    if flags == 0 {
        return metadata;
    }
    let mut rest = riff.get(12..).unwrap_or_default();
    while let Some(&[a, b, c, d, l0, l1, l2, l3]) = rest.first_chunk() {
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let Some(chunk) = len.checked_add(8).and_then(|end| rest.get(8..end)) else { break };
        match &[a, b, c, d] {
            b"EXIF" if flags & EXIF_FLAG != 0 && metadata.exif.is_none() => {
                metadata.exif = Some(Cow::Borrowed(chunk));
            }
            b"XMP " if flags & XMP_FLAG != 0 && metadata.xmp.is_none() => {
                metadata.xmp = Some(Cow::Borrowed(chunk));
            }
            _ => {}
        }
        // Chunks begin at even offsets.
        rest = len.checked_add(8 + len % 2).and_then(|end| rest.get(end..)).unwrap_or_default();
    }
    metadata
}
