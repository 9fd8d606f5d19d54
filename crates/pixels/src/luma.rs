//! Converts RGB to gray as Pillow's `convert("L")` does.
//!
//! Invariant: the weights add up to 2^16, so gray pixels keep their value.

use crate::raster::{Raster, ShapeError};

/// Returns the gray of a color: `(19595 R + 38470 G + 7471 B + 2^15) >> 16`.
#[expect(clippy::cast_possible_truncation, reason = "the weights add up to 2^16")]
pub(crate) fn luma([red, green, blue]: [u8; 3]) -> u8 {
    ((u32::from(red) * 19595 + u32::from(green) * 38470 + u32::from(blue) * 7471 + 0x8000) >> 16)
        as u8
}

/// Returns the image in gray: itself if it is, else converted into `buffer`.
pub(crate) fn gray<'a>(
    image: Raster<'a>,
    buffer: &'a mut Vec<u8>,
) -> Result<Raster<'a>, ShapeError> {
    if image.channels() == 1 {
        return Ok(image);
    }
    buffer.clear();
    for row in image.rows() {
        buffer.extend(row.as_chunks::<3>().0.iter().map(|pixel| luma(*pixel)));
    }
    Raster::new(buffer, image.sides(), 1)
}
