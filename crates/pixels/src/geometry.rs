//! Which part of an image becomes which part of the output: decided from sizes alone, before a
//! pixel is decoded.
//!
//! [`Geometry::new`] takes the oriented size of an image, the size option, a [`Fit`] and a
//! [`Draw`]. Invariant: equal inputs give equal geometries. For each fit that torchvision or Pillow
//! has, sizes and offsets are equal to theirs.

use std::ops::Range;

use crate::augment::{Draw, Purpose};
use crate::raster::{Region, ShapeError, Sides};

/// How an image is brought to a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fit {
    /// Covers the size, and cuts off what is too much, equally on both sides.
    Crop,
    /// The same with an odd surplus cut off at the end: image processors of transformers.
    CropEnd,
    /// Becomes the size, in whatever ratio.
    Stretch,
    /// Fits into the size, in the middle of the background: `ImageOps.pad`.
    Pad,
    /// Fits into the size, which nothing fills up: `ImageOps.contain`.
    Longest,
    /// Stays as it is.
    Keep,
    /// A random box, stretched to the size: torchvision's `RandomResizedCrop`. `scale` is of the
    /// area, `ratio` is width / height.
    RandomCrop { scale: (f64, f64), ratio: (f64, f64) },
}

/// Where the pixels of one output come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// The part of the image that is resized; nothing outside of it is seen.
    pub region: Region,
    /// The size that the region is resized to.
    pub target: Sides,
    /// The part of the resized region that survives.
    pub window: Region,
    /// The size of the output.
    pub canvas: Sides,
    /// Rows above and columns to the left of the window on the canvas.
    pub offset: (usize, usize),
    /// Whether the canvas is mirrored from left to right.
    pub flip: bool,
}

impl Geometry {
    /// Decides about an image of the given oriented size; `flip` is the probability
    /// of mirroring it.
    ///
    /// * `Crop` scales so that both sides cover the size. The side that then fits exactly has its
    ///   length, the other one is `int(length * other / side)`, and offsets are half of the
    ///   surplus, rounded half to even. For a square this is torchvision's `Resize(size)` and
    ///   `CenterCrop(size)` on PIL images. `CropEnd` rounds the half down.
    /// * `Longest` and `Pad` scale so that both sides fit, and round half to even as Pillow does,
    ///   but never to zero.
    ///
    /// # Errors
    /// If a side is zero, or the fit needs a size and there is none.
    pub fn new(
        oriented: Sides,
        size: Option<Sides>,
        fit: Fit,
        flip: f64,
        draw: Draw,
    ) -> Result<Self, ShapeError> {
        let full = oriented.checked()?;
        let size = match size {
            Some(size) if fit != Fit::Keep => size.checked()?,
            None if fit != Fit::Keep => return Err(ShapeError::NoSize),
            _ => full,
        };
        let flip = flip > 0.0 && draw.stream(Purpose::Flip).uniform() < flip;
        let whole = |target: Sides| Self {
            region: full.whole(),
            target,
            window: target.whole(),
            canvas: target,
            offset: (0, 0),
            flip,
        };
        Ok(match fit {
            Fit::Stretch | Fit::Keep => whole(size),
            Fit::Longest => whole(contained(full, size)),
            Fit::RandomCrop { scale, ratio } => {
                Self { region: random_region(full, scale, ratio, draw), ..whole(size) }
            }
            Fit::Crop | Fit::CropEnd => {
                let target = covering(full, size).checked()?;
                let half = |surplus: usize| {
                    if fit == Fit::Crop { half_to_even(surplus) } else { surplus / 2 }
                };
                let top = half(target.height - size.height);
                let left = half(target.width - size.width);
                let window = Region { top, left, height: size.height, width: size.width };
                Self { target, window, canvas: size, ..whole(target) }
            }
            Fit::Pad => {
                let target = contained(full, size);
                let offset = (
                    half_to_even(size.height - target.height),
                    half_to_even(size.width - target.width),
                );
                Self { canvas: size, offset, ..whole(target) }
            }
        })
    }

    /// The largest of 8, 4 and 2 by which a JPEG may be scaled down while it is decoded, so that
    /// the region keeps `headroom` times the target on both sides, or 1. A headroom of 1 gives the
    /// scale that `Image.draft` would choose, 2 is for `mode="fast"`.
    pub fn reduction(&self, headroom: usize) -> usize {
        let keeps =
            |from: usize, to: usize, scale: usize| from / scale >= to.saturating_mul(headroom);
        let all = |scale: &usize| {
            keeps(self.region.height, self.target.height, *scale)
                && keeps(self.region.width, self.target.width, *scale)
        };
        [8, 4, 2].into_iter().find(all).unwrap_or(1)
    }

    /// The same geometry for rows of the window alone.
    pub(crate) fn of_rows(self, rows: Range<usize>) -> Self {
        let window =
            Region { top: self.window.top + rows.start, height: rows.len(), ..self.window };
        Self { window, offset: (self.offset.0 + rows.start, self.offset.1), ..self }
    }

    /// The same geometry for an image that was decoded at another scale: the region moves with it,
    /// the target stays.
    pub fn scaled(self, oriented: Sides, decoded: Sides) -> Self {
        let (top, height) =
            scaled_span(self.region.top, self.region.height, oriented.height, decoded.height);
        let (left, width) =
            scaled_span(self.region.left, self.region.width, oriented.width, decoded.width);
        Self { region: Region { top, left, height, width }, ..self }
    }
}

/// Start and length of a part of an axis of `from` pixels once it has `to`: both ends rounded, and
/// never empty.
fn scaled_span(start: usize, len: usize, from: usize, to: usize) -> (usize, usize) {
    let place = |at: usize| (at * to + from / 2) / from.max(1);
    let first = place(start).min(to.saturating_sub(1));
    let last = place(start + len).clamp(first + 1, to.max(first + 1));
    (first, last - first)
}

/// The smallest size in the ratio of `full` that covers `size`.
fn covering(full: Sides, size: Sides) -> Sides {
    let Sides { height, width } = full;
    let is_height_exact =
        size.height as u128 * width as u128 >= size.width as u128 * height as u128;
    if is_height_exact {
        return Sides {
            height: size.height,
            width: truncated(as_f64(size.height * width) / as_f64(height)),
        };
    }
    Sides { height: truncated(as_f64(size.width * height) / as_f64(width)), width: size.width }
}

/// The largest size in the ratio of `full` that fits into `size`.
pub(crate) fn contained(full: Sides, size: Sides) -> Sides {
    let (height, width) = (as_f64(full.height), as_f64(full.width));
    let (image_ratio, ratio) = (width / height, as_f64(size.width) / as_f64(size.height));
    if image_ratio > ratio {
        let rounded = truncated((height / width * as_f64(size.width)).round_ties_even());
        return Sides { height: rounded.clamp(1, size.height), width: size.width };
    }
    if image_ratio < ratio {
        let rounded = truncated((width / height * as_f64(size.height)).round_ties_even());
        return Sides { height: size.height, width: rounded.clamp(1, size.width) };
    }
    size
}

/// `RandomResizedCrop.make_params`, with its own random numbers: ten tries, then the largest box in
/// the middle whose ratio is allowed.
fn random_region(full: Sides, scale: (f64, f64), ratio: (f64, f64), draw: Draw) -> Region {
    let mut stream = draw.stream(Purpose::Crop);
    let mut between = |low: f64, high: f64| low + (high - low) * stream.uniform();
    let area = as_f64(full.height) * as_f64(full.width);
    let mut found = None;
    for _ in 0..10 {
        let area = area * between(scale.0, scale.1);
        let ratio = between(ratio.0.ln(), ratio.1.ln()).exp();
        let width = truncated((area * ratio).sqrt().round_ties_even());
        let height = truncated((area / ratio).sqrt().round_ties_even());
        if (1..=full.width).contains(&width) && (1..=full.height).contains(&height) {
            found = Some(Sides { height, width });
            break;
        }
    }
    if let Some(Sides { height, width }) = found {
        let top = stream.below(full.height - height + 1);
        let left = stream.below(full.width - width + 1);
        return Region { top, left, height, width };
    }
    let (low, high) = (ratio.0.min(ratio.1), ratio.0.max(ratio.1));
    let of_image = as_f64(full.width) / as_f64(full.height);
    let (mut height, mut width) = (full.height, full.width);
    if of_image < low {
        height = truncated((as_f64(width) / low).round_ties_even()).clamp(1, full.height);
    } else if of_image > high {
        width = truncated((as_f64(height) * high).round_ties_even()).clamp(1, full.width);
    }
    Region { top: (full.height - height) / 2, left: (full.width - width) / 2, height, width }
}

/// Half of a surplus, rounded half to even as Python's `round` does.
fn half_to_even(surplus: usize) -> usize {
    surplus / 2 + usize::from(surplus % 4 == 3)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "as Python's division: products of two sides are below 2^53 for images that exist"
)]
fn as_f64(value: usize) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "truncation is meant, and sizes are positive"
)]
fn truncated(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::augment::Draws;

    const RANDOM: Fit = Fit::RandomCrop { scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };

    fn sides(height: usize, width: usize) -> Sides {
        Sides { height, width }
    }

    fn draw(row: u64) -> Draw {
        Draws::new(0, 0, "image").at(row, 0, 0)
    }

    fn geometry(oriented: Sides, size: Sides, fit: Fit) -> Geometry {
        Geometry::new(oriented, Some(size), fit, 0.0, draw(0)).unwrap()
    }

    #[test]
    fn crop_truncates_the_long_side_and_rounds_offsets_half_to_even() {
        // (height, width), size, then target and offset of torchvision's Resize and CenterCrop.
        let cases = [
            ((375, 500), 224, (224, 298), (0, 37)),
            ((500, 333), 224, (336, 224), (56, 0)),
            ((100, 101), 100, (100, 101), (0, 0)),
            ((100, 103), 100, (100, 103), (0, 2)),
            ((7, 7), 3, (3, 3), (0, 0)),
        ];
        for ((height, width), size, target, (top, left)) in cases {
            let got = geometry(sides(height, width), sides(size, size), Fit::Crop);
            assert_eq!(got.target, sides(target.0, target.1));
            assert_eq!(got.window, Region { top, left, height: size, width: size });
            assert_eq!((got.canvas, got.offset), (sides(size, size), (0, 0)));
        }
    }

    #[test]
    fn pad_and_longest_fit_as_in_image_ops() {
        let padded = geometry(sides(375, 500), sides(224, 224), Fit::Pad);
        assert_eq!(
            (padded.target, padded.canvas, padded.offset),
            (sides(168, 224), sides(224, 224), (28, 0))
        );
        let longest = geometry(sides(500, 375), sides(224, 224), Fit::Longest);
        assert_eq!((longest.target, longest.canvas), (sides(224, 168), sides(224, 168)));
        assert_eq!(geometry(sides(1, 5000), sides(224, 224), Fit::Longest).target, sides(1, 224));
    }

    #[test]
    fn sizes_that_cannot_be_are_errors() {
        assert_eq!(
            Geometry::new(sides(5, 5), None, Fit::Crop, 0.0, draw(0)),
            Err(ShapeError::NoSize)
        );
        assert!(matches!(
            Geometry::new(sides(5, 5), Some(sides(0, 5)), Fit::Pad, 0.0, draw(0)),
            Err(ShapeError::Sides { .. })
        ));
        assert!(matches!(
            Geometry::new(sides(0, 5), None, Fit::Keep, 0.0, draw(0)),
            Err(ShapeError::Sides { .. })
        ));
        assert_eq!(
            Geometry::new(sides(5, 7), None, Fit::Keep, 0.0, draw(0)).unwrap().canvas,
            sides(5, 7)
        );
    }

    #[test]
    fn random_crops_have_the_means_of_torchvision() {
        // Means of top, left, height and width over 20,000 draws of `RandomResizedCrop.get_params`.
        for (height, width, expected) in
            [(375, 500, [51.9, 108.5, 270.7, 282.5]), (100, 900, [1.4, 387.9, 97.2, 122.7])]
        {
            let mut sums = [0.0; 4];
            for row in 0..20_000 {
                let region =
                    Geometry::new(sides(height, width), Some(sides(9, 9)), RANDOM, 0.0, draw(row))
                        .unwrap()
                        .region;
                let found = [region.top, region.left, region.height, region.width].map(as_f64);
                sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += value / 20_000.0);
            }
            for (sum, expected) in sums.into_iter().zip(expected) {
                assert!((sum - expected).abs() < 0.02 * expected + 0.5, "{sums:?}");
            }
        }
    }

    #[test]
    fn random_crops_of_version_1_are_frozen() {
        let regions = [0, 1, 2].map(|row| {
            let region = Geometry::new(sides(375, 500), Some(sides(9, 9)), RANDOM, 0.0, draw(row))
                .unwrap()
                .region;
            [region.top, region.left, region.height, region.width]
        });
        assert_eq!(regions, [[2, 131, 270, 340], [16, 4, 198, 252], [28, 70, 329, 385]]);
    }

    #[test]
    fn an_image_without_an_allowed_box_is_cropped_in_the_middle() {
        let region = geometry(
            sides(2, 100_000),
            sides(9, 9),
            Fit::RandomCrop { scale: (0.9, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) },
        )
        .region;
        assert_eq!(region, Region { top: 0, left: 49_998, height: 2, width: 3 });
    }

    #[test]
    fn flips_have_their_probability() {
        let flips = |flip| {
            (0..4000)
                .filter(|row| {
                    Geometry::new(sides(5, 5), None, Fit::Keep, flip, draw(*row)).unwrap().flip
                })
                .count()
        };
        assert_eq!((flips(0.0), flips(1.0)), (0, 4000));
        assert!((1850..2150).contains(&flips(0.5)), "{}", flips(0.5));
    }

    #[test]
    fn reduction_without_headroom_is_that_of_draft() {
        // (height, width), the size given to `Image.draft`, and the scale that Pillow 13 chose.
        let cases = [
            ((1215, 325), (150, 52), 4),
            ((1064, 291), (261, 250), 1),
            ((827, 1384), (68, 127), 8),
            ((1611, 1294), (376, 21), 4),
            ((595, 962), (137, 389), 2),
            ((1985, 1260), (182, 72), 8),
            ((527, 1182), (138, 196), 2),
        ];
        for ((height, width), (to_height, to_width), scale) in cases {
            let stretched =
                geometry(sides(height, width), sides(to_height, to_width), Fit::Stretch);
            assert_eq!(stretched.reduction(1), scale);
            assert!(stretched.reduction(2) <= scale);
        }
    }

    #[test]
    fn reduction_with_headroom_keeps_twice_the_target() {
        // (height, width), target, scale without and with headroom.
        let cases = [
            ((1080, 1920), (224, 398), 4, 2),
            ((1792, 1791), (224, 224), 4, 2),
            ((1792, 1792), (224, 224), 8, 4),
            ((375, 500), (224, 224), 1, 1),
        ];
        for ((height, width), (to_height, to_width), draft, fast) in cases {
            let stretched =
                geometry(sides(height, width), sides(to_height, to_width), Fit::Stretch);
            assert_eq!((stretched.reduction(1), stretched.reduction(2)), (draft, fast));
        }
    }

    proptest! {
        #[test]
        fn every_part_lies_in_its_whole(
            (height, width, to_height, to_width) in
                (1_usize..3000, 1_usize..3000, 1_usize..600, 1_usize..600),
            (fit, row, scale) in (0_usize..7, any::<u64>(), 1_usize..9),
        ) {
            let fit = [Fit::Crop, Fit::CropEnd, Fit::Stretch, Fit::Pad, Fit::Longest, Fit::Keep, RANDOM][fit];
            let (full, size) = (sides(height, width), sides(to_height, to_width));
            let got = Geometry::new(full, Some(size), fit, 0.5, draw(row)).unwrap();
            prop_assert!(got.region.within(full).is_ok());
            prop_assert!(got.window.within(got.target).is_ok());
            let place = Region {
                top: got.offset.0,
                left: got.offset.1,
                height: got.window.height,
                width: got.window.width,
            };
            prop_assert!(place.within(got.canvas).is_ok());
            if !matches!(fit, Fit::Keep | Fit::Longest) {
                prop_assert_eq!(got.canvas, size);
            }
            let decoded = sides(height.div_ceil(scale), width.div_ceil(scale));
            let scaled = got.scaled(full, decoded);
            prop_assert!(scaled.region.within(decoded).is_ok());
            if got.region == full.whole() {
                prop_assert_eq!(scaled.region, decoded.whole());
            }
            prop_assert_eq!(got.scaled(full, full), got);
        }
    }
}
