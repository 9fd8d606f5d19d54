//! How sharp an image is: the variance of its 3x3 Laplacian, as OpenCV and NumPy compute it.
//!
//! Pixels enter, one number leaves, within 1e-9 of `cv2.Laplacian(image, cv2.CV_64F).var()`.
//! Invariant: sums are integers and exact, so the order of rows and channels does not matter.

use crate::raster::Raster;

/// Returns the variance over the Laplacians of all pixels and channels; borders are mirrored
/// without their edge.
#[expect(clippy::cast_precision_loss, reason = "one rounding of each exact sum")]
pub fn laplacian_variance(image: Raster<'_>) -> f64 {
    let last = image.sides().height - 1;
    let mut total = Sums::default();
    for y in 0..=last {
        // Above the first row comes the second, and below the last the one before it; a single row
        // is its own neighbor.
        let above = image.row(if y == 0 { last.min(1) } else { y - 1 });
        let below = image.row(if y == last { last.saturating_sub(1) } else { y + 1 });
        match image.channels() {
            3 => total.add_row::<3>(above, image.row(y), below),
            _ => total.add_row::<1>(above, image.row(y), below),
        }
    }
    let count = image.sides().height as u128 * image.row_len() as u128;
    let spread = u128::from(total.squares) * count - u128::from(total.sum.unsigned_abs()).pow(2);
    spread as f64 / count as f64 / count as f64
}

/// Laplacians that are summed up in 32 bits: each is at most 1020,
/// so the sum of as many squares fits.
const RUN: usize = 2048;

#[derive(Default)]
struct Sums {
    sum: i64,
    squares: u64,
}

impl Sums {
    fn add_row<const CHANNELS: usize>(&mut self, above: &[u8], row: &[u8], below: &[u8]) {
        let pixels = row.as_chunks::<CHANNELS>().0;
        let last = pixels.len() - 1;
        // The first and the last column, whose outer neighbor is the inner one.
        for (x, inner) in
            [(0, last.min(1)), (last, last.saturating_sub(1))].into_iter().take(pixels.len())
        {
            for channel in 0..CHANNELS {
                let at =
                    |row: &[u8], x: usize| row.get(x * CHANNELS + channel).copied().unwrap_or(0);
                self.add(laplacian(
                    at(row, x),
                    [at(above, x), at(below, x), at(row, inner), at(row, inner)],
                ));
            }
        }
        let len = row.len().saturating_sub(2 * CHANNELS);
        let rows = runs(above, CHANNELS, len)
            .zip(runs(below, CHANNELS, len))
            .zip(runs(row, 0, len))
            .zip(runs(row, 2 * CHANNELS, len));
        for (center, (((above, below), left), right)) in runs(row, CHANNELS, len).zip(rows) {
            let (mut sum, mut squares) = (0_i32, 0_u32);
            for (center, (((above, below), left), right)) in
                center.iter().zip(above.iter().zip(below).zip(left).zip(right))
            {
                let value = laplacian(*center, [*above, *below, *left, *right]);
                sum += value;
                squares += (value * value).cast_unsigned();
            }
            self.sum += i64::from(sum);
            self.squares += u64::from(squares);
        }
    }

    fn add(&mut self, value: i32) {
        self.sum += i64::from(value);
        self.squares += u64::from((value * value).cast_unsigned());
    }
}

/// Runs of the `len` bytes of a row from `skip` on.
fn runs(row: &[u8], skip: usize, len: usize) -> std::slice::Chunks<'_, u8> {
    row.get(skip..skip + len).unwrap_or_default().chunks(RUN)
}

fn laplacian(center: u8, neighbors: [u8; 4]) -> i32 {
    neighbors.into_iter().map(i32::from).sum::<i32>() - 4 * i32::from(center)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::Sides;

    #[test]
    fn variances_are_those_of_opencv() {
        // Height, width, channels, and `cv2.Laplacian(pixels, cv2.CV_64F).var()`.
        for (height, width, channels, expected) in [
            (33, 47, 3, 121_405.857_313_088_19),
            (1, 1, 3, 0.0),
            (2, 1, 1, 9216.0),
            (1, 9, 3, 51_938.074_074_074_066),
        ] {
            let pixels = crate::test_pixels(height * width * channels);
            let found = laplacian_variance(
                Raster::new(&pixels, Sides { height, width }, channels).unwrap(),
            );
            assert!((found - expected).abs() <= 1e-9 * expected, "{found} {expected}");
        }
    }
}
