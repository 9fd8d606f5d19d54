//! Decodes an image to one or three channels, turned upright.
//!
//! [`Decoder::decode`] is the entry: sniff, judge the header, decode, composite, turn. Invariant: nothing is allocated for a size that was not checked,
//! and no payload makes it panic.

mod bmp;
mod codec;
mod color;
mod gif;
mod jpeg;
mod options;
mod orient;
mod palette;
mod png;
mod raster;
#[cfg(test)]
mod tests;
mod tiff;
mod webp;

use shardmill_images::{ImageFormat, ImageSize, page_facts, sniff, unsupported_name};

use crate::caught::caught;
use crate::error::{Error, Result};

use codec::{Buffers, Target, check_limits};
use color::Wanted;
use raster::{Raster, reserve};

pub use codec::Notes;
pub use options::{Channels, Damaged, DecodeOptions, JpegDecoder, Mode, Part};

/// A buffer that once held a larger image is given back when a smaller one comes.
const KEPT_BYTES: usize = 48 << 20;

/// Decodes one image after another, and reuses its buffers. One a thread.
#[derive(Debug, Default)]
pub struct Decoder {
    pixels: Vec<u8>,
    /// Samples as stored while decoding, pixels as seen afterwards.
    turned: Vec<u8>,
}

/// An image in the buffers of its [`Decoder`].
#[derive(Debug, Clone, Copy)]
pub struct Decoded<'a> {
    pub width: u32,
    pub height: u32,
    /// 1 or 3. A gray image has 1, also where [`Channels::Rgb`] was asked for.
    pub channels: usize,
    /// Rows from the top, pixels from the left, channels innermost.
    pub pixels: &'a [u8],
    pub format: ImageFormat,
    /// Before turning and scaling.
    pub stored: ImageSize,
    /// What was applied, 1 to 8; 1 where orientation is not asked for.
    pub orientation: u8,
    /// By which the sides were divided while decoding.
    pub denominator: u32,
    pub notes: Notes,
}

impl Decoder {
    /// A decoder without buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The pixels of `payload`.
    ///
    /// `part` is asked what of a JPEG is needed, and given width and height as they will be seen. Columns are left out of images that are not turned.
    ///
    /// # Errors
    /// When the payload is not an image that is decoded here, exceeds a limit, or is damaged; see [`Error::cause`].
    pub fn decode(&mut self, payload: &[u8], options: &DecodeOptions, part: impl FnOnce(u32, u32) -> Part) -> Result<Decoded<'_>> {
        let format = sniff(payload).ok_or_else(|| unrecognized(payload))?;
        let facts = page_facts(payload, options.page).map_err(|source| Error::from_header(format, source))?;
        check_limits(facts.stored, options.max_pixels)?;
        let orientation = if options.orientation { facts.orientation } else { 1 };
        let (width, height) = oriented((facts.stored.width, facts.stored.height), orientation);
        let mut part = if format == ImageFormat::Jpeg { part(width, height) } else { Part::WHOLE };
        part.columns = part.columns.filter(|_| orientation == 1);
        self.shrink(facts.stored);

        let buffers = Buffers { pixels: &mut self.pixels, scratch: &mut self.turned };
        let mut target = Target::new(buffers, options, facts.stored, part);
        let raster = caught(format, || match format {
            ImageFormat::Jpeg => jpeg::decode(payload, &mut target),
            ImageFormat::Png => png::decode(payload, &mut target),
            ImageFormat::Webp => webp::decode(payload, &mut target),
            ImageFormat::Gif => gif::decode(payload, &mut target),
            ImageFormat::Bmp => bmp::decode(payload, &mut target),
            ImageFormat::Tiff => tiff::decode(payload, &mut target),
            _ => Err(Error::unsupported(format, not_decoded(payload, facts.stored))),
        });
        let (notes, denominator) = (target.notes, target.denominator);
        let raster = raster?;

        let wanted = Wanted { channels: options.channels, background: options.background };
        let channels = color::convert(raster, &mut self.pixels, wanted);
        let pixels = self.turn(raster, channels, orientation, format)?;
        let (width, height) = oriented((raster.size.width, raster.size.height), orientation);
        Ok(Decoded { width, height, channels, pixels, format, stored: facts.stored, orientation, denominator, notes })
    }

    /// The pixels as they are to be seen.
    fn turn(&mut self, raster: Raster, channels: usize, orientation: u8, format: ImageFormat) -> Result<&[u8]> {
        let len = raster.pixels().saturating_mul(channels);
        let pixels = self.pixels.get(..len).unwrap_or_default();
        if orientation == 1 {
            return Ok(pixels);
        }
        let turned = reserve(&mut self.turned, len, format)?;
        if channels == 1 {
            orient::turn::<1>(orientation, raster.size, pixels, turned);
        } else {
            orient::turn::<3>(orientation, raster.size, pixels, turned);
        }
        Ok(turned)
    }

    fn shrink(&mut self, size: ImageSize) {
        let needed = u64::from(size.width) * u64::from(size.height) * 4;
        for buffer in [&mut self.pixels, &mut self.turned] {
            if buffer.capacity() > KEPT_BYTES && needed < KEPT_BYTES as u64 {
                *buffer = Vec::new();
            }
        }
    }
}

/// Of a payload that has no magic number in its first bytes.
fn unrecognized(payload: &[u8]) -> Error {
    match unsupported_name(payload) {
        Some(name) => Error::unsupported(ImageFormat::Other, format!("{name} is not supported")),
        None => Error::UnknownFormat { payload_len: payload.len() },
    }
}

/// Says which format it is that is recognized, but not decoded.
fn not_decoded(payload: &[u8], size: ImageSize) -> String {
    let name = unsupported_name(payload).unwrap_or("this format");
    format!("{name} is not supported (the size is {} x {})", size.width, size.height)
}

fn oriented((width, height): (u32, u32), orientation: u8) -> (u32, u32) {
    if orient::exchanges_sides(orientation) { (height, width) } else { (width, height) }
}
