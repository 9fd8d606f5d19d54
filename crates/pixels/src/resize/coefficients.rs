//! Weights of a filter along one axis, as `precompute_coeffs` and `normalize_coeffs_8bpc` of
//! Pillow's `Resample.c` compute them.
//!
//! Lengths and a filter enter; for each output pixel of a range, the first source pixel and 22-bit
//! fixed-point weights leave. Invariant: order and precision of the floating-point operations are
//! Pillow's, so each weight is equal to Pillow's.

use std::f64::consts::PI;
use std::ops::Range;

/// Bits after the point of a weight. Eight bits of a pixel and two for sums
/// that leave 0..=255 remain.
pub(super) const PRECISION_BITS: u32 = 32 - 8 - 2;

/// How pixels are weighted; all but `Nearest` are antialiased when the image shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Filter {
    Nearest,
    Box,
    Bilinear,
    Hamming,
    Bicubic,
    Lanczos,
}

impl Filter {
    fn support(self) -> f64 {
        match self {
            Self::Nearest | Self::Box => 0.5,
            Self::Bilinear | Self::Hamming => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        match self {
            Self::Nearest | Self::Box => f64::from(u8::from(x > -0.5 && x <= 0.5)),
            Self::Bilinear => (1.0 - x.abs()).max(0.0),
            Self::Hamming => hamming(x.abs()),
            Self::Bicubic => bicubic(x.abs()),
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Lanczos => 0.0,
        }
    }
}

fn hamming(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    if x >= 1.0 {
        return 0.0;
    }
    let x = x * PI;
    // Pillow writes these two as single-precision constants.
    x.sin() / x * (f64::from(0.54_f32) + f64::from(0.46_f32) * x.cos())
}

fn bicubic(x: f64) -> f64 {
    if x < 1.0 {
        return (1.5 * x - 2.5) * x * x + 1.0;
    }
    if x < 2.0 {
        return (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5;
    }
    0.0
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let x = x * PI;
    x.sin() / x
}

/// What coefficients are computed from: lengths of the axis before and after, and the output pixels
/// that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axis {
    pub input: usize,
    pub output: usize,
    pub range: Range<usize>,
    pub filter: Filter,
}

impl Axis {
    /// Source pixels to an output pixel.
    fn scale(&self) -> f64 {
        as_f64(self.input) / as_f64(self.output)
    }

    /// The source pixels that may have a weight in an output pixel.
    fn reach_of(&self, x: usize) -> Range<usize> {
        let scale = self.scale();
        let support = self.filter.support() * scale.max(1.0);
        let center = (as_f64(x) + 0.5) * scale;
        truncated(center - support + 0.5)..truncated(center + support + 0.5).min(self.input)
    }

    /// The source pixels that may have a weight in the output pixels of the range.
    pub(super) fn reach(&self) -> Range<usize> {
        self.reach_of(self.range.start).start..self.reach_of(self.range.end.saturating_sub(1)).end
    }
}

/// The source pixels of one output pixel: `count` of them from `first` on, with weights from
/// `start` on.
#[derive(Debug, Clone, Copy)]
struct Tap {
    first: usize,
    count: usize,
    start: usize,
}

/// Weights of the output pixels of an [`Axis`]. The buffers, and equal weights, are kept from image
/// to image.
#[derive(Debug, Default)]
pub(super) struct Coefficients {
    axis: Option<Axis>,
    taps: Vec<Tap>,
    weights: Vec<i32>,
    floats: Vec<f64>,
}

impl Coefficients {
    /// Computes the weights of an axis, unless they are here.
    pub(super) fn set(&mut self, axis: Axis) {
        if self.axis.as_ref() == Some(&axis) {
            return;
        }
        self.taps.clear();
        self.weights.clear();
        let scale = axis.scale();
        let inverse = 1.0 / scale.max(1.0);
        for x in axis.range.clone() {
            let center = (as_f64(x) + 0.5) * scale;
            let reach = axis.reach_of(x);
            let first = reach.start;
            self.floats.clear();
            self.floats
                .extend(reach.map(|at| axis.filter.weight((as_f64(at) - center + 0.5) * inverse)));
            let mut sum = 0.0;
            for weight in &self.floats {
                sum += weight;
            }
            let divisor = if sum == 0.0 { 1.0 } else { sum };
            let start = self.weights.len();
            self.weights.extend(self.floats.iter().map(|weight| fixed(weight / divisor)));
            self.push_trimmed(first, start);
        }
        self.axis = Some(axis);
    }

    /// Ends the weights of one output pixel; those that are zero at either end change nothing and
    /// are left out.
    fn push_trimmed(&mut self, first: usize, start: usize) {
        let weights = self.weights.get(start..).unwrap_or_default();
        let leading = weights.iter().take_while(|weight| **weight == 0).count();
        let trailing =
            weights.iter().skip(leading).rev().take_while(|weight| **weight == 0).count();
        let count = weights.len() - leading - trailing;
        self.taps.push(Tap { first: first + leading, count, start: start + leading });
    }

    /// For each output pixel, the first source pixel and the weights.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (usize, &[i32])> {
        self.taps.iter().map(|tap| {
            (tap.first, self.weights.get(tap.start..tap.start + tap.count).unwrap_or_default())
        })
    }

    /// The source pixels that any output pixel needs.
    pub(super) fn span(&self) -> Range<usize> {
        let first = self.taps.iter().map(|tap| tap.first).min().unwrap_or(0);
        let end = self.taps.iter().map(|tap| tap.first + tap.count).max().unwrap_or(0);
        first..end.max(first)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sides are below 2^31")]
fn as_f64(side: usize) -> f64 {
    side as f64
}

/// C's `(int)`, with Pillow's limit at zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "truncation is meant, and negative values are zero here"
)]
fn truncated(value: f64) -> usize {
    value as usize
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "truncation is how Pillow rounds, and a weight is hardly above 1"
)]
fn fixed(weight: f64) -> i32 {
    let scaled = weight * f64::from(1_u32 << PRECISION_BITS);
    if weight < 0.0 { (-0.5 + scaled) as i32 } else { (0.5 + scaled) as i32 }
}
