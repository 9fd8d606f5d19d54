//! Turns pixels as the orientation of an image says.
//!
//! Values are those of EXIF: 2 to 4 keep the sides, 5 to 8 exchange them. Invariant: every output
//! pixel is written once.

use crate::raster::{Raster, Region, Sides};

/// Whether rows become columns.
pub(crate) fn exchanges_sides(orientation: u8) -> bool {
    matches!(orientation, 5..=8)
}

/// Whether the image as stored is mirrored from top to bottom, and from left to right, before rows
/// and columns are exchanged.
fn mirrors(orientation: u8) -> (bool, bool) {
    (matches!(orientation, 3 | 4 | 6 | 7), matches!(orientation, 2 | 3 | 7 | 8))
}

/// Where the pixels of a region of the image as seen are stored. `stored` are the sides of the
/// whole image.
pub(crate) fn region_as_stored(orientation: u8, stored: Sides, region: Region) -> Region {
    let Region { top, left, height, width } = region;
    let region = if exchanges_sides(orientation) {
        Region { top: left, left: top, height: width, width: height }
    } else {
        region
    };
    mirrored(orientation, stored, region)
}

/// Where the pixels of a region of the image as stored are seen.
pub(crate) fn region_as_seen(orientation: u8, stored: Sides, region: Region) -> Region {
    let Region { top, left, height, width } = mirrored(orientation, stored, region);
    if exchanges_sides(orientation) {
        Region { top: left, left: top, height: width, width: height }
    } else {
        Region { top, left, height, width }
    }
}

fn mirrored(orientation: u8, sides: Sides, region: Region) -> Region {
    let (down, across) = mirrors(orientation);
    let top = if down { sides.height - region.top - region.height } else { region.top };
    let left = if across { sides.width - region.left - region.width } else { region.left };
    Region { top, left, ..region }
}

/// Copies the pixels of `source`, of `N` samples each, into `turned`.
pub(crate) fn turn<const N: usize>(orientation: u8, source: Raster<'_>, turned: &mut [u8]) {
    if exchanges_sides(orientation) {
        return exchange::<N>(orientation, source, turned.as_chunks_mut::<N>().0);
    }
    let (down, across) = mirrors(orientation);
    let copy = |(from, to): (&[u8], &mut [u8])| {
        if across {
            to.as_chunks_mut::<N>()
                .0
                .iter_mut()
                .zip(from.as_chunks::<N>().0.iter().rev())
                .for_each(|(to, from)| *to = *from);
        } else {
            to.copy_from_slice(from);
        }
    };
    let rows = turned.chunks_exact_mut(source.row_len());
    if down {
        source.rows().rev().zip(rows).for_each(copy);
    } else {
        source.rows().zip(rows).for_each(copy);
    }
}

/// Rows are read in bands, so that the columns that they become are written by whole cache lines.
const BAND: usize = 32;

fn exchange<const N: usize>(orientation: u8, source: Raster<'_>, turned: &mut [[u8; N]]) {
    // 5: transpose. 6: clockwise. 7: transverse. 8: counter-clockwise.
    let (mirrors_rows, mirrors_columns) = mirrors(orientation);
    let Sides { height, width } = source.sides();
    let (bytes, stride) = source.bytes();
    let (pixels, stride) = (bytes.as_chunks::<N>().0, stride / N);
    for first in (0..height).step_by(BAND) {
        let rows = BAND.min(height - first);
        let band = pixels.get(first * stride..).unwrap_or_default();
        for (x, column) in turned.chunks_exact_mut(height).enumerate() {
            let from_x = if mirrors_columns { width - 1 - x } else { x };
            let start = if mirrors_rows { height - first - rows } else { first };
            let Some(to) = column.get_mut(start..start + rows) else { continue };
            let from = band.iter().skip(from_x).step_by(stride);
            if mirrors_rows {
                to.iter_mut().rev().zip(from).for_each(|(to, from)| *to = *from);
            } else {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "samples repeat")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn turned(orientation: u8, width: usize, height: usize) -> Vec<u8> {
        let source: Vec<u8> = (0..width * height).map(|value| value as u8).collect();
        let mut to = vec![0; source.len()];
        turn::<1>(orientation, Raster::new(&source, Sides { height, width }, 1).unwrap(), &mut to);
        to
    }

    #[test]
    fn each_orientation_of_three_by_two() {
        // 0 1 2
        // 3 4 5
        for (orientation, expected) in [
            (1, [0, 1, 2, 3, 4, 5]),
            (2, [2, 1, 0, 5, 4, 3]),
            (3, [5, 4, 3, 2, 1, 0]),
            (4, [3, 4, 5, 0, 1, 2]),
            (5, [0, 3, 1, 4, 2, 5]),
            (6, [3, 0, 4, 1, 5, 2]),
            (7, [5, 2, 4, 1, 3, 0]),
            (8, [2, 5, 1, 4, 0, 3]),
        ] {
            assert_eq!(turned(orientation, 3, 2), expected, "{orientation}");
        }
    }

    proptest! {
        #[test]
        fn inverse_gives_the_source(
            orientation in 1_u8..=8,
            width in 1_usize..80,
            height in 1_usize..80,
            seed in any::<u8>(),
        ) {
            let sides = Sides { height, width };
            let source: Vec<u8> = (0..width * height * 3)
                .map(|value| (value as u8).wrapping_mul(31) ^ seed)
                .collect();
            let (mut once, mut twice) = (vec![0; source.len()], vec![0; source.len()]);
            turn::<3>(orientation, Raster::new(&source, sides, 3).unwrap(), &mut once);
            let inverse = match orientation {
                6 => 8,
                8 => 6,
                other => other,
            };
            let sides = if exchanges_sides(orientation) {
                Sides { height: width, width: height }
            } else {
                sides
            };
            turn::<3>(inverse, Raster::new(&once, sides, 3).unwrap(), &mut twice);
            prop_assert_eq!(source, twice);
        }

        #[test]
        fn a_region_is_where_its_pixels_are(
            (orientation, width, height) in (1_u8..=8, 1_usize..20, 1_usize..12),
            (top, left, below, right) in (0_usize..12, 0_usize..20, 0_usize..12, 0_usize..20),
        ) {
            let stored = Sides { height, width };
            let seen = if exchanges_sides(orientation) {
                Sides { height: width, width: height }
            } else {
                stored
            };
            let (top, left) = (top % seen.height, left % seen.width);
            let region = Region {
                top,
                left,
                height: 1 + below % (seen.height - top),
                width: 1 + right % (seen.width - left),
            };
            let whole = turned(orientation, width, height);
            let whole = Raster::new(&whole, seen, 1).unwrap();
            let from = region_as_stored(orientation, stored, region);
            prop_assert_eq!(region_as_seen(orientation, stored, from), region);
            let source: Vec<u8> = (0..width * height).map(|value| value as u8).collect();
            let mut part = vec![0; region.width * region.height];
            turn::<1>(
                orientation,
                Raster::new(&source, stored, 1).unwrap().crop(from).unwrap(),
                &mut part,
            );
            prop_assert_eq!(
                part,
                whole.crop(region).unwrap().rows().flatten().copied().collect::<Vec<_>>()
            );
        }
    }
}
