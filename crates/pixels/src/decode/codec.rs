//! What a codec is given, beside the payload.
//!
//! One [`Target`] a call; codecs write into its buffer and count in its notes. Invariant: a codec
//! calls [`Target::check`] before it takes memory.

use shardmill_images::ImageSize;

use crate::decode::options::{Damaged, DecodeOptions};
use crate::error::{Error, Result};
use crate::raster::Region;

/// The longest side that any supported format is decoded at.
const MAX_SIDE: u32 = 65_535;

/// Things that were accepted, and are worth counting.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Notes {
    /// Stray bytes between segments, unknown revisions, unknown color transforms.
    pub oddities: usize,
    /// Some pixels are invented, which [`Damaged::Accept`] allows.
    pub accepted_damage: bool,
}

/// Buffers that live longer than an image.
#[derive(Debug)]
pub(crate) struct Buffers<'a> {
    pub(crate) pixels: &'a mut Vec<u8>,
    pub(crate) scratch: &'a mut Vec<u8>,
}

/// Where pixels go, and what is allowed on the way.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) pixels: &'a mut Vec<u8>,
    /// For samples that are not yet pixels.
    pub(crate) scratch: &'a mut Vec<u8>,
    pub(crate) notes: Notes,
    /// Of JPEG; set to 1 by codecs that do not scale.
    pub(crate) denominator: u32,
    /// The only pixels of a JPEG that are needed, as stored, if not all. The codec replaces it by
    /// those that it decoded.
    pub(crate) region: Option<Region>,
    pub(crate) damaged: Damaged,
    pub(crate) keeps_alpha: bool,
    pub(crate) page: usize,
    /// As the header states it.
    stored: ImageSize,
    max_pixels: u64,
}

impl<'a> Target<'a> {
    pub(crate) fn new(buffers: Buffers<'a>, options: &DecodeOptions, stored: ImageSize) -> Self {
        let Buffers { pixels, scratch } = buffers;
        Self {
            pixels,
            scratch,
            notes: Notes::default(),
            denominator: 1,
            region: None,
            damaged: options.damaged,
            keeps_alpha: options.background.is_some(),
            page: options.page,
            stored,
            max_pixels: options.max_pixels,
        }
    }

    /// A target for a JPEG that is part of a checked image, and as large as a part may be.
    pub(crate) fn inside(buffers: Buffers<'a>, size: ImageSize, damaged: Damaged) -> Self {
        let options = DecodeOptions {
            damaged,
            max_pixels: u64::from(MAX_SIDE) * 4096,
            ..DecodeOptions::default()
        };
        Self::new(buffers, &options, size)
    }

    /// Refuses a size that is too large, or another one than the header's.
    pub(crate) fn check(&self, size: ImageSize) -> Result<()> {
        check_limits(size, self.max_pixels)?;
        if size == self.stored {
            Ok(())
        } else {
            Err(Error::SizeDiffers { stated: self.stored, decoded: size })
        }
    }

    /// The size that the header states.
    pub(crate) fn stored(&self) -> ImageSize {
        self.stored
    }

    /// The most bytes that a decoder may take beside the output.
    pub(crate) fn memory(&self) -> usize {
        let pixels = u64::from(self.stored.width).saturating_mul(self.stored.height.into());
        usize::try_from(pixels.saturating_mul(16).saturating_add(16 << 20)).unwrap_or(usize::MAX)
    }
}

/// Refuses a size before memory is taken for it.
///
/// # Errors
/// When a side is longer than decoders allow, or the image has more than `max_pixels`.
pub fn check_limits(size: ImageSize, max_pixels: u64) -> Result<()> {
    let ImageSize { width, height } = size;
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(Error::SideTooLong { width, height });
    }
    if u64::from(width) * u64::from(height) > max_pixels {
        return Err(Error::TooManyPixels { width, height, max_pixels });
    }
    Ok(())
}
