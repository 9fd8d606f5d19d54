//! BMP: 1, 4, 8, 16, 24 and 32 bits, bit fields, run lengths.
//!
//! Written here, because Pillow decides by itself what is alpha and how five bits become eight.
//! Invariant: raw pixels are taken only from a payload that has all of them.

mod header;
mod runs;

use shardmill_images::ImageFormat;

use crate::decode::codec::Target;
use crate::decode::palette::unpacked;
use crate::decode::raster::{Layout, Raster, reserve};
use crate::error::{Error, Result};

use header::{Header, Order, Pixels};

const BMP: ImageFormat = ImageFormat::Bmp;

pub(crate) fn decode(payload: &[u8], target: &mut Target<'_>) -> Result<Raster> {
    let header = Header::parse(payload)?;
    target.check(header.size)?;
    let (width, height) = (header.size.width as usize, header.size.height as usize);
    let data = payload.get(header.data_at..).unwrap_or_default();
    let layout = match &header.pixels {
        Pixels::Indexed { palette, .. } => palette.layout(target.keeps_alpha),
        Pixels::Direct { order, .. } if order.has_alpha() => Layout::Rgba,
        Pixels::Direct { .. } => Layout::Rgb,
    };
    let raster = Raster { size: header.size, layout };
    let row_len = width.saturating_mul(layout.samples()).max(1);

    if let Pixels::Indexed { palette, runs: Some(bits), .. } = &header.pixels {
        let indices = runs::decode(payload, header.data_at, *bits, (width, height))
            .ok_or_else(|| Error::truncated(BMP, "runs end early"))?;
        let pixels = reserve(target.pixels, raster.len(), BMP)?;
        for (row, to) in indices.chunks_exact(width).zip(header.rows(pixels, row_len)) {
            palette.expand(row.iter().copied(), layout, to);
        }
        return Ok(raster);
    }
    let bits = header.pixels.bits();
    let line = width.saturating_mul(usize::from(bits)).div_ceil(8);
    let stride = line.next_multiple_of(4);
    // The last line needs no padding.
    if data.len() < stride.saturating_mul(height - 1).saturating_add(line) {
        return Err(Error::truncated(BMP, "pixels"));
    }
    let pixels = reserve(target.pixels, raster.len(), BMP)?;
    for (row, to) in data.chunks(stride).zip(header.rows(pixels, row_len)) {
        match &header.pixels {
            Pixels::Indexed { palette, bits, .. } => {
                palette.expand(unpacked(row, *bits).take(width), layout, to);
            }
            Pixels::Direct { order, .. } => order.write(row, layout, to),
        }
    }
    Ok(raster)
}

impl Order {
    fn write(self, row: &[u8], layout: Layout, to: &mut [u8]) {
        let pixels = to.chunks_exact_mut(layout.samples());
        match self {
            Self::Fives => {
                row.as_chunks().0.iter().zip(pixels).for_each(|(pixel, to)| {
                    to.copy_from_slice(&wide(u16::from_le_bytes(*pixel), 5));
                });
            }
            Self::Sixes => {
                row.as_chunks().0.iter().zip(pixels).for_each(|(pixel, to)| {
                    to.copy_from_slice(&wide(u16::from_le_bytes(*pixel), 6));
                });
            }
            Self::Bytes { len, places } => {
                for (pixel, to) in row.chunks_exact(len).zip(pixels) {
                    for (to, place) in to.iter_mut().zip(places) {
                        *to = pixel.get(usize::from(place)).copied().unwrap_or(255);
                    }
                }
            }
        }
    }
}

/// Red, green and blue of sixteen bits, with five or six of green.
fn wide(pixel: u16, green_bits: u8) -> [u8; 3] {
    let channel = |shift: u8, bits: u8| {
        let largest = (1 << bits) - 1;
        u8::try_from((pixel >> shift & largest) * 255 / largest).unwrap_or(u8::MAX)
    };
    [channel(5 + green_bits, 5), channel(5, green_bits), channel(0, 5)]
}
