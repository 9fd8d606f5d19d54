//! Width and height.

use crate::error::{Error, Result};

/// Width and height in pixels, as shown by a viewer that ignores EXIF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageSize {
    pub width: u32,
    pub height: u32,
}

impl ImageSize {
    /// Width divided by height; `None` if a side is zero.
    #[must_use]
    pub fn aspect_ratio(&self) -> Option<f64> {
        (self.width > 0 && self.height > 0).then(|| f64::from(self.width) / f64::from(self.height))
    }

    /// Rejects sizes without pixels.
    pub(crate) fn new(width: u32, height: u32) -> Result<Self> {
        if width == 0 || height == 0 {
            return Err(Error::ZeroSize { width, height });
        }
        Ok(Self { width, height })
    }
}
