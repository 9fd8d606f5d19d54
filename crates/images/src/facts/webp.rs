//! EXIF and XMP chunks of a WebP.
//!
//! They may follow the pixels; the flags of VP8X tell whether there are any. Invariant: a chunk that leaves the payload ends the walk.

use std::borrow::Cow;

use crate::facts::Metadata;

const EXIF_FLAG: u8 = 0x08;
const XMP_FLAG: u8 = 0x04;

pub(super) fn metadata(payload: &[u8]) -> Metadata<'_> {
    let mut metadata = Metadata::default();
    let riff_len = payload.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |len| u32::from_le_bytes(*len) as usize);
    let riff = payload.get(..riff_len.saturating_add(8)).unwrap_or(payload);
    let mut rest = riff.get(12..).unwrap_or_default();
    let flags = rest.get(8).copied().filter(|_| rest.starts_with(b"VP8X")).unwrap_or(0);
    if flags & (EXIF_FLAG | XMP_FLAG) == 0 {
        return metadata;
    }
    while let Some(&[a, b, c, d, l0, l1, l2, l3]) = rest.first_chunk() {
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let Some(chunk) = len.checked_add(8).and_then(|end| rest.get(8..end)) else { break };
        match &[a, b, c, d] {
            b"EXIF" if flags & EXIF_FLAG != 0 && metadata.exif.is_none() => metadata.exif = Some(Cow::Borrowed(chunk)),
            b"XMP " if flags & XMP_FLAG != 0 && metadata.xmp.is_none() => metadata.xmp = Some(Cow::Borrowed(chunk)),
            _ => {}
        }
        // Chunks begin at even offsets.
        rest = len.checked_add(8 + len % 2).and_then(|end| rest.get(end..)).unwrap_or_default();
    }
    metadata
}
