//! The markers of a JPEG before its first scan.
//!
//! Tells what the frame is before a decoder sees it, and takes away what libjpeg only warns
//! about, so that a warning that is left is one about pixels. Invariant: the position grows
//! with every marker.

use std::borrow::Cow;

use shardmill_images::{ImageFormat, ImageSize};

use crate::error::{Error, Result};
use crate::raster::Sides;

const JPEG: ImageFormat = ImageFormat::Jpeg;
/// The highest number of scans that is decoded. Encoders write about ten.
pub(super) const MAX_SCANS: u16 = 500;
/// This number of scans is decoded for images of all sizes.
const FREE_SCANS: u64 = 32;
/// The limit of scans times pixels for more scans: about half a second.
const MAX_PASSED_PIXELS: u64 = 1 << 29;

/// The frame header, and where the markers are.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) size: ImageSize,
    pub(crate) components: u8,
    /// The least number of 8×8 blocks in a component.
    pub(crate) fewest_blocks: u64,
    pub(crate) is_arithmetic: bool,
    /// The sides of a coded unit, where rows of units are decoded one after the other.
    pub(crate) unit: Option<Sides>,
    /// Whether the first scan has all components, so that nothing of a row of units comes later.
    pub(crate) has_one_scan: bool,
    is_progressive: bool,
    /// Where the data of the first scan begins.
    first_scan: usize,
    /// Bytes between segments, which belong to none.
    extraneous: Vec<std::ops::Range<usize>>,
    /// Bytes whose value is unknown to libjpeg, with the value that it assumes.
    odd: Vec<(usize, u8)>,
    has_jfif: bool,
}

impl Header {
    /// # Errors
    /// When there is no frame and scan, or the frame is none that is decoded.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self> {
        let mut header = Self {
            size: ImageSize { width: 0, height: 0 },
            components: 0,
            fewest_blocks: 0,
            is_arithmetic: false,
            unit: None,
            has_one_scan: false,
            is_progressive: false,
            first_scan: 0,
            extraneous: Vec::new(),
            odd: Vec::new(),
            has_jfif: false,
        };
        let mut adobe = None;
        let mut position = 2;
        loop {
            let (code, at) = next_marker(payload, position, &mut header.extraneous)?;
            position = at;
            if matches!(code, 0x01 | 0xd0..=0xd8) {
                continue;
            }
            if code == 0xd9 {
                return Err(Error::truncated(JPEG, "no scan"));
            }
            let rest = payload.get(at..).unwrap_or_default();
            let len = rest.first_chunk().map_or(0, |len| usize::from(u16::from_be_bytes(*len)));
            let Some(segment) = rest.get(2..len) else {
                return Err(if len < 2 && rest.len() >= 2 {
                    Error::damaged(JPEG, "segment without length")
                } else {
                    Error::truncated(JPEG, "header")
                });
            };
            position += len;
            match code {
                0xc0..=0xcf if !matches!(code, 0xc4 | 0xc8 | 0xcc) => {
                    if header.components != 0 {
                        return Err(Error::damaged(JPEG, "two frames"));
                    }
                    header.frame(code, segment)?;
                }
                0xe0 if segment.len() >= 14 && segment.starts_with(b"JFIF\0") => {
                    header.has_jfif = true;
                    if segment.get(5).is_some_and(|major| *major != 1) {
                        header.odd.push((at + 7, 1));
                    }
                }
                0xee if segment.len() >= 12 && segment.starts_with(b"Adobe") => {
                    adobe = segment.get(11).map(|transform| (at + 13, *transform));
                }
                0xda => {
                    header.has_one_scan = segment.first() == Some(&header.components);
                    header.first_scan = position;
                    break;
                }
                _ => {}
            }
        }
        match (header.components, adobe) {
            (0, _) => return Err(Error::damaged(JPEG, "scan without frame")),
            (3, Some((at, transform))) if transform > 1 && !header.has_jfif => {
                header.odd.push((at, 1));
            }
            (4, Some((at, transform))) if !matches!(transform, 0 | 2) => header.odd.push((at, 2)),
            _ => {}
        }
        Ok(header)
    }

    fn frame(&mut self, code: u8, segment: &[u8]) -> Result<()> {
        let Some(&[precision, h1, h0, w1, w0, components]) = segment.first_chunk() else {
            return Err(Error::damaged(JPEG, "short frame header"));
        };
        match code {
            0xc3 | 0xcb => return Err(Error::unsupported(JPEG, "lossless JPEG is not supported")),
            0xc5..=0xc7 | 0xcd..=0xcf => {
                return Err(Error::unsupported(JPEG, "hierarchical JPEG is not supported"));
            }
            _ if precision != 8 => {
                return Err(Error::unsupported(
                    JPEG,
                    format!("{precision}-bit JPEG is not supported"),
                ));
            }
            _ if !matches!(components, 1 | 3 | 4) => {
                return Err(Error::unsupported(JPEG, format!("{components} components")));
            }
            _ => {}
        }
        self.size = ImageSize {
            width: u16::from_be_bytes([w1, w0]).into(),
            height: u16::from_be_bytes([h1, h0]).into(),
        };
        if self.size.width == 0 || self.size.height == 0 {
            let source = shardmill_images::Error::ZeroSize {
                width: self.size.width,
                height: self.size.height,
            };
            return Err(Error::Header { format: JPEG, source });
        }
        self.components = components;
        self.is_arithmetic = matches!(code, 0xc9 | 0xca);
        self.is_progressive = matches!(code, 0xc2 | 0xca);
        // After its first scans, a progressive image is smoothed across units.
        if matches!(code, 0xc0 | 0xc1 | 0xc9) {
            // The sampling factors of each component, horizontal in the high bits.
            let factors = segment.iter().skip(7).step_by(3).take(components.into());
            let across = if components == 1 {
                Some(1)
            } else {
                factors.clone().map(|factors| factors >> 4).max()
            };
            let down = factors.map(|factors| factors & 15).max();
            let side = |factor: Option<u8>| {
                factor
                    .filter(|factor| matches!(factor, 1 | 2 | 4))
                    .map(|factor| usize::from(factor) * 8)
            };
            self.unit = side(across).zip(side(down)).map(|(width, height)| Sides { height, width });
        }
        // A component has between one and four samples a unit and direction, so at least a
        // sixteenth of the pixels.
        let blocks =
            u64::from(self.size.width.div_ceil(8)) * u64::from(self.size.height.div_ceil(8));
        self.fewest_blocks = if components == 1 { blocks } else { blocks / 16 };
        Ok(())
    }

    /// Refuses more scans than an encoder writes, before any of them is decoded: a scan of a few
    /// bytes costs a pass over all coefficients.
    ///
    /// # Errors
    /// For more than [`MAX_SCANS`], and for more than [`FREE_SCANS`] that pass over more than
    /// [`MAX_PASSED_PIXELS`] together.
    pub(crate) fn check_scans(&self, payload: &[u8]) -> Result<()> {
        if self.has_one_scan && !self.is_progressive {
            return Ok(());
        }
        let pixels = u64::from(self.size.width) * u64::from(self.size.height);
        let most = (MAX_PASSED_PIXELS / pixels.max(1)).clamp(FREE_SCANS, MAX_SCANS.into());
        let scans = scans(payload, self.first_scan);
        if scans > most {
            let (width, height) = (self.size.width, self.size.height);
            return Err(Error::limit(
                JPEG,
                format!("{scans} scans of {width} x {height} pixels, at most {most} are decoded"),
            ));
        }
        Ok(())
    }

    /// Samples of all components at most, in whole units.
    pub(crate) fn padded_samples(&self) -> u64 {
        // A unit has at most four blocks in each direction.
        let side = |side: u32| u64::from(side).next_multiple_of(32);
        side(self.size.width) * side(self.size.height) * u64::from(self.components)
    }

    /// Number of oddities that are accepted.
    pub(crate) fn oddities(&self) -> usize {
        self.extraneous.len() + self.odd.len()
    }

    /// The payload without its oddities.
    pub(crate) fn cleaned<'a>(&self, payload: &'a [u8]) -> Cow<'a, [u8]> {
        if self.oddities() == 0 {
            return Cow::Borrowed(payload);
        }
        let mut bytes = payload.to_vec();
        for (at, value) in &self.odd {
            if let Some(byte) = bytes.get_mut(*at) {
                *byte = *value;
            }
        }
        let mut cleaned = Vec::with_capacity(bytes.len());
        let mut position = 0;
        for range in &self.extraneous {
            cleaned.extend_from_slice(bytes.get(position..range.start).unwrap_or_default());
            position = range.end;
        }
        cleaned.extend_from_slice(bytes.get(position..).unwrap_or_default());
        Cow::Owned(cleaned)
    }
}

/// The code of the next marker and the position after it. Bytes before it are noted.
fn next_marker(
    payload: &[u8],
    position: usize,
    extraneous: &mut Vec<std::ops::Range<usize>>,
) -> Result<(u8, usize)> {
    let rest = payload.get(position..).unwrap_or_default();
    let found =
        rest.windows(2).position(|pair| matches!(pair, [0xff, code] if !matches!(code, 0 | 0xff)));
    let found = found.ok_or_else(|| Error::truncated(JPEG, "header"))?;
    // Any number of 0xff may precede a marker.
    let fill = rest
        .get(..found)
        .unwrap_or_default()
        .iter()
        .rev()
        .take_while(|byte| **byte == 0xff)
        .count();
    if found > fill {
        extraneous.push(position..position + found - fill);
    }
    let code = rest.get(found + 1).copied().unwrap_or_default();
    Ok((code, position + found + 2))
}

/// The number of scans; the data of the first one begins at `position`.
fn scans(payload: &[u8], mut position: usize) -> u64 {
    let mut scans = 1;
    while let Some(at) =
        payload.get(position..).and_then(|rest| rest.iter().position(|byte| *byte == 0xff))
    {
        position += at + 1;
        match payload.get(position) {
            None | Some(0xd9) => break,
            Some(0 | 0x01 | 0xd0..=0xd8) => position += 1,
            // Any number of these may precede a marker.
            Some(0xff) => {}
            Some(code) => {
                scans += u64::from(*code == 0xda);
                let len = payload.get(position + 1..).and_then(|rest| rest.first_chunk());
                position += 1 + len.map_or(0, |len| usize::from(u16::from_be_bytes(*len)));
            }
        }
    }
    scans
}

/// Whether the markers after the header lead to an end of the image, as libjpeg follows them.
pub(crate) fn has_end(payload: &[u8]) -> bool {
    let mut position = 2;
    let mut ignored = Vec::new();
    while let Ok((code, at)) = next_marker(payload, position, &mut ignored) {
        ignored.clear();
        position = match code {
            0xd9 => return true,
            0x01 | 0xd0..=0xd8 => at,
            _ => {
                let Some(len) = payload.get(at..).and_then(|rest| rest.first_chunk()) else {
                    return false;
                };
                at + usize::from(u16::from_be_bytes(*len)).max(2)
            }
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jpeg(segments: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xd8];
        segments.iter().for_each(|segment| bytes.extend_from_slice(segment));
        bytes.extend([0xff, 0xc0, 0, 17, 8, 0, 9, 0, 17, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        bytes.extend([0xff, 0xda, 0, 12, 3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0, 1, 2, 3, 0xff, 0xd9]);
        bytes
    }

    #[test]
    fn stray_bytes_and_odd_values_are_cleaned() {
        let payload = jpeg(&[
            b"\xff\xe0\0\x10JFIF\0\x02\x01\0\0\0\0\0\0\0",
            b"\0stray",
            b"\xff\xff\xff\xfe\0\x03x",
        ]);
        let header = Header::parse(&payload).unwrap();
        assert_eq!(header.oddities(), 2);
        let cleaned = header.cleaned(&payload);
        assert_eq!(cleaned.len(), payload.len() - 6);
        assert_eq!(Header::parse(&cleaned).unwrap().oddities(), 0);
        assert!(has_end(&payload) && !has_end(&payload[..payload.len() - 2]));
    }

    #[test]
    fn scans_are_counted_past_stuffed_bytes_restarts_and_tables() {
        let scan =
            b"\xff\xda\0\x08\x01\x01\0\0\x3f\0data\xff\0\xff\xd0more\xff\xff\xc4\0\x06\xff\xda\0\0";
        let payload = [&[0; 5][..], &scan.repeat(3), b"\xff\xd9", scan].concat();
        assert_eq!(scans(&payload, 5), 4);
        for len in 0..payload.len() {
            assert!(scans(&payload[..len], 5) <= 4);
        }
    }

    #[test]
    fn plain_payload_is_borrowed() {
        let payload = jpeg(&[]);
        let header = Header::parse(&payload).unwrap();
        assert_eq!((header.size.width, header.size.height, header.components), (17, 9, 3));
        assert!(matches!(header.cleaned(&payload), Cow::Borrowed(_)));
    }

    #[test]
    fn every_prefix_ends() {
        let payload = jpeg(&[b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\x05"]);
        for len in 0..payload.len() {
            let _ = Header::parse(&payload[..len]).map(|header| header.oddities());
        }
    }
}
