//! `imagehash.phash` of a raster, bit for bit.
//!
//! Pixels enter, 64 bits leave: gray, Lanczos to 32 x 32, a cosine transform along both axes, and
//! which of the 8 x 8 low frequencies exceed their median. Invariant: floating-point operations
//! have the order of pocketfft, which SciPy runs, because in flat or symmetric images the
//! frequencies are only rounding errors, whose signs decide the bits.
#![expect(
    clippy::indexing_slicing,
    reason = "arrays of 32, with positions that follow from constants"
)]
#![expect(clippy::approx_constant, reason = "the twiddles are those of pocketfft, to the last bit")]

use crate::luma;
use crate::raster::{Raster, ShapeError, Sides};
use crate::resize::{Filter, Resizer};

const SIDE: usize = 32;
const LOW: usize = 8;

/// cos and sin of 2 pi k / 32 from k = 1 on, as pocketfft computes them: from a product of two, and
/// not always the closest double.
const TURNS_16: [(f64, f64); 7] = [
    (0.9807852804032304, 0.19509032201612825),
    (0.9238795325112867, 0.3826834323650898),
    (0.8314696123025452, 0.5555702330196022),
    (0.7071067811865475, 0.7071067811865476),
    (0.5555702330196022, 0.8314696123025452),
    (0.3826834323650898, 0.9238795325112867),
    (0.19509032201612825, 0.9807852804032304),
];
/// The same for k = 2, 4 and 6.
const TURNS_4: [(f64, f64); 3] = [
    (0.9238795325112867, 0.3826834323650898),
    (0.7071067811865475, 0.7071067811865476),
    (0.3826834323650898, 0.9238795325112867),
];
/// cos of 2 pi k / 128 from k = 1 on.
const TURNS: [f64; SIDE - 1] = [
    0.9987954562051724,
    0.9951847266721969,
    0.989176509964781,
    0.9807852804032304,
    0.970031253194544,
    0.9569403357322088,
    0.9415440651830208,
    0.9238795325112867,
    0.9039892931234433,
    0.881921264348355,
    0.8577286100002721,
    0.8314696123025452,
    0.8032075314806449,
    0.773010453362737,
    0.7409511253549591,
    0.7071067811865475,
    0.6715589548470183,
    0.6343932841636455,
    0.5956993044924332,
    0.5555702330196022,
    0.5141027441932217,
    0.47139673682599753,
    0.42755509343028203,
    0.38268343236508967,
    0.33688985339221994,
    0.2902846772544623,
    0.24298017990326393,
    0.19509032201612825,
    0.14673047445536164,
    0.09801714032956049,
    0.04906767432741799,
];

/// Returns the perceptual hash; the first bit of `imagehash`'s array, row by row, is the highest.
///
/// # Errors
/// None for a raster that exists.
pub fn phash(image: Raster<'_>, resizer: &mut Resizer) -> Result<u64, ShapeError> {
    let mut buffer = Vec::new();
    let gray = luma::gray(image, &mut buffer)?;
    let small = Sides { height: SIDE, width: SIDE };
    let small = resizer.resize(gray, small, small.whole(), Filter::Lanczos)?;
    let mut columns = [[0.0; SIDE]; SIDE];
    for (y, row) in small.rows().enumerate() {
        for (column, value) in columns.iter_mut().zip(row) {
            column[y] = f64::from(*value);
        }
    }
    columns.iter_mut().for_each(cosine_transform);
    let mut low = [0.0; LOW * LOW];
    for (y, out) in low.chunks_exact_mut(LOW).enumerate() {
        let mut row = columns.map(|column| column[y]);
        cosine_transform(&mut row);
        out.iter_mut().zip(row).for_each(|(out, value)| *out = value);
    }
    let mut sorted = low;
    sorted.sort_by(f64::total_cmp);
    let median = (sorted[LOW * LOW / 2 - 1] + sorted[LOW * LOW / 2]) / 2.0;
    Ok(low.iter().fold(0, |bits, value| (bits << 1) | u64::from(*value > median)))
}

/// The unnormalized cosine transform of type 2, by a real Fourier transform
/// of the reordered numbers.
fn cosine_transform(c: &mut [f64; SIDE]) {
    c[0] *= 2.0;
    c[SIDE - 1] *= 2.0;
    for k in (1..SIDE - 1).step_by(2) {
        (c[k], c[k + 1]) = (c[k] + c[k + 1], c[k + 1] - c[k]);
    }
    backward(c);
    for k in 1..SIDE / 2 {
        let end = SIDE - k;
        let sum = TURNS[k - 1] * c[end] + TURNS[end - 1] * c[k];
        let difference = TURNS[k - 1] * c[k] - TURNS[end - 1] * c[end];
        c[k] = 0.5 * (sum + difference);
        c[end] = 0.5 * (sum - difference);
    }
    c[SIDE / 2] *= TURNS[SIDE / 2 - 1];
}

/// The backward real transform of 32 numbers, with the factors 2, 4 and 4 as `rfftp` has them.
fn backward(c: &mut [f64; SIDE]) {
    let mut other = [0.0; SIDE];
    halves(c, &mut other);
    quarters::<4>(&other, c);
    quarters::<1>(c, &mut other);
    *c = other;
}

/// The factor 2, for runs of 16.
fn halves(from: &[f64; SIDE], to: &mut [f64; SIDE]) {
    const RUN: usize = SIDE / 2;
    (to[0], to[RUN]) = (from[0] + from[SIDE - 1], from[0] - from[SIDE - 1]);
    to[RUN - 1] = 2.0 * from[RUN - 1];
    to[SIDE - 1] = -2.0 * from[RUN];
    for (i, (cos, sin)) in (2..RUN).step_by(2).zip(TURNS_16) {
        let mirror = RUN + RUN - i;
        to[i - 1] = from[i - 1] + from[mirror - 1];
        let real = from[i - 1] - from[mirror - 1];
        let imaginary = from[i] + from[mirror];
        to[i] = from[i] - from[mirror];
        (to[RUN + i], to[RUN + i - 1]) = turned(cos, sin, imaginary, real);
    }
}

/// The factor 4, for runs of `RUN`.
fn quarters<const RUN: usize>(from: &[f64; SIDE], to: &mut [f64; SIDE]) {
    const SQRT_2: f64 = std::f64::consts::SQRT_2;
    let parts = SIDE / 4 / RUN;
    let place = |i: usize, k: usize, quarter: usize| i + RUN * (k + parts * quarter);
    for k in 0..parts {
        let at = |i: usize, quarter: usize| from[i + RUN * (quarter + 4 * k)];
        let (sum, difference) = (at(0, 0) + at(RUN - 1, 3), at(0, 0) - at(RUN - 1, 3));
        let (middle, side) = (2.0 * at(RUN - 1, 1), 2.0 * at(0, 2));
        (to[place(0, k, 0)], to[place(0, k, 2)]) = (sum + middle, sum - middle);
        (to[place(0, k, 3)], to[place(0, k, 1)]) = (difference + side, difference - side);
        if RUN.is_multiple_of(2) {
            let (high, low) = (at(0, 3) + at(0, 1), at(0, 3) - at(0, 1));
            let (sum, difference) =
                (at(RUN - 1, 0) + at(RUN - 1, 2), at(RUN - 1, 0) - at(RUN - 1, 2));
            to[place(RUN - 1, k, 0)] = sum + sum;
            to[place(RUN - 1, k, 1)] = SQRT_2 * (difference - high);
            to[place(RUN - 1, k, 2)] = low + low;
            to[place(RUN - 1, k, 3)] = -SQRT_2 * (difference + high);
        }
        for i in (2..RUN).step_by(2) {
            let mirror = RUN - i;
            let (r2, r1) = (at(i - 1, 0) + at(mirror - 1, 3), at(i - 1, 0) - at(mirror - 1, 3));
            let (i1, i2) = (at(i, 0) + at(mirror, 3), at(i, 0) - at(mirror, 3));
            let (r4, i3) = (at(i, 2) + at(mirror, 1), at(i, 2) - at(mirror, 1));
            let (r3, i4) = (at(i - 1, 2) + at(mirror - 1, 1), at(i - 1, 2) - at(mirror - 1, 1));
            (to[place(i - 1, k, 0)], to[place(i, k, 0)]) = (r2 + r3, i2 + i3);
            let turns = [(r1 - r4, i1 + i4), (r2 - r3, i2 - i3), (r1 + r4, i1 - i4)];
            for (quarter, ((real, imaginary), (cos, sin))) in
                turns.into_iter().zip(TURNS_4).enumerate()
            {
                (to[place(i, k, quarter + 1)], to[place(i - 1, k, quarter + 1)]) =
                    turned(cos, sin, imaginary, real);
            }
        }
    }
}

/// The imaginary and the real part of a number that is turned by an angle.
fn turned(cos: f64, sin: f64, imaginary: f64, real: f64) -> (f64, f64) {
    (cos * imaginary + sin * real, cos * real - sin * imaginary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_imagehash() {
        let flat = vec![77; 50 * 60 * 3];
        let cases = [
            (crate::test_pixels(33 * 47 * 3), (33, 47), 3, 0x80cf_88d2_9dd1_bde1),
            (flat, (50, 60), 3, 0x8000_0000_0000_0000),
            (crate::test_pixels(60 * 40), (60, 40), 1, 0x9f82_9f82_99dc_9dc0),
        ];
        for (pixels, (height, width), channels, expected) in cases {
            let image = Raster::new(&pixels, Sides { height, width }, channels).unwrap();
            assert_eq!(phash(image, &mut Resizer::new()), Ok(expected));
        }
    }
}
