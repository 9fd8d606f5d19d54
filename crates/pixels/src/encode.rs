//! Pixels to JPEG and PNG.
//!
//! Invariant: a JPEG has the bytes that Pillow's `save(format="JPEG", quality=…)` writes for the
//! same pixels, and a PNG contains the pixels.

use png::{BitDepth, ColorType};
use shardmill_images::ImageFormat;
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use crate::caught::caught;
use crate::error::{Error, Result};
use crate::raster::{Raster, Sides};

/// How pixels are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Baseline, chroma at half of both sides; `quality` is from 1 to 100.
    Jpeg {
        quality: u8,
    },
    Png,
}

impl Codec {
    /// The format that is written.
    #[must_use]
    pub fn format(self) -> ImageFormat {
        match self {
            Self::Jpeg { .. } => ImageFormat::Jpeg,
            Self::Png => ImageFormat::Png,
        }
    }

    /// The encoded image.
    pub(crate) fn encode(self, image: Raster<'_>) -> Result<Vec<u8>> {
        caught(self.format(), || match self {
            Self::Jpeg { quality } => jpeg(image, quality),
            Self::Png => png(image),
        })
    }
}

fn jpeg(image: Raster<'_>, quality: u8) -> Result<Vec<u8>> {
    let failed = |error: turbojpeg::Error| Error::encoder(ImageFormat::Jpeg, error);
    let mut compressor = Compressor::new().map_err(failed)?;
    compressor.set_quality(quality.into()).map_err(failed)?;
    let (format, subsampling) = if image.channels() == 1 {
        (PixelFormat::GRAY, Subsamp::Gray)
    } else {
        (PixelFormat::RGB, Subsamp::Sub2x2)
    };
    compressor.set_subsamp(subsampling).map_err(failed)?;
    let (sides, pixels) = (image.sides(), image.packed());
    let image = Image {
        pixels: &*pixels,
        width: sides.width,
        pitch: image.row_len(),
        height: sides.height,
        format,
    };
    compressor.compress_to_vec(image).map_err(failed)
}

fn png(image: Raster<'_>) -> Result<Vec<u8>> {
    let color = if image.channels() == 1 { ColorType::Grayscale } else { ColorType::Rgb };
    png_of(image.sides(), color, &image.packed())
}

/// A PNG of colors with their alpha, one byte per pixel.
pub(crate) fn png_with_alpha(colors: Raster<'_>, alpha: &[u8]) -> Result<Vec<u8>> {
    let color = if colors.channels() == 1 { ColorType::GrayscaleAlpha } else { ColorType::Rgba };
    let packed = colors.packed();
    let pixels = packed.chunks_exact(colors.channels().max(1)).zip(alpha);
    let samples: Vec<u8> = pixels
        .flat_map(|(pixel, alpha)| pixel.iter().chain(std::iter::once(alpha)).copied())
        .collect();
    caught(ImageFormat::Png, || png_of(colors.sides(), color, &samples))
}

fn png_of(sides: Sides, color: ColorType, samples: &[u8]) -> Result<Vec<u8>> {
    let failed = |error: png::EncodingError| Error::encoder(ImageFormat::Png, error);
    let side =
        |side: usize| u32::try_from(side).map_err(|error| Error::encoder(ImageFormat::Png, error));
    let mut payload = Vec::new();
    let mut encoder = png::Encoder::new(&mut payload, side(sides.width)?, side(sides.height)?);
    encoder.set_color(color);
    encoder.set_depth(BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(samples).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{DecodeOptions, Decoder, Part};
    use crate::raster::Region;

    #[test]
    fn png_contains_the_pixels_of_a_part_of_an_image() {
        for channels in [1, 3] {
            let pixels = crate::test_pixels(9 * 11 * channels);
            let whole = Raster::new(&pixels, Sides { height: 9, width: 11 }, channels).unwrap();
            let part = whole.crop(Region { top: 2, left: 3, height: 5, width: 7 }).unwrap();
            let payload = Codec::Png.encode(part).unwrap();
            let mut decoder = Decoder::new();
            let decoded =
                decoder.decode(&payload, &DecodeOptions::default(), |_, _| Part::WHOLE).unwrap();
            assert_eq!((decoded.width, decoded.height, decoded.channels), (7, 5, channels));
            assert_eq!(decoded.pixels, &*part.packed());
        }
    }

    #[test]
    fn a_side_that_jpeg_cannot_store_is_an_error() {
        let pixels = vec![0; 65_535];
        let image = Raster::new(&pixels, Sides { height: 1, width: 65_535 }, 1).unwrap();
        assert!(matches!(Codec::Jpeg { quality: 90 }.encode(image), Err(Error::Encoder { .. })));
        assert!(Codec::Png.encode(image).is_ok());
    }
}
