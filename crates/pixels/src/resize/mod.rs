//! Resize as Pillow 13 does, bit for bit: a pass along each axis, in integers.
//!
//! A [`Raster`] enters, the window of the resized image that a caller wants leaves.
//! `src/libImaging/Resample.c` is the reference. Invariant: the window is equal to the same part of
//! the whole resized image, whichever kernel computes it.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod blocks;
mod coefficients;
mod kernel;
mod nearest;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod packed;
mod passes;
#[cfg_attr(target_arch = "x86_64", path = "x86.rs")]
#[cfg_attr(target_arch = "aarch64", path = "neon.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "portable.rs")]
mod simd;
#[cfg(test)]
mod tests;

use std::ops::Range;

use coefficients::Axis;
pub use coefficients::Filter;
use kernel::Kernel;
pub(crate) use simd::{name as simd_name, split_channels};

use crate::raster::{Portion, Raster, Region, ShapeError, Sides};

/// Resizes, with buffers that are kept from image to image; one for each thread.
#[derive(Debug, Default)]
pub struct Resizer {
    kernel: Kernel,
    columns: Vec<usize>,
    between: Vec<u8>,
    out: Vec<u8>,
}

impl Resizer {
    pub fn new() -> Self {
        Self::default()
    }

    /// A resizer that uses no SIMD kernel, to compare with.
    #[doc(hidden)]
    #[must_use]
    pub fn scalar() -> Self {
        Self { kernel: Kernel::scalar(), ..Self::default() }
    }

    /// Returns the pixels that `Image.resize(target, filter).crop(window)` has.
    ///
    /// # Errors
    /// If a side of the target is zero, or the window is not inside of it.
    pub fn resize<'r>(
        &'r mut self,
        source: Raster<'r>,
        target: Sides,
        window: Region,
        filter: Filter,
    ) -> Result<Raster<'r>, ShapeError> {
        self.resize_portion(source.into(), target, window, filter)
    }

    /// As [`Resizer::resize`], of an image that has at least the pixels that the window needs.
    pub(crate) fn resize_portion<'r>(
        &'r mut self,
        source: Portion<'r>,
        target: Sides,
        window: Region,
        filter: Filter,
    ) -> Result<Raster<'r>, ShapeError> {
        let sides = source.sides();
        window.within(target.checked()?)?;
        if target == sides {
            return source.crop(window);
        }
        let channels = source.pixels().channels();
        let out = at_least(&mut self.out, buffer_len(window.height, window.width, channels)?);
        if filter == Filter::Nearest {
            nearest::nearest(source, target, window, &mut self.columns, out);
            return Raster::new(out, window.sides(), channels);
        }
        let (across, down) = (target.width != sides.width, target.height != sides.height);
        let mut needed = window;
        if down {
            let range = window.top..window.top + window.height;
            let rows = self.kernel.set_down(Axis {
                input: sides.height,
                output: target.height,
                range,
                filter,
            });
            (needed.top, needed.height) = (rows.start, rows.len());
        }
        if across {
            let range = window.left..window.left + window.width;
            let columns = self.kernel.set_across(Axis {
                input: sides.width,
                output: target.width,
                range,
                filter,
            });
            (needed.left, needed.width) = (columns.start, columns.len());
        }
        let source = source.crop(needed)?;
        match (across, down) {
            (true, true) if is_vertical_first(sides, target) => {
                let between =
                    at_least(&mut self.between, buffer_len(window.height, needed.width, channels)?);
                self.kernel.vertical(source, needed.top, between);
                let between = Raster::new(
                    between,
                    Sides { height: window.height, width: needed.width },
                    channels,
                )?;
                self.kernel.horizontal(between, needed.left, out);
            }
            (true, true) => {
                let between =
                    at_least(&mut self.between, buffer_len(needed.height, window.width, channels)?);
                self.kernel.horizontal(source, needed.left, between);
                let between = Raster::new(
                    between,
                    Sides { height: needed.height, width: window.width },
                    channels,
                )?;
                self.kernel.vertical(between, needed.top, out);
            }
            (true, false) => self.kernel.horizontal(source, needed.left, out),
            (false, _) => self.kernel.vertical(source, needed.top, out),
        }
        Raster::new(out, window.sides(), channels)
    }
}

/// The columns of a source `input` wide that [`Resizer::resize`] reads for the columns `window` of
/// a target `output` wide; rows are the same.
pub(crate) fn span_for(
    window: Range<usize>,
    input: usize,
    output: usize,
    filter: Filter,
) -> Range<usize> {
    if input == output {
        return window;
    }
    let reach = Axis { input, output, range: window, filter }.reach();
    // `nearest` adds up steps, which may round to a neighbor.
    reach.start.saturating_sub(1)..(reach.end + 1).min(input)
}

/// Whether the vertical pass comes first, as in Pillow since 13.0 when more than twice as many rows
/// as columns go; the passes round, so it shows.
fn is_vertical_first(source: Sides, target: Sides) -> bool {
    let rows = source.height.saturating_sub(target.height);
    let columns = source.width.saturating_sub(target.width);
    rows > 2 * columns
}

fn buffer_len(height: usize, width: usize, channels: usize) -> Result<usize, ShapeError> {
    height
        .checked_mul(width)
        .and_then(|pixels| pixels.checked_mul(channels))
        .ok_or(ShapeError::Sides { height, width })
}

/// The first `len` bytes of a buffer, which grows and never shrinks: fresh pages cost more than the
/// pass that fills them.
fn at_least(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    buffer.get_mut(..len).unwrap_or_default()
}
