//! PNG: all depths and color types, the default image of an animation.
//!
//! The crate decodes to samples as stored; they are brought to eight bits here, as Pillow does.
//! Invariant: memory is taken only for as many bytes as the payload can inflate to.

use std::borrow::Cow;
use std::io::{Cursor, ErrorKind};

use png::{BitDepth, ColorType, DecodeOptions, DecodingError, Info, Limits, Transformations};
use shardmill_images::{ImageFormat, ImageSize};

use crate::decode::codec::Target;
use crate::decode::options::Damaged;
use crate::decode::palette::{Palette, spread, unpacked};
use crate::decode::raster::{Layout, Raster, reserve};
use crate::error::{Error, Result};

const PNG: ImageFormat = ImageFormat::Png;
/// Deflate makes at most 258 bytes of two bits.
const MAX_INFLATION: usize = 1032;

pub(crate) fn decode(payload: &[u8], target: &mut Target<'_>) -> Result<Raster> {
    let payload =
        if target.damaged == Damaged::Accept { ended(payload) } else { Cow::Borrowed(payload) };
    target.notes.accepted_damage |= matches!(payload, Cow::Owned(_));
    let payload = &*payload;
    let mut options = DecodeOptions::default();
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    // Pillow checks the sum of the inflated rows, and not those of the chunks that hold them.
    options.set_ignore_adler32(false);
    options.set_ignore_crc(target.damaged == Damaged::Accept);
    // Such as that of the transparent colors of a palette.
    options.set_skip_ancillary_crc_failures(target.damaged == Damaged::Accept);
    let mut decoder = png::Decoder::new_with_options(Cursor::new(payload), options);
    decoder.set_limits(Limits { bytes: target.memory() });
    decoder.set_transformations(Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(failure)?;
    let info = reader.info();
    let size = ImageSize { width: info.width, height: info.height };
    target.check(size)?;
    let stored_len = reader.output_buffer_size().ok_or_else(|| Error::limit(PNG, "row"))?;
    if stored_len / MAX_INFLATION > payload.len() {
        return Err(Error::truncated(PNG, "fewer bytes than rows need"));
    }
    let (color, depth) = (info.color_type, info.bit_depth);
    let direct = match (color, depth, info.trns.is_some() && target.keeps_alpha) {
        (ColorType::Grayscale, BitDepth::Eight, false) => Some(Layout::Gray),
        (ColorType::Rgb, BitDepth::Eight, false) => Some(Layout::Rgb),
        (ColorType::GrayscaleAlpha, BitDepth::Eight, _) => Some(Layout::GrayAlpha),
        (ColorType::Rgba, BitDepth::Eight, _) => Some(Layout::Rgba),
        _ => None,
    };
    if let Some(layout) = direct {
        reader.next_frame(reserve(target.pixels, stored_len, PNG)?).map_err(failure)?;
        return Ok(Raster { size, layout });
    }
    let is_interlaced = info.interlaced;
    let stored = reserve(target.scratch, stored_len, PNG)?;
    if is_interlaced {
        // The crate adds bits of later passes to what is there.
        stored.fill(0);
    }
    reader.next_frame(stored).map_err(failure)?;
    let rows = Rows { size, stored, info: reader.info() };
    let pixels = &mut *target.pixels;
    match (color, depth) {
        (ColorType::Indexed, _) => rows.indexed(target.keeps_alpha, pixels),
        (ColorType::Grayscale, BitDepth::Sixteen)
        | (ColorType::GrayscaleAlpha | ColorType::Rgb | ColorType::Rgba, _) => {
            rows.deep(target.keeps_alpha, pixels)
        }
        (ColorType::Grayscale, _) => rows.gray(target.keeps_alpha, pixels),
    }
}

/// The payload with the chunk that ends a PNG, which a truncated file lacks. Decoding its rows
/// shows whether they are complete.
fn ended(payload: &[u8]) -> Cow<'_, [u8]> {
    const END: &[u8] = b"\0\0\0\0IEND\xae\x42\x60\x82";
    let mut at = 8;
    while let Some(&[l3, l2, l1, l0, a, b, c, d]) =
        payload.get(at..).and_then(|rest| rest.first_chunk())
    {
        let (len, name) = (u32::from_be_bytes([l3, l2, l1, l0]) as usize, [a, b, c, d]);
        let Some(next) = at
            .checked_add(12)
            .and_then(|end| end.checked_add(len))
            .filter(|next| *next <= payload.len())
        else {
            let before = payload.get(..at).unwrap_or_default();
            if &name != b"IDAT" {
                return [before, END].concat().into();
            }
            // The available part of the pixels, whose checksum is not verified.
            let pixels = payload.get(at + 8..).unwrap_or_default();
            let pixels = pixels.get(..len).unwrap_or(pixels);
            let stated = u32::try_from(pixels.len()).unwrap_or(u32::MAX).to_be_bytes();
            return [before, &stated[..], b"IDAT", pixels, &[0; 4], END].concat().into();
        };
        if &name == b"IEND" {
            return payload.into();
        }
        at = next;
    }
    [payload.get(..at).unwrap_or(payload), END].concat().into()
}

/// The samples as stored.
struct Rows<'a> {
    size: ImageSize,
    stored: &'a [u8],
    info: &'a Info<'static>,
}

impl Rows<'_> {
    fn depth(&self) -> u8 {
        self.info.bit_depth as u8
    }

    fn packed_rows(&self) -> impl Iterator<Item = &[u8]> {
        let bits = (self.size.width as usize).saturating_mul(usize::from(self.depth()));
        self.stored.chunks_exact(bits.div_ceil(8).max(1))
    }

    /// Writes what `palette` says for samples of up to eight bits.
    fn expand(&self, palette: &Palette, keeps_alpha: bool, pixels: &mut Vec<u8>) -> Result<Raster> {
        let raster = Raster { size: self.size, layout: palette.layout(keeps_alpha) };
        let width = self.size.width as usize;
        let pixels = reserve(pixels, raster.len(), PNG)?;
        for (row, to) in self
            .packed_rows()
            .zip(pixels.chunks_exact_mut(width.saturating_mul(raster.layout.samples()).max(1)))
        {
            palette.expand(unpacked(row, self.depth()).take(width), raster.layout, to);
        }
        Ok(raster)
    }

    fn indexed(&self, keeps_alpha: bool, pixels: &mut Vec<u8>) -> Result<Raster> {
        let colors = self.info.palette.as_deref().unwrap_or_default();
        let mut palette = Palette::stated(colors.as_chunks().0.iter().copied());
        for (index, alpha) in (0..=255).zip(self.info.trns.as_deref().unwrap_or_default()) {
            palette.set_alpha(index, *alpha);
        }
        self.expand(&palette, keeps_alpha, pixels)
    }

    fn gray(&self, keeps_alpha: bool, pixels: &mut Vec<u8>) -> Result<Raster> {
        let depth = self.depth();
        let mut palette =
            Palette::stated((0..=255_u8).map(|value| [value.wrapping_mul(spread(depth)); 3]));
        // The transparent sample is stated as it is stored, but Pillow compares it with the spread
        // samples of two and four bits.
        if let Some(stated) = self.info.trns.as_deref().and_then(|trns| trns.first()) {
            let stated = if depth == 1 { stated.min(&1) * 255 } else { *stated };
            (0..=255_u8)
                .filter(|value| value.checked_mul(spread(depth)) == Some(stated))
                .for_each(|value| palette.set_alpha(value, 0));
        }
        self.expand(&palette, keeps_alpha, pixels)
    }

    /// Sixteen bits, and eight bits with a transparent color.
    fn deep(&self, keeps_alpha: bool, pixels: &mut Vec<u8>) -> Result<Raster> {
        let trns = self.info.trns.as_deref().filter(|_| keeps_alpha);
        let bytes = usize::from(self.depth() / 8);
        let (layout, samples) = match (self.info.color_type, trns) {
            (ColorType::Grayscale, None) => (Layout::Gray, 1),
            (ColorType::Grayscale, Some(_)) => (Layout::GrayAlpha, 1),
            (ColorType::GrayscaleAlpha, _) => (Layout::GrayAlpha, 2),
            (ColorType::Rgb, None) => (Layout::Rgb, 3),
            (ColorType::Rgb, Some(_)) => (Layout::Rgba, 3),
            (ColorType::Rgba | ColorType::Indexed, _) => (Layout::Rgba, 4),
        };
        let raster = Raster { size: self.size, layout };
        let to = reserve(pixels, raster.len(), PNG)?;
        for (pixel, to) in
            self.stored.chunks_exact(samples * bytes).zip(to.chunks_exact_mut(layout.samples()))
        {
            to.iter_mut().zip(pixel.iter().step_by(bytes)).for_each(|(to, high)| *to = *high);
            if let (Some(transparent), Some(alpha)) = (trns, to.last_mut()) {
                *alpha = if transparent == pixel { 0 } else { 255 };
            }
        }
        Ok(raster)
    }
}

fn failure(error: DecodingError) -> Error {
    match &error {
        DecodingError::IoError(io) if io.kind() == ErrorKind::UnexpectedEof => {
            Error::truncated(PNG, error)
        }
        DecodingError::LimitsExceeded => Error::limit(PNG, error),
        _ => Error::damaged(PNG, error),
    }
}
