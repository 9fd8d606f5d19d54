//! Pixtral and Mistral 3: at most a length, up to a multiple of the size of a merged patch, and a
//! break after each row. `get_resize_output_image_size` of transformers 5.23,
//! `pixtral/image_processing_pixtral.py`.

use super::planned::{Piece, PlannedImage, Sides};
use super::rounding::{as_f64, truncated};
use serde::Deserialize;
use std::num::NonZeroU16;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pixtral {
    patch_size: NonZeroU16,
    longest: NonZeroU16,
    merge_size: NonZeroU16,
}

impl Pixtral {
    /// Side of a patch in pixels.
    pub fn patch_side(&self) -> u64 {
        self.patch_size.get().into()
    }

    pub(super) fn patches_a_token(self) -> u64 {
        u64::from(self.merge_size.get()).pow(2)
    }

    pub(super) fn plan(self, sides: Sides) -> PlannedImage {
        let merge = u64::from(self.merge_size.get());
        let cell = u64::from(self.patch_size.get()) * merge;
        let longest = as_f64(u64::from(self.longest.get()));
        let ratio = (as_f64(sides.height) / longest).max(as_f64(sides.width) / longest);
        let cells = |side: u64| {
            let side = if ratio > 1.0 { truncated((as_f64(side) / ratio).floor()) } else { side };
            side.div_ceil(cell)
        };
        let (rows, cols) = (cells(sides.height), cells(sides.width));
        PlannedImage {
            height: rows * cell,
            width: cols * cell,
            tokens: (cols + 1) * rows,
            patches: rows * cols * merge * merge,
            rows,
            cols,
        }
    }

    pub(super) fn expansion(image: &PlannedImage) -> Vec<(Piece, u64)> {
        let row = |row| {
            let last = if row == image.rows { Piece::End } else { Piece::RowBreak };
            [(Piece::Placeholder, image.cols), (last, 1)]
        };
        (1..=image.rows).flat_map(row).collect()
    }
}
