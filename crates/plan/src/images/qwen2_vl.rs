//! Qwen2-VL, 2.5 and 3: a multiple of the size of a merged patch, within limits of the area.
//! `smart_resize` of transformers 5.23, `qwen2_vl/image_processing_qwen2_vl.py`.

use super::planned::{PlannedImage, Refusal, Sides};
use super::rounding::{as_f64, truncated};
use serde::Deserialize;
use std::num::{NonZeroU16, NonZeroU32};

const MOST_RATIO: f64 = 200.0;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Qwen2Vl {
    patch_size: NonZeroU16,
    merge_size: NonZeroU16,
    min_pixels: NonZeroU32,
    max_pixels: NonZeroU32,
}

impl Qwen2Vl {
    pub(super) fn patches_a_token(self) -> u64 {
        u64::from(self.merge_size.get()).pow(2)
    }

    /// No image has more tokens or patches.
    pub(super) fn most(self) -> (u64, u64) {
        let area = u64::from(self.patch_size.get()).pow(2) * self.patches_a_token();
        let [min, max] =
            [self.min_pixels, self.max_pixels].map(|most| u64::from(most.get()) / area);
        // A small image is enlarged, and its sides are rounded up: from a·b tokens to less than
        // (a + 1)·(b + 1), with a + b less than 16 times their root, for a ratio of at most 200. A
        // large one has a token in the shorter side, however narrow that is.
        let enlarged = min + 1 + 16 * (min.isqrt() + 1) + 1;
        let tokens = max.max(enlarged).max(truncated(MOST_RATIO));
        (tokens, tokens.saturating_mul(self.patches_a_token()))
    }

    pub(super) fn plan(self, sides: Sides) -> Result<PlannedImage, Refusal> {
        let Sides { height, width } = sides;
        let ratio = as_f64(height.max(width)) / as_f64(height.min(width));
        if ratio > MOST_RATIO {
            return Err(Refusal::Ratio(ratio));
        }
        let (patch, merge) = (u64::from(self.patch_size.get()), u64::from(self.merge_size.get()));
        let factor = patch * merge;
        let times = |count: f64| truncated(count).saturating_mul(factor);
        let (min, max) = (u64::from(self.min_pixels.get()), u64::from(self.max_pixels.get()));
        let target = |side: &dyn Fn(f64) -> u64| (side(as_f64(height)), side(as_f64(width)));
        let rounded = target(&|side| times((side / as_f64(factor)).round_ties_even()));
        let area = rounded.0.saturating_mul(rounded.1);
        let (height, width) = if area > max {
            let beta = (as_f64(height * width) / as_f64(max)).sqrt();
            target(&|side| times((side / beta / as_f64(factor)).floor()).max(factor))
        } else if area < min {
            let beta = (as_f64(min) / as_f64(height * width)).sqrt();
            target(&|side| times((side * beta / as_f64(factor)).ceil()))
        } else {
            rounded
        };
        let (rows, cols) = (height / patch, width / patch);
        let patches = rows.saturating_mul(cols);
        let tokens = patches / (merge * merge);
        Ok(PlannedImage { height, width, tokens, patches, rows, cols })
    }
}
