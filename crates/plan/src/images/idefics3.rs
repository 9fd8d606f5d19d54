//! Idefics3 and SmolVLM: a fixed longer side, cut into tiles, and the whole image as one more.
//! `resize`, `resize_for_vision_encoder` and `split_images` of transformers 5.23,
//! `idefics3/image_processing_idefics3.py`; its `get_number_of_image_patches` gives other numbers.

use super::planned::{Piece, PlannedImage, Sides};
use super::rounding::{as_f64, truncated};
use serde::Deserialize;
use std::num::NonZeroU16;

/// `MAX_IMAGE_SIZE`.
const MOST_LONGEST: u64 = 4096;

/// The most rows and columns with tags of tiles. No model has this many.
const MOST_TAGS: u64 = 64;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idefics3 {
    longest: NonZeroU16,
    tile: NonZeroU16,
    tokens_a_tile: u32,
    /// Without it, the whole image is the only tile.
    splitting: bool,
    /// Into how many tokens the tokenizer encodes an empty line.
    blank_line_tokens: u32,
}

impl Idefics3 {
    pub(super) fn plan(self, sides: Sides) -> PlannedImage {
        let tile = u64::from(self.tile.get());
        let (rows, cols) = if self.splitting { self.grid(sides) } else { (1, 1) };
        let of_tile = u64::from(self.tokens_a_tile);
        let (mut tokens, mut patches) = (of_tile + 3, 1);
        if rows * cols > 1 {
            tokens += rows * (cols * (of_tile + 2) + 1);
            tokens = tokens - 1 + u64::from(self.blank_line_tokens);
            patches += rows * cols;
        }
        PlannedImage { height: rows * tile, width: cols * tile, tokens, patches, rows, cols }
    }

    pub(super) fn tokens_a_tile(self) -> u64 {
        u64::from(self.tokens_a_tile).max(1)
    }

    fn grid(self, sides: Sides) -> (u64, u64) {
        let tile = u64::from(self.tile.get());
        let up = |side: u64| side.div_ceil(tile) * tile;
        let canvas = along_longer(self.scaled(sides), up, up);
        (canvas.height / tile, canvas.width / tile)
    }

    /// The size after the longer side is set to `longest`.
    fn scaled(self, sides: Sides) -> Sides {
        let longest = u64::from(self.longest.get());
        let even = |side: u64| side + side % 2;
        let scaled = along_longer(sides, |_| longest, even);
        if scaled.height.max(scaled.width) > MOST_LONGEST {
            along_longer(scaled, |_| MOST_LONGEST, |side| side)
        } else {
            scaled
        }
    }

    /// The overview is made from the pixels of the tiles.
    pub(super) fn stages(self, sides: Sides) -> Vec<Sides> {
        let PlannedImage { height, width, patches, .. } = self.plan(sides);
        let tiles = (patches > 1).then_some(Sides { height, width });
        std::iter::once(self.scaled(sides)).chain(tiles).collect()
    }

    pub(super) fn pieces(self) -> Vec<Piece> {
        let mut pieces = vec![Piece::Start, Piece::Overview, Piece::End];
        let longest = u64::from(self.longest.get()).min(MOST_LONGEST);
        let most = longest.div_ceil(self.tile.get().into()).min(MOST_TAGS);
        if self.splitting && most > 1 {
            pieces.extend([Piece::Newline, Piece::BlankLine]);
            let row = |row| (1..=most).map(move |col| Piece::Tile { row, col });
            pieces.extend((1..=most).flat_map(row));
        }
        pieces
    }

    pub(super) fn expansion(self, image: &PlannedImage) -> Vec<(Piece, u64)> {
        let of_tile = u64::from(self.tokens_a_tile);
        let part = |tag| [(Piece::Start, 1), (tag, 1), (Piece::Placeholder, of_tile)];
        let mut pieces = Vec::new();
        if image.rows * image.cols > 1 {
            for row in 1..=image.rows {
                pieces.extend((1..=image.cols).flat_map(|col| part(Piece::Tile { row, col })));
                let is_last = row == image.rows;
                pieces.push((if is_last { Piece::BlankLine } else { Piece::Newline }, 1));
            }
        }
        pieces.extend(part(Piece::Overview));
        pieces.push((Piece::End, 1));
        pieces
    }
}

/// Changes the longer side, scales the other one to the same ratio and changes that. No side
/// becomes zero.
fn along_longer(
    Sides { height, width }: Sides,
    longer: impl Fn(u64) -> u64,
    other: impl Fn(u64) -> u64,
) -> Sides {
    let ratio = as_f64(width) / as_f64(height);
    if width >= height {
        let width = longer(width);
        let height = other(truncated(as_f64(width) / ratio)).max(1);
        Sides { height, width }
    } else {
        let height = longer(height);
        let width = other(truncated(as_f64(height) * ratio)).max(1);
        Sides { height, width }
    }
}
