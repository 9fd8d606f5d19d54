//! The two passes of the resize in plain Rust: what runs where there is no SIMD kernel, and what
//! the kernels are compared with.
//!
//! Rows and weights enter, rows of bytes leave. Invariant: sums are modulo 2^32, so the order of
//! additions does not matter and a kernel that adds in another order is equal.

use super::coefficients::{Coefficients, PRECISION_BITS};
use crate::raster::Raster;

/// Half of the last bit, which makes the shift round.
pub(super) const HALF: i32 = 1 << (PRECISION_BITS - 1);

/// Writes each row of `source`, resized along its columns, to `out`. Weights count columns of
/// `source` from `left` on.
pub(super) fn horizontal(
    source: Raster<'_>,
    left: usize,
    coefficients: &Coefficients,
    out: &mut [u8],
) {
    match source.channels() {
        3 => horizontal_of::<3>(source, left, coefficients, out),
        _ => horizontal_of::<1>(source, left, coefficients, out),
    }
}

fn horizontal_of<const CHANNELS: usize>(
    source: Raster<'_>,
    left: usize,
    coefficients: &Coefficients,
    out: &mut [u8],
) {
    for (row, out) in source.rows().zip(out.chunks_exact_mut(coefficients.iter().len() * CHANNELS))
    {
        let pixels = row.as_chunks::<CHANNELS>().0;
        for ((first, weights), out) in coefficients.iter().zip(out.as_chunks_mut::<CHANNELS>().0) {
            let mut sums = [HALF; CHANNELS];
            for (pixel, weight) in pixels.iter().skip(first - left).zip(weights) {
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum = sum.wrapping_add(weight.wrapping_mul(i32::from(*value)));
                }
            }
            *out = sums.map(clip);
        }
    }
}

/// Writes `source`, resized along its rows, to `out`. Weights count rows of `source`
/// from `above` on.
pub(super) fn vertical(
    source: Raster<'_>,
    above: usize,
    coefficients: &Coefficients,
    out: &mut [u8],
    sums: &mut Vec<i32>,
) {
    for ((first, weights), out) in coefficients.iter().zip(out.chunks_exact_mut(source.row_len())) {
        sums.clear();
        sums.resize(source.row_len(), HALF);
        for (y, weight) in (first - above..).zip(weights) {
            for (sum, value) in sums.iter_mut().zip(source.row(y)) {
                *sum = sum.wrapping_add(weight.wrapping_mul(i32::from(*value)));
            }
        }
        for (out, sum) in out.iter_mut().zip(sums.iter()) {
            *out = clip(*sum);
        }
    }
}

/// Writes each channel of a row to a row of its own, mirrored if `flip`.
#[inline]
pub(crate) fn split_channels(pixels: &[[u8; 3]], planes: [&mut [u8]; 3], flip: bool) {
    let [red, green, blue] = planes;
    for (([r, g, b], red), (green, blue)) in
        pixels.iter().zip(red.iter_mut()).zip(green.iter_mut().zip(blue.iter_mut()))
    {
        (*red, *green, *blue) = (*r, *g, *b);
    }
    if flip {
        // Every third byte is read in vectors forwards only.
        [red, green, blue].into_iter().for_each(<[u8]>::reverse);
    }
}

#[expect(clippy::cast_sign_loss, reason = "clamped to a byte")]
pub(super) fn clip(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}
