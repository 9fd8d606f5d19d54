//! Filters on decoded images. The pixels are those of Pillow's `convert("RGB")`, as the filters of
//! NeMo Curator see them: alpha is dropped, and the image is not turned.
//!
//! The invariant: an image that cannot be decoded completely is dropped. One whose format is not
//! decoded cannot be judged, and is kept.

use crate::StageFailure;
use crate::stage::user::{ImageJudge, JudgedImage, Verdict};
use serde::{Deserialize, Serialize};
use shardmill_images::{ImageFormat, unsupported_name};
use shardmill_pixels::decode::{DecodeOptions, Decoded, Decoder, Part};
use shardmill_pixels::{Error, Raster, Sides, laplacian_variance};
use std::cell::RefCell;

thread_local! {
    /// Keeps its buffers from image to image.
    static DECODER: RefCell<Decoder> = RefCell::new(Decoder::new());
}

/// Keeps images whose variance of the Laplacian is at least a threshold.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlurFilter {
    pub threshold: f64,
    pub drop_invalid_rows: bool,
}

/// Keeps images that can be decoded completely.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DamageFilter {
    pub drop_invalid_rows: bool,
}

impl ImageJudge for BlurFilter {
    fn name(&self) -> &str {
        "interleaved_blur_filter"
    }

    fn drops_invalid_rows(&self) -> bool {
        self.drop_invalid_rows
    }

    fn judge(
        &self,
        images: &[JudgedImage],
        _texts: &[Vec<String>],
    ) -> Result<Vec<Verdict>, StageFailure> {
        let is_sharp = |decoded: &Decoded<'_>| {
            let sides = Sides { height: decoded.height as usize, width: decoded.width as usize };
            Raster::new(decoded.pixels, sides, decoded.channels)
                .is_ok_and(|raster| laplacian_variance(raster) >= self.threshold)
        };
        Ok(images.iter().map(|image| judged(&image.bytes, is_sharp)).collect())
    }
}

impl ImageJudge for DamageFilter {
    fn name(&self) -> &str {
        "interleaved_damage_filter"
    }

    fn drops_invalid_rows(&self) -> bool {
        self.drop_invalid_rows
    }

    fn judge(
        &self,
        images: &[JudgedImage],
        _texts: &[Vec<String>],
    ) -> Result<Vec<Verdict>, StageFailure> {
        Ok(images.iter().map(|image| judged(&image.bytes, |_| true)).collect())
    }
}

/// The verdict on an image; `is_kept` is asked about its pixels if it is whole.
fn judged(payload: &[u8], is_kept: impl FnOnce(&Decoded<'_>) -> bool) -> Verdict {
    // A curated image may be larger than a loader would take: `max_decoded_bytes` was applied when
    // it was fetched.
    let options = DecodeOptions {
        background: None,
        orientation: false,
        max_pixels: u64::MAX,
        ..DecodeOptions::default()
    };
    if let Some(format) = unsupported_name(payload) {
        return Verdict::Unjudged(format);
    }
    DECODER.with_borrow_mut(|decoder| match decoder.decode(payload, &options, |_, _| Part::WHOLE) {
        Ok(decoded) => is_kept(&decoded).into(),
        Err(Error::Unsupported { format, .. }) => Verdict::Unjudged(variant_of(format)),
        Err(_) => Verdict::Drop,
    })
}

/// Names what is not decoded of a format, such as JPEG of 12 bits and TIFF with CCITT group 3.
fn variant_of(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Jpeg => "a variant of JPEG",
        ImageFormat::Tiff => "a variant of TIFF",
        ImageFormat::Webp => "a variant of WebP",
        ImageFormat::Bmp => "a variant of BMP",
        _ => "their format",
    }
}
