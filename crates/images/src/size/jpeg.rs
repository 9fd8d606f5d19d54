//! Walks the markers of a JPEG up to the frame header.
//!
//! Returns the size in the SOF segment; EXIF and ICC segments before it are skipped, not read.
//! Invariant: the position grows with every marker and with every request,
//! and requests are counted.

use crate::error::{Error, Result};
use crate::format::ImageFormat;
use crate::image_size::ImageSize;
use crate::window::{Progress, Window, clipped};

/// After a skipped segment only the next few headers are needed.
const STEP_REQUEST: u64 = 1024;
/// A segment has at most 64 KiB, so this many requests cross 256 MiB of metadata; ICC profiles and
/// extended XMP need a few hundred.
const MAX_REQUESTS: u32 = 4096;

/// The position in the marker chain.
#[derive(Debug)]
pub(crate) struct JpegWalk {
    position: u64,
    requests: u32,
}

impl JpegWalk {
    /// After the SOI marker.
    pub(crate) fn new() -> Self {
        Self { position: 2, requests: 0 }
    }

    /// Continues in `window`, which contains the current position.
    pub(crate) fn step(
        &mut self,
        window: Window<'_>,
        payload_len: u64,
    ) -> Result<Progress<ImageSize>> {
        loop {
            match self.marker(window)? {
                Some(Progress::Ready(size)) => return Ok(Progress::Ready(size)),
                Some(Progress::Needs(())) => {}
                None => return self.request(payload_len).map(Progress::Needs),
            }
        }
    }

    /// Reads one marker; `None` if the window does not contain enough of it.
    fn marker(&mut self, window: Window<'_>) -> Result<Option<Progress<ImageSize, ()>>> {
        let Some(rest) = window.tail(self.position) else {
            return Ok(None);
        };
        // Stray bytes between segments are skipped, as in libjpeg.
        let Some(skipped) = rest
            .windows(2)
            .position(|pair| matches!(pair, [0xff, code] if !matches!(code, 0 | 0xff)))
        else {
            self.position += (rest.len() as u64).saturating_sub(1);
            return Ok(None);
        };
        self.position += skipped as u64;
        let code = rest.get(skipped + 1).copied().unwrap_or_default();
        match code {
            0x01 | 0xd0..=0xd8 => {
                self.position += 2;
                return Ok(Some(Progress::Needs(())));
            }
            0xd9 | 0xda => return Err(unknown()),
            _ => {}
        }
        let Some(&[high, low]) = rest.get(skipped + 2..).and_then(|bytes| bytes.first_chunk())
        else {
            return Ok(None);
        };
        if is_frame_header(code) {
            let Some(&[_, _, _, h1, h0, w1, w0]) =
                rest.get(skipped + 2..).and_then(|bytes| bytes.first_chunk())
            else {
                return Ok(None);
            };
            let width = u16::from_be_bytes([w1, w0]);
            let height = u16::from_be_bytes([h1, h0]);
            return ImageSize::new(width.into(), height.into())
                .map(|size| Some(Progress::Ready(size)));
        }
        let segment = u64::from(u16::from_be_bytes([high, low]));
        if segment < 2 {
            return Err(unknown());
        }
        self.position += 2 + segment;
        Ok(Some(Progress::Needs(())))
    }

    fn request(&mut self, payload_len: u64) -> Result<std::ops::Range<u64>> {
        // Marker, length, precision and both sides are nine bytes;
        // a shorter request would never succeed.
        let needed = self.position.saturating_add(9);
        if needed > payload_len {
            return Err(Error::TruncatedHeader {
                format: ImageFormat::Jpeg,
                needed,
                found: payload_len,
            });
        }
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(unknown());
        }
        clipped(self.position, STEP_REQUEST, payload_len).ok_or_else(unknown)
    }
}

fn unknown() -> Error {
    Error::UnknownSize { format: ImageFormat::Jpeg }
}

/// SOF0 to SOF15 without DHT, JPG and DAC, which are in the same range.
fn is_frame_header(code: u8) -> bool {
    matches!(code, 0xc0..=0xcf) && !matches!(code, 0xc4 | 0xc8 | 0xcc)
}
