//! The first frame of a GIF, on its canvas.
//!
//! Blocks are walked here, because Pillow also takes files without a color table and frames beyond
//! the screen. Invariant: the canvas was checked before it is allocated.

use shardmill_images::ImageFormat;
use weezl::BitOrder;
use weezl::decode::Decoder;

use crate::decode::codec::Target;
use crate::decode::palette::Palette;
use crate::decode::raster::{Raster, reserve};
use crate::error::{Error, Result};

const GIF: ImageFormat = ImageFormat::Gif;
/// A code of at least two bits stands for at most 4,096 pixels.
const MAX_EXPANSION: usize = 4 * 4096;

pub(crate) fn decode(payload: &[u8], target: &mut Target<'_>) -> Result<Raster> {
    let first = First::find(payload).ok_or_else(|| Error::truncated(GIF, "no frame"))?;
    let size = target.stored();
    target.check(size)?;
    let (left, top, width, height) = first.place;
    let len = width.saturating_mul(height);
    if len == 0 {
        return Err(Error::damaged(GIF, "empty frame"));
    }
    if len / MAX_EXPANSION > payload.len() {
        return Err(Error::truncated(GIF, "fewer codes than pixels need"));
    }
    let indices = reserve(target.scratch, len, GIF)?;
    decompress(&first.codes, indices)?;

    let mut palette = first.palette;
    if let Some(index) = first.transparent {
        palette.set_alpha(index, 0);
    }
    let raster = Raster { size, layout: palette.layout(target.keeps_alpha) };
    let pixels = reserve(target.pixels, raster.len(), GIF)?;
    let around = first.transparent.unwrap_or(0);
    let canvas_width = size.width as usize;
    let order = stored_rows(height, first.is_interlaced);
    for (y, row) in pixels
        .chunks_exact_mut(canvas_width.saturating_mul(raster.layout.samples()).max(1))
        .enumerate()
    {
        let stored = y.checked_sub(top).and_then(|y| order.get(y));
        let inside =
            stored.and_then(|row| indices.chunks_exact(width).nth(*row)).unwrap_or_default();
        let before = if inside.is_empty() { canvas_width } else { left };
        let indices = std::iter::repeat_n(around, before)
            .chain(inside.iter().copied())
            .chain(std::iter::repeat(around));
        palette.expand(indices.take(canvas_width), raster.layout, row);
    }
    Ok(raster)
}

/// The first frame, not yet decompressed.
struct First {
    palette: Palette,
    transparent: Option<u8>,
    /// Left, top, width, height.
    place: (usize, usize, usize, usize),
    is_interlaced: bool,
    /// The size of codes, then the codes.
    codes: Vec<u8>,
}

impl First {
    fn find(payload: &[u8]) -> Option<Self> {
        let (mut palette, mut rest) = table(*payload.get(10)?, payload.get(13..)?)?;
        let mut transparent = None;
        loop {
            let (kind, after) = rest.split_first()?;
            rest = match kind {
                b',' => {
                    let (&[x0, x1, y0, y1, w0, w1, h0, h1, flags], after) =
                        after.split_first_chunk()?;
                    let (local, after) = table(flags, after)?;
                    if flags & 0x80 != 0 {
                        palette = local;
                    }
                    let number = |low: u8, high: u8| usize::from(u16::from_le_bytes([low, high]));
                    let place = (number(x0, x1), number(y0, y1), number(w0, w1), number(h0, h1));
                    return Some(Self {
                        palette,
                        transparent,
                        place,
                        is_interlaced: flags & 0x40 != 0,
                        codes: codes(after),
                    });
                }
                b';' => return None,
                b'!' => {
                    let (label, blocks) = after.split_first()?;
                    if let (0xf9, Some(&[_, flags, _, _, index])) = (label, blocks.first_chunk())
                        && flags & 1 != 0
                    {
                        transparent = Some(index);
                    }
                    skip_blocks(blocks)?
                }
                _ => after,
            };
        }
    }
}

/// The color table that `flags` announce, and what follows it. Without one, indices are grays.
fn table(flags: u8, rest: &[u8]) -> Option<(Palette, &[u8])> {
    if flags & 0x80 == 0 {
        return Some((Palette::gray(), rest));
    }
    let (colors, rest) = rest.split_at_checked(3 << ((flags & 7) + 1))?;
    Some((Palette::stated(colors.as_chunks().0.iter().copied()), rest))
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

/// The code size and the blocks after it, as far as they go.
fn codes(rest: &[u8]) -> Vec<u8> {
    let Some((size, mut rest)) = rest.split_first() else { return Vec::new() };
    let mut codes = vec![*size];
    while let Some((len, after)) = rest.split_first() {
        let len = usize::from(*len);
        if len == 0 {
            break;
        }
        codes.extend_from_slice(after.get(..len).unwrap_or(after));
        rest = after.get(len..).unwrap_or_default();
    }
    codes
}

/// Fills `indices` from the code size and the codes after it.
fn decompress(codes: &[u8], indices: &mut [u8]) -> Result<()> {
    let Some((size @ 1..=11, mut codes)) = codes.split_first() else {
        return Err(Error::damaged(GIF, "code size"));
    };
    let mut decoder = Decoder::new(BitOrder::Lsb, *size);
    let mut written = 0;
    while written < indices.len() {
        let step = decoder.decode_bytes(codes, indices.get_mut(written..).unwrap_or_default());
        step.status.map_err(|error| Error::damaged(GIF, error))?;
        if step.consumed_in == 0 && step.consumed_out == 0 {
            return Err(Error::truncated(GIF, "fewer indices than pixels"));
        }
        codes = codes.get(step.consumed_in..).unwrap_or_default();
        written += step.consumed_out;
    }
    Ok(())
}

/// Where the rows of a frame are, from the top.
fn stored_rows(height: usize, is_interlaced: bool) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..height).collect();
    if is_interlaced {
        let passes = [(0, 8), (4, 8), (2, 4), (1, 2)];
        let places = passes.into_iter().flat_map(|(first, step)| (first..height).step_by(step));
        for (stored, place) in places.enumerate() {
            if let Some(row) = rows.get_mut(place) {
                *row = stored;
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interlaced_rows_come_in_four_passes() {
        assert_eq!(stored_rows(9, true), [0, 5, 3, 6, 2, 7, 4, 8, 1]);
        assert_eq!(stored_rows(3, false), [0, 1, 2]);
    }

    #[test]
    fn codes_that_end_early_are_truncated() {
        // Clear, 0, end.
        let codes = [2, 0b0100_0100, 0b0000_0001];
        assert!(matches!(decompress(&codes, &mut [0; 2]), Err(Error::Truncated { .. })));
        assert!(matches!(decompress(&[], &mut [0; 2]), Err(Error::Damaged { .. })));
    }
}
