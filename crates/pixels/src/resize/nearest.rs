//! `Image.resize(NEAREST)`: the scaling case of Pillow's `ImagingTransformAffine`.
//!
//! A raster and a window of the target enter, bytes leave. Invariant: positions are running sums
//! from the first pixel of the target, as Pillow adds them, because a product rounds differently.

use std::ops::Range;

use crate::raster::{Portion, Region, Sides};

/// Writes the window of the resized image to `out`, without gaps between rows. `source` has the
/// pixels of [`super::span_for`].
pub(super) fn nearest(
    source: Portion<'_>,
    target: Sides,
    window: Region,
    columns: &mut Vec<usize>,
    out: &mut [u8],
) {
    let Sides { height, width } = source.sides();
    let (pixels, (top, left)) = (source.pixels(), source.place());
    columns.clear();
    columns.extend(
        positions(width, target.width, window.left..window.left + window.width)
            .map(|x| x.saturating_sub(left)),
    );
    let rows = positions(height, target.height, window.top..window.top + window.height);
    let channels = pixels.channels();
    for (y, out) in rows.zip(out.chunks_exact_mut(window.width * channels)) {
        let row = pixels.row(y.saturating_sub(top));
        match channels {
            3 => pick::<3>(row, columns, out),
            _ => pick::<1>(row, columns, out),
        }
    }
}

fn pick<const CHANNELS: usize>(row: &[u8], columns: &[usize], out: &mut [u8]) {
    let pixels = row.as_chunks::<CHANNELS>().0;
    for (out, x) in out.as_chunks_mut::<CHANNELS>().0.iter_mut().zip(columns) {
        *out = pixels.get(*x).copied().unwrap_or([0; CHANNELS]);
    }
}

/// The source positions of a range of target positions.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive and below 2^31"
)]
fn positions(input: usize, output: usize, range: Range<usize>) -> impl Iterator<Item = usize> {
    let step = input as f64 / output as f64;
    let mut at = step * 0.5;
    (0..range.end)
        .map(move |_| {
            let position = at as usize;
            at += step;
            position
        })
        .skip(range.start)
}
