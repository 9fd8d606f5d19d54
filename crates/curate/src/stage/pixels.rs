//! Filters on decoded images. The pixels are those of Pillow's `convert("RGB")`, as the filters of NeMo Curator see them: alpha is dropped, and the image
//! is not turned.
//!
//! The invariant: an image that cannot be decoded, or only in part, is dropped.

use crate::error::StageFailure;
use crate::stage::user::{ImageJudge, JudgedImage};
use serde::{Deserialize, Serialize};
use shardmill_pixels::decode::{DecodeOptions, Decoded, Decoder, Part};
use shardmill_pixels::{Raster, Sides, laplacian_variance};
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

    fn keep(&self, images: &[JudgedImage], _texts: &[Vec<String>]) -> Result<Vec<bool>, StageFailure> {
        let is_sharp = |decoded: &Decoded<'_>| {
            let sides = Sides { height: decoded.height as usize, width: decoded.width as usize };
            Raster::new(decoded.pixels, sides, decoded.channels).is_ok_and(|raster| laplacian_variance(raster) >= self.threshold)
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

    fn keep(&self, images: &[JudgedImage], _texts: &[Vec<String>]) -> Result<Vec<bool>, StageFailure> {
        Ok(images.iter().map(|image| judged(&image.bytes, |_| true)).collect())
    }
}

/// The verdict on the pixels of an image; false if it cannot be decoded.
fn judged(payload: &[u8], verdict: impl FnOnce(&Decoded<'_>) -> bool) -> bool {
    // A curated image may be larger than a loader would take; memory is bounded by one image per thread.
    let options = DecodeOptions { background: None, orientation: false, max_pixels: u64::MAX, ..DecodeOptions::default() };
    DECODER.with_borrow_mut(|decoder| decoder.decode(payload, &options, |_, _| Part::WHOLE).is_ok_and(|decoded| verdict(&decoded)))
}
