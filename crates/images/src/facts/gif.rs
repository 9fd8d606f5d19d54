//! The canvas of a GIF.
//!
//! A first frame that exceeds the logical screen enlarges it in Pillow. Invariant: blocks are
//! skipped forwards.

use crate::image_size::ImageSize;

/// The screen, enlarged to the first frame.
pub(super) fn canvas(payload: &[u8], screen: ImageSize) -> ImageSize {
    let Some(&[x1, x0, y1, y0, w1, w0, h1, h0]) =
        first_frame(payload).and_then(|frame| frame.first_chunk())
    else {
        return screen;
    };
    let end = |start: [u8; 2], len: [u8; 2]| {
        u32::from(u16::from_le_bytes(start)) + u32::from(u16::from_le_bytes(len))
    };
    ImageSize {
        width: screen.width.max(end([x1, x0], [w1, w0])),
        height: screen.height.max(end([y1, y0], [h1, h0])),
    }
}

/// Whether the prefix reaches the first frame.
pub(super) fn has_frame(prefix: &[u8]) -> bool {
    first_frame(prefix).is_some_and(|frame| frame.len() >= 8)
}

/// What follows the separator of the first frame.
fn first_frame(payload: &[u8]) -> Option<&[u8]> {
    let flags = *payload.get(10)?;
    let palette = if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let mut rest = payload.get(13 + palette..)?;
    loop {
        let (kind, after) = rest.split_first()?;
        rest = match kind {
            b',' => return Some(after),
            b';' => return None,
            b'!' => skip_blocks(after.get(1..)?)?,
            _ => after,
        };
    }
}

fn skip_blocks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (len, after) = rest.split_first()?;
        rest = after.get(usize::from(*len)..)?;
        if *len == 0 {
            return Some(rest);
        }
    }
}
