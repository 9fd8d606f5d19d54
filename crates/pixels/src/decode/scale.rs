//! Chooses the scale at which a JPEG is decoded.
//!
//! A pure function of sizes. Invariant: `exact` never scales.

use shardmill_images::ImageSize;

/// How many pixels may be left out before the resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// All pixels are decoded: equal to Pillow.
    #[default]
    Exact,
    /// The decoded sides are at least twice the target's.
    Fast,
    /// The decoded sides are at least the target's, as `Image.draft` gives them.
    Draft,
}

/// The largest of 8, 4 and 2 by which `source` may be divided on its way to `target`; else 1.
#[must_use]
pub fn scale_denominator(mode: Mode, source: ImageSize, target: ImageSize) -> u32 {
    let margin = match mode {
        Mode::Exact => return 1,
        Mode::Fast => 2,
        Mode::Draft => 1,
    };
    // Pillow compares whole quotients of the unscaled sides, which is the same: n ≥ d·t and ⌊n/t⌋ ≥ d agree.
    let fits = |side: u32, target: u32, denominator: u32| u64::from(side) >= u64::from(target) * u64::from(denominator) * margin;
    let fits = |denominator: &u32| fits(source.width, target.width, *denominator) && fits(source.height, target.height, *denominator);
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denominator(mode: Mode, source: (u32, u32), target: (u32, u32)) -> u32 {
        let size = |(width, height)| ImageSize { width, height };
        scale_denominator(mode, size(source), size(target))
    }

    #[test]
    fn exact_never_scales() {
        assert_eq!(denominator(Mode::Exact, (6000, 4000), (1, 1)), 1);
    }

    #[test]
    fn draft_keeps_the_target_and_fast_twice_of_it() {
        assert_eq!(denominator(Mode::Draft, (1920, 1080), (398, 224)), 4);
        assert_eq!(denominator(Mode::Fast, (1920, 1080), (398, 224)), 2);
        assert_eq!(denominator(Mode::Draft, (1791, 1792), (224, 224)), 4);
        assert_eq!(denominator(Mode::Draft, (1792, 1792), (224, 224)), 8);
        assert_eq!(denominator(Mode::Fast, (500, 375), (224, 224)), 1);
    }

    #[test]
    fn empty_and_huge_targets_do_not_overflow() {
        assert_eq!(denominator(Mode::Draft, (10, 10), (0, 0)), 8);
        assert_eq!(denominator(Mode::Fast, (u32::MAX, u32::MAX), (u32::MAX, u32::MAX)), 1);
    }
}
