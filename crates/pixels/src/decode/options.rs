//! What a caller asks of the decoder.
//!
//! Plain data, compared and copied freely. Invariant: every default gives what Pillow 13 gives for
//! a photograph.

use std::ops::Range;

/// The channels of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Channels {
    /// Three channels; an image that is gray keeps its single one, which costs a third and is
    /// replicated on delivery.
    #[default]
    Rgb,
    /// One channel: the luma of Pillow's mode `L`.
    Gray,
}

impl Channels {
    /// How many an output has.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Self::Rgb => 3,
            Self::Gray => 1,
        }
    }
}

/// How many pixels of a JPEG may be left out before the resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// All pixels are decoded: equal to Pillow.
    #[default]
    Exact,
    /// The decoded sides are at least twice the target's.
    Fast,
    /// The decoded sides are at least the target's, as `Image.draft` gives them.
    Draft,
}

/// What happens with an image whose pixels are partly invented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Damaged {
    /// It is an error.
    #[default]
    Error,
    /// It is returned as Pillow returns it.
    Accept,
}

/// What of a JPEG is decoded. Other formats are decoded whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// By which both sides are divided: 1, 2, 4 or 8.
    pub denominator: u32,
    /// The columns that are needed, as they will be seen and counted at that scale. `None` stands
    /// for all.
    pub columns: Option<Range<usize>>,
    /// The rows that are needed. Damage below the last of them, as stored, is not found. `None`
    /// stands for all.
    pub rows: Option<Range<usize>>,
}

impl Part {
    /// All pixels.
    pub const WHOLE: Self = Self { denominator: 1, columns: None, rows: None };
}

/// How a payload becomes pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions {
    pub channels: Channels,
    /// The color under transparent pixels; `None` drops alpha and shows whatever color is stored.
    pub background: Option<[u8; 3]>,
    /// Whether the image is turned as its EXIF or XMP says.
    pub orientation: bool,
    /// The largest product of the sides.
    pub max_pixels: u64,
    pub damaged: Damaged,
    /// The page of a TIFF; other formats have only page 0.
    pub page: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            channels: Channels::default(),
            background: Some([255; 3]),
            orientation: true,
            max_pixels: 89_478_485,
            damaged: Damaged::default(),
            page: 0,
        }
    }
}
