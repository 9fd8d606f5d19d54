//! `eXIf` and XMP of a PNG, before or after the pixels.
//!
//! Chunks are walked by their headers; pixels are not read. Invariant: a chunk that leaves the payload ends the walk.

use std::borrow::Cow;

use crate::facts::Metadata;

const XMP: &[u8] = b"XML:com.adobe.xmp\0";

pub(super) fn metadata(payload: &[u8]) -> Metadata<'_> {
    let mut metadata = Metadata::default();
    let (mut is_animated, mut has_pixels) = (false, false);
    let mut rest = payload.get(8..).unwrap_or_default();
    while let Some(&[l3, l2, l1, l0, a, b, c, d]) = rest.first_chunk() {
        let len = u32::from_be_bytes([l3, l2, l1, l0]) as usize;
        let name = [a, b, c, d];
        let Some(chunk) = len.checked_add(8).and_then(|end| rest.get(8..end)) else { break };
        match &name {
            b"IEND" => break,
            b"IDAT" => has_pixels = true,
            b"acTL" => is_animated = chunk.first_chunk().is_some_and(|frames| u32::from_be_bytes(*frames) > 1),
            // Pillow stops where the next frame begins.
            b"fcTL" if is_animated && has_pixels => break,
            b"eXIf" => metadata.exif = Some(Cow::Borrowed(chunk)),
            b"iTXt" => metadata.xmp = text(chunk).or(metadata.xmp),
            _ => {}
        }
        rest = len.checked_add(12).and_then(|end| rest.get(end..)).unwrap_or_default();
    }
    metadata
}

/// The text of an XMP chunk that is not compressed, as XMP demands.
fn text(chunk: &[u8]) -> Option<&[u8]> {
    let (flags, rest) = chunk.strip_prefix(XMP)?.split_at_checked(2)?;
    let (is_compressed, mut fields) = (flags.first() != Some(&0), rest.splitn(3, |byte| *byte == 0));
    if is_compressed { None } else { fields.nth(2) }
}
