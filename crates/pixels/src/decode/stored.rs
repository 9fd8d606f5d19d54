//! Pixels as a codec left them, to be turned upright as a whole or by rows.
//!
//! A [`Stored`] lives in the buffers of its decoder. Invariant: `pixels` has the pixels of
//! `region`, without gaps.

use std::ops::Range;

use shardmill_images::{ImageFormat, ImageSize};

use crate::decode::codec::Notes;
use crate::decode::raster::reserve;
use crate::decode::{Decoded, orient};
use crate::error::Result;
use crate::raster::{Portion, Raster, Region, Sides};

/// An image, or a part of it, that is not turned yet.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(super) pixels: &'a [u8],
    pub(super) turned: &'a mut Vec<u8>,
    pub(super) channels: usize,
    /// The sides of the whole image.
    pub(super) image: Sides,
    /// What of it was decoded.
    pub(super) region: Region,
    pub(super) orientation: u8,
    pub(super) format: ImageFormat,
    /// Before scaling.
    pub(super) size: ImageSize,
    pub(super) denominator: u32,
    pub(super) notes: Notes,
}

impl<'a> Stored<'a> {
    /// The sides of the whole image, as seen.
    pub(crate) fn sides(&self) -> Sides {
        orient::region_as_seen(self.orientation, self.image, self.image.whole()).sides()
    }

    /// What there is of the image, as seen.
    pub(crate) fn region(&self) -> Region {
        orient::region_as_seen(self.orientation, self.image, self.region)
    }

    /// Whether damage would have been found wherever it is.
    pub(crate) fn is_complete(&self) -> bool {
        self.region.top + self.region.height >= self.image.height
    }

    /// Whether [`Stored::rows`] copies pixels.
    pub(crate) fn is_turned(&self) -> bool {
        self.orientation != 1
    }

    /// At least the given rows, as seen.
    pub(crate) fn rows(&mut self, rows: Range<usize>) -> Result<Portion<'_>> {
        let pixels = Raster::new(self.pixels, self.region.sides(), self.channels)?;
        if !self.is_turned() {
            return Ok(Portion::new(pixels, (self.region.top, self.region.left), self.image)?);
        }
        let part = Region { top: rows.start, height: rows.len(), ..self.region() };
        let from = Portion::new(pixels, (self.region.top, self.region.left), self.image)?;
        let from = from.crop(orient::region_as_stored(self.orientation, self.image, part))?;
        let image = self.sides();
        let turned = reserve(self.turned, part.height * part.width * self.channels, self.format)?;
        if self.channels == 1 {
            orient::turn::<1>(self.orientation, from, turned);
        } else {
            orient::turn::<3>(self.orientation, from, turned);
        }
        Ok(Portion::new(
            Raster::new(turned, part.sides(), self.channels)?,
            (part.top, part.left),
            image,
        )?)
    }

    /// All pixels, turned upright.
    pub(super) fn upright(mut self) -> Result<Decoded<'a>> {
        let (region, ImageSize { width, height }) = (self.region(), self.sides().into());
        self.rows(region.top..region.top + region.height)?;
        let Self {
            pixels,
            turned,
            channels,
            orientation,
            format,
            size: stored,
            denominator,
            notes,
            ..
        } = self;
        let pixels =
            if orientation == 1 { pixels } else { turned.get(..pixels.len()).unwrap_or_default() };
        Ok(Decoded {
            width,
            height,
            region,
            channels,
            pixels,
            format,
            stored,
            orientation,
            denominator,
            notes,
        })
    }
}
