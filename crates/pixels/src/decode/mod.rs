//! Decodes an image to one or three channels, turned upright.
//!
//! [`Decoder::decode`] is the entry: sniff, judge the header, decode, composite, turn. Invariant:
//! nothing is allocated for a size that was not checked, and no payload makes it panic.

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
mod stored;
#[cfg(test)]
mod tests;
mod tiff;
mod webp;

use std::ops::Range;

use shardmill_images::{Facts, ImageFormat, ImageSize, page_facts, sniff, unsupported_name};

use crate::caught::caught;
use crate::error::{Error, Result};
use crate::raster::{Region, Sides};

use codec::{Buffers, Target};
use color::Wanted;
pub(crate) use stored::Stored;

pub use codec::{Notes, check_limits};
pub use options::{Channels, Damaged, DecodeOptions, Mode, Part};

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
    /// What of the image `pixels` are: all of it, or at least the part that was asked for.
    pub region: Region,
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
    /// `part` is asked what of a JPEG is needed, and given width and height as they will be seen.
    ///
    /// # Errors
    /// When the payload is not an image that is decoded here, exceeds a limit,
    /// or is damaged; see [`Error::cause`].
    pub fn decode(
        &mut self,
        payload: &[u8],
        options: &DecodeOptions,
        part: impl FnOnce(u32, u32) -> Part,
    ) -> Result<Decoded<'_>> {
        self.stored(payload, options, part)?.upright()
    }

    /// As [`Decoder::decode`], but the pixels are not turned yet.
    pub(crate) fn stored(
        &mut self,
        payload: &[u8],
        options: &DecodeOptions,
        part: impl FnOnce(u32, u32) -> Part,
    ) -> Result<Stored<'_>> {
        let facts = checked_facts(payload, options)?;
        let format = facts.format;
        let orientation = if options.orientation { facts.orientation } else { 1 };
        self.shrink(facts.stored);

        let buffers = Buffers { pixels: &mut self.pixels, scratch: &mut self.turned };
        let mut target = Target::new(buffers, options, facts.stored);
        if format == ImageFormat::Jpeg {
            let (width, height) = oriented((facts.stored.width, facts.stored.height), orientation);
            let part = part(width, height);
            target.denominator = part.denominator.max(1);
            target.region = region_of(&part, orientation, scaled(facts.stored, target.denominator));
        }
        let raster = caught(format, || match format {
            ImageFormat::Jpeg => jpeg::decode(payload, &mut target),
            ImageFormat::Png => png::decode(payload, &mut target),
            ImageFormat::Webp => webp::decode(payload, &mut target),
            ImageFormat::Gif => gif::decode(payload, &mut target),
            ImageFormat::Bmp => bmp::decode(payload, &mut target),
            ImageFormat::Tiff => tiff::decode(payload, &mut target),
            _ => Err(Error::unsupported(format, not_decoded(payload, facts.stored))),
        });
        let (notes, denominator, region) = (target.notes, target.denominator, target.region);
        let raster = raster?;

        let wanted = Wanted { channels: options.channels, background: options.background };
        let channels = color::convert(raster, &mut self.pixels, wanted);
        let pixels =
            self.pixels.get(..raster.pixels().saturating_mul(channels)).unwrap_or_default();
        let image =
            if region.is_some() { scaled(facts.stored, denominator) } else { raster.size.into() };
        let region = region.unwrap_or(image.whole());
        Ok(Stored {
            pixels,
            turned: &mut self.turned,
            channels,
            image,
            region,
            orientation,
            format,
            size: facts.stored,
            denominator,
            notes,
        })
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

/// What the header of an image states, which is within the limits.
///
/// # Errors
/// When the payload is not an image, its header is damaged, or it exceeds
/// a limit; see [`Error::cause`].
pub fn checked_facts(payload: &[u8], options: &DecodeOptions) -> Result<Facts> {
    let format = sniff(payload).ok_or_else(|| unrecognized(payload))?;
    let facts =
        page_facts(payload, options.page).map_err(|source| Error::from_header(format, source))?;
    check_limits(facts.stored, options.max_pixels)?;
    Ok(facts)
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

fn scaled(size: ImageSize, denominator: u32) -> Sides {
    ImageSize { width: size.width.div_ceil(denominator), height: size.height.div_ceil(denominator) }
        .into()
}

/// The pixels that are needed of an image of these sides as stored, if not all.
fn region_of(part: &Part, orientation: u8, stored: Sides) -> Option<Region> {
    let Part { columns, rows, .. } = part;
    if rows.is_none() && (columns.is_none() || orient::exchanges_sides(orientation)) {
        return None;
    }
    let seen = orient::region_as_seen(orientation, stored, stored.whole());
    let span = |wanted: &Option<Range<usize>>, len: usize| {
        let wanted = wanted.clone().unwrap_or(0..len);
        let start = wanted.start.min(len.saturating_sub(1));
        (start, wanted.end.clamp(start + 1, len.max(start + 1)) - start)
    };
    let ((top, height), (left, width)) = (span(rows, seen.height), span(columns, seen.width));
    Some(orient::region_as_stored(orientation, stored, Region { top, left, height, width }))
}
