//! APP1 segments of a JPEG.
//!
//! EXIF that is cut into several segments is put together; of XMP the last counts. Invariant: nothing after the first scan is read.

use std::borrow::Cow;

use crate::facts::Metadata;

const EXIF: &[u8] = b"Exif\0\0";
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

pub(super) fn metadata(payload: &[u8]) -> Metadata<'_> {
    let mut metadata = Metadata::default();
    let mut rest = payload.get(2..).unwrap_or_default();
    while let Some(at) = rest.windows(2).position(|pair| matches!(pair, [0xff, code] if !matches!(code, 0 | 0xff))) {
        let code = rest.get(at + 1).copied().unwrap_or_default();
        rest = rest.get(at + 2..).unwrap_or_default();
        if matches!(code, 0x01 | 0xd0..=0xd8) {
            continue;
        }
        let Some(len) = rest.first_chunk().map(|len| usize::from(u16::from_be_bytes(*len))) else { break };
        let Some(segment) = rest.get(2..len) else { break };
        if matches!(code, 0xd9 | 0xda) {
            break;
        }
        rest = rest.get(len..).unwrap_or_default();
        if code != 0xe1 {
            continue;
        }
        if segment.starts_with(EXIF) {
            match &mut metadata.exif {
                None => metadata.exif = Some(Cow::Borrowed(segment)),
                Some(exif) => exif.to_mut().extend_from_slice(segment.get(EXIF.len()..).unwrap_or_default()),
            }
        } else if let Some(xmp) = segment.strip_prefix(XMP) {
            metadata.xmp = Some(Cow::Borrowed(xmp));
        }
    }
    metadata
}
