//! Pixels in memory, as every step of this crate passes them on:
//! rows of bytes, channels interleaved.
//!
//! Decoders and the scratch of the resize make a [`Raster`]; resize, output and statistics read it.
//! Invariant: each of the `height` rows, `stride` bytes apart, has `width * channels` bytes inside
//! of the slice.

use std::borrow::Cow;

use shardmill_images::ImageSize;

/// What is wrong with sizes or lengths that were given together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The bytes are not what height, width and channels ask for.
    #[error(
        "{found} bytes of pixels, but height {height}, width {width} and {channels} \
         channels need {needed}"
    )]
    Pixels { found: usize, needed: usize, height: usize, width: usize, channels: usize },
    /// A side is zero, or too large to compute with.
    #[error("a size of {height} x {width} is not possible")]
    Sides { height: usize, width: usize },
    /// Only gray and RGB are pixels here.
    #[error("{0} channels, but pixels have 1 or 3")]
    Channels(usize),
    /// A region reaches out of what it is a part of.
    #[error("rows {top}+{rows} and columns {left}+{columns} are not inside of {height} x {width}")]
    Region { top: usize, rows: usize, left: usize, columns: usize, height: usize, width: usize },
    /// The place in the batch has another length than the pixels that go there.
    #[error("the output has {found} bytes, the pixels need {needed}")]
    Output { found: usize, needed: usize },
    /// Every fit but `"keep"` needs a size.
    #[error("this fit needs a size")]
    NoSize,
}

/// Height and width of an image, a target or a canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sides {
    pub height: usize,
    pub width: usize,
}

impl Sides {
    /// Returns sides that can be computed with: positive, and within what Pillow's `int` holds.
    pub(crate) fn checked(self) -> Result<Self, ShapeError> {
        let possible = 1..=i32::MAX as usize;
        if possible.contains(&self.height) && possible.contains(&self.width) {
            return Ok(self);
        }
        Err(ShapeError::Sides { height: self.height, width: self.width })
    }

    /// The region that is all of it.
    pub fn whole(self) -> Region {
        Region { top: 0, left: 0, height: self.height, width: self.width }
    }
}

impl From<ImageSize> for Sides {
    fn from(size: ImageSize) -> Self {
        Self { height: size.height as usize, width: size.width as usize }
    }
}

impl From<Sides> for ImageSize {
    fn from(sides: Sides) -> Self {
        let side = |side| u32::try_from(side).unwrap_or(u32::MAX);
        Self { width: side(sides.width), height: side(sides.height) }
    }
}

/// A rectangle of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    pub top: usize,
    pub left: usize,
    pub height: usize,
    pub width: usize,
}

impl Region {
    pub fn sides(self) -> Sides {
        Sides { height: self.height, width: self.width }
    }

    /// Fails unless the region has pixels, and all of them lie in an image of these sides.
    pub(crate) fn within(self, sides: Sides) -> Result<(), ShapeError> {
        let fits = |start: usize, len: usize, end: usize| {
            len > 0 && start.checked_add(len).is_some_and(|last| last <= end)
        };
        if fits(self.top, self.height, sides.height) && fits(self.left, self.width, sides.width) {
            return Ok(());
        }
        let Self { top, left, height: rows, width: columns } = self;
        Err(ShapeError::Region {
            top,
            rows,
            left,
            columns,
            height: sides.height,
            width: sides.width,
        })
    }
}

/// Borrowed pixels, gray (1 channel) or RGB (3).
#[derive(Debug, Clone, Copy)]
pub struct Raster<'a> {
    pixels: &'a [u8],
    sides: Sides,
    channels: usize,
    stride: usize,
}

impl<'a> Raster<'a> {
    /// Returns rows without gaps as a raster.
    ///
    /// # Errors
    /// If a side is zero, `channels` is neither 1 nor 3, or `pixels` has another length.
    pub fn new(pixels: &'a [u8], sides: Sides, channels: usize) -> Result<Self, ShapeError> {
        let Sides { height, width } = sides.checked()?;
        let stride = width.checked_mul(channels).ok_or(ShapeError::Sides { height, width })?;
        let raster = Self::with_stride(pixels, sides, channels, stride)?;
        let needed = stride.checked_mul(height).ok_or(ShapeError::Sides { height, width })?;
        if pixels.len() != needed {
            return Err(ShapeError::Pixels {
                found: pixels.len(),
                needed,
                height,
                width,
                channels,
            });
        }
        Ok(raster)
    }

    /// Returns rows that begin `stride` bytes apart as a raster; bytes between
    /// and after them are allowed.
    ///
    /// # Errors
    /// As [`Raster::new`], but only too few bytes are one.
    pub fn with_stride(
        pixels: &'a [u8],
        sides: Sides,
        channels: usize,
        stride: usize,
    ) -> Result<Self, ShapeError> {
        let Sides { height, width } = sides.checked()?;
        if channels != 1 && channels != 3 {
            return Err(ShapeError::Channels(channels));
        }
        let row = width
            .checked_mul(channels)
            .filter(|row| *row <= stride)
            .ok_or(ShapeError::Sides { height, width })?;
        let needed = (height - 1).checked_mul(stride).and_then(|above| above.checked_add(row));
        let needed = needed.ok_or(ShapeError::Sides { height, width })?;
        if pixels.len() < needed {
            return Err(ShapeError::Pixels {
                found: pixels.len(),
                needed,
                height,
                width,
                channels,
            });
        }
        Ok(Self { pixels, sides, channels, stride })
    }

    pub fn sides(&self) -> Sides {
        self.sides
    }

    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns a part of the image, without a copy.
    ///
    /// # Errors
    /// If the region has no pixels or reaches out of the image.
    pub fn crop(&self, region: Region) -> Result<Self, ShapeError> {
        region.within(self.sides)?;
        let start = region.top * self.stride + region.left * self.channels;
        let pixels = self.pixels.get(start..).unwrap_or_default();
        Ok(Self { pixels, sides: region.sides(), ..*self })
    }

    /// The rows from the top, each of `width * channels` bytes.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator {
        let Self { pixels, stride, .. } = *self;
        let len = self.row_len();
        (0..self.sides.height)
            .map(move |y| pixels.get(y * stride..y * stride + len).unwrap_or_default())
    }

    /// Row `y`, or an empty one below the last.
    pub(crate) fn row(&self, y: usize) -> &'a [u8] {
        let start = y.saturating_mul(self.stride);
        self.pixels.get(start..start.saturating_add(self.row_len())).unwrap_or_default()
    }

    /// The bytes from the first pixel on, with whatever lies between and after the rows, and the
    /// distance between rows.
    pub(crate) fn bytes(&self) -> (&'a [u8], usize) {
        (self.pixels, self.stride)
    }

    /// The rows without gaps.
    pub(crate) fn packed(&self) -> Cow<'a, [u8]> {
        let len = self.row_len();
        if self.stride == len {
            return Cow::Borrowed(self.pixels.get(..len * self.sides.height).unwrap_or_default());
        }
        Cow::Owned(self.rows().flatten().copied().collect())
    }

    pub(crate) fn row_len(&self) -> usize {
        self.sides.width * self.channels
    }
}

/// Pixels of an image of which the others may be missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portion<'a> {
    pixels: Raster<'a>,
    /// Rows above and columns to the left of the pixels.
    place: (usize, usize),
    image: Sides,
}

impl<'a> From<Raster<'a>> for Portion<'a> {
    fn from(pixels: Raster<'a>) -> Self {
        Self { pixels, place: (0, 0), image: pixels.sides }
    }
}

impl<'a> Portion<'a> {
    /// # Errors
    /// If the pixels at their place, rows from the top and columns from the left, are not inside of
    /// the image.
    pub(crate) fn new(
        pixels: Raster<'a>,
        place: (usize, usize),
        image: Sides,
    ) -> Result<Self, ShapeError> {
        Region { top: place.0, left: place.1, ..pixels.sides.whole() }.within(image)?;
        Ok(Self { pixels, place, image })
    }

    /// The sides of the whole image.
    pub(crate) fn sides(&self) -> Sides {
        self.image
    }

    pub(crate) fn pixels(&self) -> Raster<'a> {
        self.pixels
    }

    pub(crate) fn place(&self) -> (usize, usize) {
        self.place
    }

    /// The pixels of a region.
    ///
    /// # Errors
    /// If some of them are missing.
    pub(crate) fn crop(&self, region: Region) -> Result<Raster<'a>, ShapeError> {
        region.within(self.image)?;
        let (top, left) =
            (region.top.wrapping_sub(self.place.0), region.left.wrapping_sub(self.place.1));
        self.pixels.crop(Region { top, left, ..region })
    }

    /// What there is of a region, which becomes the image.
    ///
    /// # Errors
    /// If the region is not inside of the image, or all of its pixels are missing.
    pub(crate) fn of_region(&self, region: Region) -> Result<Self, ShapeError> {
        region.within(self.image)?;
        let (top, left) = (region.top.max(self.place.0), region.left.max(self.place.1));
        let bottom = (region.top + region.height).min(self.place.0 + self.pixels.sides.height);
        let right = (region.left + region.width).min(self.place.1 + self.pixels.sides.width);
        let pixels = self.crop(Region {
            top,
            left,
            height: bottom.saturating_sub(top),
            width: right.saturating_sub(left),
        })?;
        Ok(Self { pixels, place: (top - region.top, left - region.left), image: region.sides() })
    }

    /// The same portion with other pixels of the same sides.
    pub(crate) fn with_pixels(self, pixels: Raster<'a>) -> Self {
        Self { pixels, ..self }
    }
}
