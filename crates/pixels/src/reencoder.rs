//! Images in another codec, no larger than asked for, and upright.
//!
//! A [`Reencoder`] belongs to one thread, and keeps its buffers from image to image. Invariant: an
//! image that already has the codec, the size and the orientation is not touched, so a second run
//! changes nothing. A PNG that stays a PNG keeps its alpha.

use shardmill_images::{ImageFormat, page_facts, sniff};

use crate::alpha::{alpha_of, has_alpha, unweight};
use crate::decode::{DecodeOptions, Decoder, Part};
use crate::encode::{Codec, png_with_alpha};
use crate::error::{Error, Result};
use crate::geometry::contained;
use crate::raster::{Raster, Sides};
use crate::resize::{Filter, Resizer};

/// What an image becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reencode {
    pub codec: Codec,
    /// The longer side is at most this; images are never enlarged.
    pub max_side: Option<usize>,
}

/// Decodes, resizes and encodes one image after another.
#[derive(Debug, Default)]
pub struct Reencoder {
    decoder: Decoder,
    resizer: Resizer,
    alpha_resizer: Resizer,
}

impl Reencoder {
    /// The image as `wanted`, or `None` if its header says that it already is;
    /// of a TIFF its first page.
    ///
    /// # Errors
    /// As [`Decoder::decode`], and when the codec cannot store an image of this size.
    pub fn reencode(&mut self, payload: &[u8], wanted: Reencode) -> Result<Option<Vec<u8>>> {
        if is_kept(payload, wanted)? {
            return Ok(None);
        }
        if wanted.codec == Codec::Png && has_alpha(payload) {
            return self.with_alpha(payload, wanted.max_side).map(Some);
        }
        // A curated image may be larger than a loader would take; memory is bounded by one image
        // per thread.
        let options = DecodeOptions { max_pixels: u64::MAX, ..DecodeOptions::default() };
        let decoded = self.decoder.decode(payload, &options, |_, _| Part::WHOLE)?;
        let sides = Sides { height: decoded.height as usize, width: decoded.width as usize };
        let image = Raster::new(decoded.pixels, sides, decoded.channels)?;
        let target = target(sides, wanted.max_side)?;
        let image = self.resizer.resize(image, target, target.whole(), Filter::Lanczos)?;
        wanted.codec.encode(image).map(Some)
    }

    /// A PNG with alpha, turned and resized as Pillow does: colors are weighted by alpha while they
    /// are resized.
    fn with_alpha(&mut self, payload: &[u8], max_side: Option<usize>) -> Result<Vec<u8>> {
        let (sides, channels, white) = self.on(payload, Some([255; 3]))?;
        let (.., black) = self.on(payload, Some([0; 3]))?;
        let alpha = alpha_of(&white, &black, channels);
        let target = target(sides, max_side)?;
        let alpha = Raster::new(&alpha, sides, 1)?;
        if target == sides {
            let (.., stored) = self.on(payload, None)?;
            return png_with_alpha(Raster::new(&stored, sides, channels)?, &alpha.packed());
        }
        let alpha = self.alpha_resizer.resize(alpha, target, target.whole(), Filter::Lanczos)?;
        let colors = self.resizer.resize(
            Raster::new(&black, sides, channels)?,
            target,
            target.whole(),
            Filter::Lanczos,
        )?;
        let mut colors = colors.packed().into_owned();
        unweight(&mut colors, channels, &alpha.packed());
        png_with_alpha(Raster::new(&colors, target, channels)?, &alpha.packed())
    }

    /// Sides, channels and pixels of the image on a background.
    fn on(
        &mut self,
        payload: &[u8],
        background: Option<[u8; 3]>,
    ) -> Result<(Sides, usize, Vec<u8>)> {
        let options =
            DecodeOptions { background, max_pixels: u64::MAX, ..DecodeOptions::default() };
        let decoded = self.decoder.decode(payload, &options, |_, _| Part::WHOLE)?;
        let sides = Sides { height: decoded.height as usize, width: decoded.width as usize };
        Ok((sides, decoded.channels, decoded.pixels.to_vec()))
    }
}

/// Whether the image has the codec, is upright, and is not too large.
fn is_kept(payload: &[u8], wanted: Reencode) -> Result<bool> {
    let format = wanted.codec.format();
    if sniff(payload) != Some(format) || format == ImageFormat::Tiff {
        return Ok(false);
    }
    let facts = page_facts(payload, 0).map_err(|source| Error::from_header(format, source))?;
    let longest = facts.stored.width.max(facts.stored.height) as usize;
    Ok(facts.orientation == 1 && wanted.max_side.is_none_or(|most| longest <= most))
}

/// `ImageOps.contain`, but never larger.
fn target(sides: Sides, max_side: Option<usize>) -> Result<Sides> {
    match max_side {
        Some(most) if sides.height.max(sides.width) > most => {
            Ok(contained(sides, Sides { height: most, width: most }.checked()?))
        }
        _ => Ok(sides),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: usize, height: usize, codec: Codec) -> Vec<u8> {
        let pixels = crate::test_pixels(width * height * 3);
        codec.encode(Raster::new(&pixels, Sides { height, width }, 3).unwrap()).unwrap()
    }

    #[test]
    fn an_image_is_kept_when_nothing_changes_and_never_enlarged() {
        let jpeg = Codec::Jpeg { quality: 80 };
        let mut reencoder = Reencoder::default();
        let mut changed = |payload: &[u8], codec, max_side| {
            reencoder.reencode(payload, Reencode { codec, max_side }).unwrap()
        };
        let small = image(20, 10, jpeg);
        assert_eq!(changed(&small, jpeg, None), None);
        assert_eq!(changed(&small, jpeg, Some(20)), None);
        let png = changed(&small, Codec::Png, Some(500)).unwrap();
        let facts = page_facts(&png, 0).unwrap();
        assert_eq!((facts.stored.width, facts.stored.height), (20, 10));
        let smaller = changed(&small, jpeg, Some(7)).unwrap();
        let facts = page_facts(&smaller, 0).unwrap();
        assert_eq!((facts.stored.width, facts.stored.height), (7, 4));
        assert_eq!(changed(&smaller, jpeg, Some(7)), None);
    }

    #[test]
    fn what_is_not_an_image_is_an_error() {
        let wanted = Reencode { codec: Codec::Png, max_side: None };
        assert!(matches!(
            Reencoder::default().reencode(b"no image", wanted),
            Err(Error::UnknownFormat { .. })
        ));
    }
}
