//! zune-jpeg, for users who want no C code on hostile bytes.
//!
//! Other pixels than libjpeg's, never scaled. Invariant: the output has the size of the header.

use shardmill_images::ImageFormat;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::decode::codec::Target;
use crate::decode::jpeg::header::{Header, MAX_SCANS};
use crate::decode::options::Damaged;
use crate::decode::raster::{Layout, Raster, reserve};
use crate::error::{Error, Result};

const JPEG: ImageFormat = ImageFormat::Jpeg;
const MAX_SIDE: usize = 65_535;

pub(crate) fn decode(payload: &[u8], header: &Header, target: &mut Target<'_>) -> Result<Raster> {
    // The decoder puts the blocks of these in wrong places, and does not say so.
    let is_split = !header.has_one_scan && header.unit.is_some_and(|unit| unit.height > 8);
    let widths = || header.factors.iter().map(|factors| factors >> 4);
    if is_split || widths().max() != widths().next() {
        return Err(Error::unsupported(JPEG, "order of components"));
    }
    let (layout, color) = match header.components {
        1 => (Layout::Gray, ColorSpace::Luma),
        4 => (Layout::Cmyk, ColorSpace::CMYK),
        _ => (Layout::Rgb, ColorSpace::RGB),
    };
    let options = DecoderOptions::default()
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE)
        .jpeg_set_max_scans(MAX_SCANS.into())
        .set_strict_mode(target.damaged == Damaged::Error)
        .jpeg_set_out_colorspace(color);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(payload), options);
    decoder.decode_headers().map_err(failure)?;
    let raster = Raster { size: header.size, layout };
    if decoder.output_buffer_size() != Some(raster.len()) {
        return Err(Error::unsupported(JPEG, "color model"));
    }
    let pixels = reserve(target.pixels, raster.len(), JPEG)?;
    // The decoder leaves rows alone that a file lacks, and they must not show an earlier image.
    pixels.fill(0);
    decoder.decode_into(pixels).map_err(failure)?;
    if layout == Layout::Cmyk {
        target.pixels.iter_mut().take(raster.len()).for_each(|sample| *sample = !*sample);
    }
    (target.denominator, target.region) = (1, None);
    Ok(raster)
}

fn failure(error: DecodeErrors) -> Error {
    match error {
        DecodeErrors::Unsupported(what) => Error::unsupported(JPEG, format!("{what:?}")),
        DecodeErrors::Format(what) if what.starts_with("Unimplemented") || what.contains("not a power of two") => Error::unsupported(JPEG, what),
        DecodeErrors::ExhaustedData => Error::truncated(JPEG, "data ends"),
        DecodeErrors::LargeDimensions(side) => Error::limit(JPEG, format!("side {side}")),
        error => Error::damaged(JPEG, format!("{error:?}")),
    }
}
