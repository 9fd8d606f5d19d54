//! InternVL: tiles of one size, in the grid whose ratio is nearest to that of the image.
//! `get_optimal_tiled_canvas` of transformers 5.23, `got_ocr2/image_processing_got_ocr2.py`.

use super::planned::{Piece, PlannedImage, Sides};
use super::rounding::as_f64;
use serde::Deserialize;
use std::num::NonZeroU16;

#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Options")]
pub struct Tiles {
    options: Options,
    /// Columns and rows, by area and then by columns.
    grids: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    size: NonZeroU16,
    min_tiles: NonZeroU16,
    max_tiles: NonZeroU16,
    tokens_a_tile: u32,
    thumbnail: bool,
}

impl From<Options> for Tiles {
    fn from(options: Options) -> Self {
        let areas = u64::from(options.min_tiles.get())..=u64::from(options.max_tiles.get());
        let of_area = |area: u64| {
            (1..=area)
                .filter(move |cols| area.is_multiple_of(*cols))
                .map(move |cols| (cols, area / cols))
        };
        Self { options, grids: areas.flat_map(of_area).collect() }
    }
}

impl Tiles {
    pub(super) fn tokens_a_tile(&self) -> u64 {
        u64::from(self.options.tokens_a_tile).max(1)
    }

    pub(super) fn plan(&self, sides: Sides) -> PlannedImage {
        let size = u64::from(self.options.size.get());
        let ratio = as_f64(sides.width) / as_f64(sides.height);
        let half_tile = 0.5 * as_f64(size) * as_f64(size);
        let area = as_f64(sides.width * sides.height);
        let (mut best, mut least) = ((1, 1), f64::INFINITY);
        for &(cols, rows) in &self.grids {
            let difference = (ratio - as_f64(cols) / as_f64(rows)).abs();
            #[expect(clippy::float_cmp, reason = "a tie, as in the source")]
            let is_tie = difference == least;
            if difference < least {
                (best, least) = ((cols, rows), difference);
            } else if is_tie && area > half_tile * as_f64(cols) * as_f64(rows) {
                best = (cols, rows);
            }
        }
        let (cols, rows) = best;
        let patches = cols * rows + u64::from(self.options.thumbnail && cols * rows > 1);
        PlannedImage {
            height: rows * size,
            width: cols * size,
            tokens: patches * u64::from(self.options.tokens_a_tile) + 2,
            patches,
            rows,
            cols,
        }
    }

    pub(super) fn expansion(image: &PlannedImage) -> Vec<(Piece, u64)> {
        vec![(Piece::Start, 1), (Piece::Placeholder, image.tokens - 2), (Piece::End, 1)]
    }
}
