//! WebP: lossy, lossless, alpha; the first frame of an animation.
//!
//! By a crate without `unsafe`. Invariant: its output is libwebp's.

use std::borrow::Cow;
use std::io::{Cursor, ErrorKind};

use image_webp::{DecodingError, WebPDecoder};
use shardmill_images::{ImageFormat, ImageSize};

use crate::decode::codec::Target;
use crate::decode::raster::{Layout, Raster, reserve};
use crate::error::{Error, Result};

const WEBP: ImageFormat = ImageFormat::Webp;

pub(crate) fn decode(payload: &[u8], target: &mut Target<'_>) -> Result<Raster> {
    // The crate reads a file that lacks its last bytes, and libwebp refuses it.
    let stated =
        payload.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes);
    if (payload.len() as u64) < 8 + u64::from(stated) {
        return Err(Error::truncated(WEBP, "the file is shorter than its header says"));
    }
    let payload = &*unblended(payload);
    let mut decoder = WebPDecoder::new(Cursor::new(payload)).map_err(failure)?;
    let (width, height) = decoder.dimensions();
    let size = ImageSize { width, height };
    target.check(size)?;
    check_frame(payload, size, decoder.is_animated())?;
    decoder.set_memory_limit(target.memory());
    let raster =
        Raster { size, layout: if decoder.has_alpha() { Layout::Rgba } else { Layout::Rgb } };
    let pixels = reserve(target.pixels, raster.len(), WEBP)?;
    // A frame may cover less than the canvas.
    if decoder.is_animated() {
        pixels.fill(0);
    }
    decoder.read_image(pixels).map_err(failure)?;
    Ok(raster)
}

/// The payload with a first frame that is not blended: the crate blends it into an empty canvas,
/// which changes its colors, and libwebp does not.
fn unblended(payload: &[u8]) -> Cow<'_, [u8]> {
    let mut start = 12;
    for (name, body) in chunks(payload.get(start..).unwrap_or_default()) {
        if name == *b"ANMF" {
            if body.get(15).is_none_or(|flags| flags & 2 != 0) {
                break;
            }
            let mut bytes = payload.to_vec();
            if let Some(flags) = bytes.get_mut(start + 8 + 15) {
                *flags |= 2;
            }
            return Cow::Owned(bytes);
        }
        start += 8 + body.len() + body.len() % 2;
    }
    Cow::Borrowed(payload)
}

/// Refuses a lossy frame of other sides than stated: the crate takes memory by the sides of the
/// frame, and compares them afterwards or not at all.
fn check_frame(payload: &[u8], canvas: ImageSize, is_animated: bool) -> Result<()> {
    let mut file = chunks(payload.get(12..).unwrap_or_default());
    let (stated, frame) = if is_animated {
        let Some((_, body)) = file.find(|(name, _)| name == b"ANMF") else { return Ok(()) };
        let side = |at: usize| {
            body.get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |[a, b, c]| 1 + u32::from_le_bytes([*a, *b, *c, 0]))
        };
        let mut parts = chunks(body.get(16..).unwrap_or_default());
        let frame = match parts.next() {
            // The crate reads what follows as lossy, whatever its name.
            Some((name, _)) if name == *b"ALPH" => parts.next(),
            first => first.filter(|(name, _)| name == b"VP8 "),
        };
        (ImageSize { width: side(6), height: side(9) }, frame)
    } else {
        (
            canvas,
            file.find(|(name, _)| matches!(name, b"VP8 " | b"VP8L"))
                .filter(|(name, _)| name == b"VP8 "),
        )
    };
    let Some((_, frame)) = frame else { return Ok(()) };
    let side = |at: usize| {
        frame
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |side| u32::from(u16::from_le_bytes(*side) & 0x3fff))
    };
    let found = ImageSize { width: side(6), height: side(8) };
    if found == stated {
        Ok(())
    } else {
        Err(Error::damaged(WEBP, "frame of other sides than stated"))
    }
}

/// The names and contents of chunks, as far as they go.
fn chunks(mut rest: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (&[a, b, c, d, l0, l1, l2, l3], after) = rest.split_first_chunk()?;
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        rest = after.get(len.saturating_add(len % 2)..).unwrap_or_default();
        Some(([a, b, c, d], after.get(..len).unwrap_or(after)))
    })
}

fn failure(error: DecodingError) -> Error {
    match &error {
        DecodingError::IoError(io) if io.kind() == ErrorKind::UnexpectedEof => {
            Error::truncated(WEBP, error)
        }
        DecodingError::NotEnoughInitData => Error::truncated(WEBP, error),
        DecodingError::MemoryLimitExceeded => Error::limit(WEBP, error),
        DecodingError::UnsupportedFeature(_) => Error::unsupported(WEBP, error),
        _ => Error::damaged(WEBP, error),
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the chunks are small")]
mod tests {
    use crate::decode::{DecodeOptions, Decoder, Part};
    use crate::error::Error;

    fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
        [name, &(data.len() as u32).to_le_bytes()[..], data].concat()
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        chunk(b"RIFF", &[b"WEBP", &chunks.concat()[..]].concat())
    }

    #[test]
    fn frame_of_other_sides_is_refused_before_memory_is_taken() {
        // 4 x 4 pixels in the header and 16,383 x 16,383 in the frame.
        let mut frame = vec![0x10, 0, 0, 0x9d, 0x01, 0x2a, 0xff, 0x3f, 0xff, 0x3f];
        frame.resize(40, 0);
        let frame = chunk(b"VP8 ", &frame);
        let header = |flags: u8| chunk(b"VP8X", &[flags, 0, 0, 0, 3, 0, 0, 3, 0, 0]);
        let place: [u8; 16] = [0, 0, 0, 0, 0, 0, 3, 0, 0, 3, 0, 0, 9, 0, 0, 0];
        let animation = |frame: &[u8]| {
            [chunk(b"ANIM", &[0; 6]), chunk(b"ANMF", &[&place[..], frame].concat())].concat()
        };
        // After alpha the crate takes any name.
        let renamed = [chunk(b"ALPH", &[0; 4]), [b"JUNK", &frame[4..]].concat()].concat();
        let mut decoder = Decoder::new();
        let payloads = [
            vec![header(2), animation(&renamed)],
            vec![header(2), animation(&frame)],
            vec![header(0), frame],
        ];
        for payload in payloads.map(|chunks| file(&chunks)) {
            let error = decoder
                .decode(&payload, &DecodeOptions::default(), |_, _| Part::WHOLE)
                .unwrap_err();
            assert!(
                matches!(
                    &error,
                    Error::Damaged { message, .. } if message == "frame of other sides than stated"
                ),
                "{error}"
            );
            assert_eq!(decoder.pixels.capacity(), 0);
        }
    }
}
