//! WebP: lossy, lossless, alpha; the first frame of an animation.
//!
//! By a crate without `unsafe`. Invariant: its output is libwebp's.

use std::io::{Cursor, ErrorKind};

use image_webp::{DecodingError, WebPDecoder};
use shardmill_images::{ImageFormat, ImageSize};

use crate::decode::codec::Target;
use crate::decode::raster::{Layout, Raster, reserve};
use crate::error::{Error, Result};

const WEBP: ImageFormat = ImageFormat::Webp;

pub(crate) fn decode(payload: &[u8], target: &mut Target<'_>) -> Result<Raster> {
    // The crate reads a file that lacks its last bytes, and libwebp refuses it.
    let stated = payload.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    if (payload.len() as u64) < 8 + u64::from(stated) {
        return Err(Error::truncated(WEBP, "the file is shorter than its header says"));
    }
    let mut decoder = WebPDecoder::new(Cursor::new(payload)).map_err(failure)?;
    let (width, height) = decoder.dimensions();
    let size = ImageSize { width, height };
    target.check(size)?;
    decoder.set_memory_limit(target.memory());
    let raster = Raster { size, layout: if decoder.has_alpha() { Layout::Rgba } else { Layout::Rgb } };
    let pixels = reserve(target.pixels, raster.len(), WEBP)?;
    // A frame may cover less than the canvas.
    if decoder.is_animated() {
        pixels.fill(0);
    }
    decoder.read_image(pixels).map_err(failure)?;
    Ok(raster)
}

fn failure(error: DecodingError) -> Error {
    match &error {
        DecodingError::IoError(io) if io.kind() == ErrorKind::UnexpectedEof => Error::truncated(WEBP, error),
        DecodingError::NotEnoughInitData => Error::truncated(WEBP, error),
        DecodingError::MemoryLimitExceeded => Error::limit(WEBP, error),
        DecodingError::UnsupportedFeature(_) => Error::unsupported(WEBP, error),
        _ => Error::damaged(WEBP, error),
    }
}
