//! Turns pixels as the orientation of an image says.
//!
//! Values are those of EXIF: 2 to 4 keep the sides, 5 to 8 exchange them. Invariant: every output pixel is written once.

use shardmill_images::ImageSize;

/// Whether rows become columns.
pub(crate) fn exchanges_sides(orientation: u8) -> bool {
    matches!(orientation, 5..=8)
}

/// Copies pixels of `N` samples from `source`, of size `size`, into `turned`.
pub(crate) fn turn<const N: usize>(orientation: u8, size: ImageSize, source: &[u8], turned: &mut [u8]) {
    let (width, height) = (size.width as usize, size.height as usize);
    let (source, _) = source.as_chunks::<N>();
    let (turned, _) = turned.as_chunks_mut::<N>();
    if width == 0 || height == 0 {
        return;
    }
    let rows = source.chunks_exact(width);
    match orientation {
        2 => {
            for (row, to) in rows.zip(turned.chunks_exact_mut(width)) {
                to.iter_mut().zip(row.iter().rev()).for_each(|(to, from)| *to = *from);
            }
        }
        3 => turned.iter_mut().zip(source.iter().rev()).for_each(|(to, from)| *to = *from),
        4 => {
            for (row, to) in rows.rev().zip(turned.chunks_exact_mut(width)) {
                to.copy_from_slice(row);
            }
        }
        5..=8 => exchange::<N>(orientation, (width, height), source, turned),
        _ => turned.copy_from_slice(source),
    }
}

/// Rows are read in bands, so that the columns that they become are written by whole cache lines.
const BAND: usize = 32;

fn exchange<const N: usize>(orientation: u8, (width, height): (usize, usize), source: &[[u8; N]], turned: &mut [[u8; N]]) {
    // 5: transpose. 6: clockwise. 7: transverse. 8: counter-clockwise.
    let (mirrors_rows, mirrors_columns) = (matches!(orientation, 6 | 7), matches!(orientation, 7 | 8));
    for (k, band) in source.chunks(width.saturating_mul(BAND)).enumerate() {
        let rows = band.len() / width;
        let first = k * BAND;
        for (x, column) in turned.chunks_exact_mut(height).enumerate() {
            let from_x = if mirrors_columns { width - 1 - x } else { x };
            let start = if mirrors_rows { height - first - rows } else { first };
            let Some(to) = column.get_mut(start..start + rows) else { continue };
            let from = band.iter().skip(from_x).step_by(width);
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

    fn turned(orientation: u8, width: u32, height: u32) -> Vec<u8> {
        let source: Vec<u8> = (0..width * height).map(|value| value as u8).collect();
        let mut to = vec![0; source.len()];
        turn::<1>(orientation, ImageSize { width, height }, &source, &mut to);
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
        fn inverse_gives_the_source(orientation in 1_u8..=8, width in 1_u32..80, height in 1_u32..80, seed in any::<u8>()) {
            let size = ImageSize { width, height };
            let source: Vec<u8> = (0..width * height * 3).map(|value| (value as u8).wrapping_mul(31) ^ seed).collect();
            let (mut once, mut twice) = (vec![0; source.len()], vec![0; source.len()]);
            turn::<3>(orientation, size, &source, &mut once);
            let inverse = match orientation { 6 => 8, 8 => 6, other => other };
            let size = if exchanges_sides(orientation) { ImageSize { width: height, height: width } } else { size };
            turn::<3>(inverse, size, &once, &mut twice);
            prop_assert_eq!(source, twice);
        }
    }
}
