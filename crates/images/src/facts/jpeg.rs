//! APP1 segments of a JPEG.
//!
//! EXIF that is cut into several segments is put together; of XMP the last counts. Invariant:
//! nothing after the first scan is read.

use std::borrow::Cow;

use crate::facts::Metadata;

const EXIF: &[u8] = b"Exif\0\0";
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

pub(super) fn metadata(payload: &[u8]) -> Metadata<'_> {
    let mut metadata = Metadata::default();
    for (_, segment) in Segments::of(payload).filter(|(code, _)| *code == 0xe1) {
        if segment.starts_with(EXIF) {
            match &mut metadata.exif {
                None => metadata.exif = Some(Cow::Borrowed(segment)),
                Some(exif) => {
                    exif.to_mut().extend_from_slice(segment.get(EXIF.len()..).unwrap_or_default());
                }
            }
        } else if let Some(xmp) = segment.strip_prefix(XMP) {
            metadata.xmp = Some(Cow::Borrowed(xmp));
        }
    }
    metadata
}

/// Whether the prefix reaches the first scan or the end of the image.
pub(super) fn has_header(prefix: &[u8]) -> bool {
    let mut segments = Segments::of(prefix);
    segments.by_ref().for_each(drop);
    segments.is_at_scan
}

/// The segments before the first scan, with their codes.
struct Segments<'a> {
    rest: &'a [u8],
    is_at_scan: bool,
}

impl<'a> Segments<'a> {
    fn of(payload: &'a [u8]) -> Self {
        Self { rest: payload.get(2..).unwrap_or_default(), is_at_scan: false }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_scan {
            return None;
        }
        loop {
            let at = self
                .rest
                .windows(2)
                .position(|pair| matches!(pair, [0xff, code] if !matches!(code, 0 | 0xff)))?;
            let code = self.rest.get(at + 1).copied()?;
            self.rest = self.rest.get(at + 2..).unwrap_or_default();
            if matches!(code, 0x01 | 0xd0..=0xd8) {
                continue;
            }
            let len = usize::from(u16::from_be_bytes(*self.rest.first_chunk()?));
            let segment = self.rest.get(2..len)?;
            if matches!(code, 0xd9 | 0xda) {
                self.is_at_scan = true;
                return None;
            }
            self.rest = self.rest.get(len..).unwrap_or_default();
            return Some((code, segment));
        }
    }
}
