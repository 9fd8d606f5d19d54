//! What a codec leaves in the buffer.
//!
//! Rows without padding, samples of 8 bits. Invariant: the buffer has at least [`Raster::len`]
//! bytes; what follows belongs to an earlier image.

use shardmill_images::{ImageFormat, ImageSize};

use crate::error::{Error, Result};

/// The meaning of the samples of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Gray,
    GrayAlpha,
    Rgb,
    Rgba,
    /// 255 is full ink.
    Cmyk,
}

impl Layout {
    pub(crate) fn samples(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::GrayAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba | Self::Cmyk => 4,
        }
    }
}

/// The shape of the pixels in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raster {
    pub(crate) size: ImageSize,
    pub(crate) layout: Layout,
}

impl Raster {
    /// Number of pixels; sides were checked, so this does not overflow on 64 bits.
    pub(crate) fn pixels(self) -> usize {
        (self.size.width as usize).saturating_mul(self.size.height as usize)
    }

    /// Number of bytes.
    pub(crate) fn len(self) -> usize {
        self.pixels().saturating_mul(self.layout.samples())
    }
}

/// The first `len` bytes of `buffer`, which grows where it is shorter.
/// What they contain is unspecified.
pub(crate) fn reserve(buffer: &mut Vec<u8>, len: usize, format: ImageFormat) -> Result<&mut [u8]> {
    if buffer.len() < len {
        // The old contents are worthless, so they are not moved. Fresh zeros from the system take
        // no memory until they are written.
        *buffer = Vec::new();
        Vec::<u8>::new().try_reserve_exact(len).map_err(|error| Error::limit(format, error))?;
        *buffer = vec![0; len];
    }
    buffer.get_mut(..len).ok_or_else(|| Error::limit(format, "buffer"))
}
