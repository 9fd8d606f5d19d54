//! What a rule decides about an image.

use thiserror::Error;

/// Pillow, libjpeg and the decoders of this project stop here.
const MOST_SIDE: u64 = 65_535;

/// Height and width as the image is seen, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    pub height: u64,
    pub width: u64,
}

impl Sides {
    /// The sides of an image that can be decoded.
    pub(super) fn checked(height: i32, width: i32) -> Result<Self, Refusal> {
        match (u64::try_from(height), u64::try_from(width)) {
            (Ok(height @ 1..=MOST_SIDE), Ok(width @ 1..=MOST_SIDE)) => Ok(Self { height, width }),
            _ => Err(Refusal::Side),
        }
    }
}

/// The size that an image is resized to, and what it costs. No number is above `i32::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedImage {
    pub height: u64,
    pub width: u64,
    /// Tokens that take the place of the placeholder.
    pub tokens: u64,
    /// Patches or tiles that the vision encoder takes.
    pub patches: u64,
    pub rows: u64,
    pub cols: u64,
}

impl PlannedImage {
    /// All numbers, in the order of the fields.
    ///
    /// # Errors
    /// If one is too large for an `i32`, or there is no pixel.
    pub(super) fn numbers(&self) -> Result<[i32; 6], Refusal> {
        let Self { height, width, tokens, patches, rows, cols } = *self;
        if height == 0 || width == 0 {
            return Err(Refusal::NoTarget);
        }
        let mut numbers = [0; 6];
        let values = [height, width, tokens, patches, rows, cols];
        for (number, value) in numbers.iter_mut().zip(values) {
            *number = i32::try_from(value).map_err(|_| Refusal::TooLarge)?;
        }
        Ok(numbers)
    }
}

/// Why an image cannot be planned.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum Refusal {
    #[error("a side is not from 1 to {MOST_SIDE} pixels")]
    Side,
    #[error("the aspect ratio is {0:.1}, and at most 200 is allowed")]
    Ratio(f64),
    #[error("the target has a side of 0 pixels")]
    NoTarget,
    #[error("the target has too many pixels or tokens")]
    TooLarge,
}

/// A token of those that take the place of the placeholder, or text between two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Piece {
    Placeholder,
    Start,
    End,
    RowBreak,
    Overview,
    /// The tag of a tile. Both numbers count from 1.
    Tile {
        row: u64,
        col: u64,
    },
    Newline,
    BlankLine,
}
