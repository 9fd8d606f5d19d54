//! SigLIP 2 with native aspect ratio: as many patches as a limit allows.
//! `get_image_size_for_max_num_patches` of transformers 5.23,
//! `siglip2/image_processing_siglip2.py`.

use super::planned::{PlannedImage, Sides};
use super::rounding::{as_f64, truncated};
use serde::Deserialize;
use std::num::{NonZeroU16, NonZeroU32};

const EPSILON: f64 = 1e-5;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Siglip2 {
    patch_size: NonZeroU16,
    max_patches: NonZeroU32,
    /// Of each image; by default, those of its patches.
    tokens: Option<u32>,
}

impl Siglip2 {
    pub(super) fn most_patches(self, tokens: u64) -> u64 {
        let of_image = u64::from(self.max_patches.get());
        self.tokens
            .map_or(tokens, |each| (tokens / u64::from(each.max(1))).saturating_mul(of_image))
    }

    pub(super) fn plan(self, sides: Sides) -> PlannedImage {
        let patch = u64::from(self.patch_size.get());
        let max_patches = as_f64(u64::from(self.max_patches.get()));
        let grid = |scale: f64| {
            let cells = |side: u64| truncated((as_f64(side) * scale / as_f64(patch)).ceil()).max(1);
            (cells(sides.height), cells(sides.width))
        };
        let (mut low, mut high) = (EPSILON / 10.0, 100.0);
        while high - low >= EPSILON {
            let scale = (low + high) / 2.0;
            let (rows, cols) = grid(scale);
            if as_f64(rows) * as_f64(cols) <= max_patches {
                low = scale;
            } else {
                high = scale;
            }
        }
        let (rows, cols) = grid(low);
        let patches = rows * cols;
        PlannedImage {
            height: rows * patch,
            width: cols * patch,
            tokens: self.tokens.map_or(patches, u64::from),
            patches,
            rows,
            cols,
        }
    }
}
