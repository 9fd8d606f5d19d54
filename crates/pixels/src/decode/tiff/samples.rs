//! Writes rows of samples where they belong.
//!
//! Invariant: a pixel keeps the first samples that its layout has; others are left out.

use crate::decode::palette::unpacked;
use crate::decode::raster::Layout;
use crate::decode::tiff::page::Meaning;

/// Where a row of a chunk goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) left: usize,
    /// Pixels inside of the image.
    pub(super) count: usize,
    /// The sample that the chunk contains, where planes are apart.
    pub(super) plane: Option<usize>,
}

/// Writes `row` into the row `to` of the image.
pub(super) fn write(meaning: &Meaning, row: &[u8], place: Place, to: &mut [u8]) {
    let samples = meaning.layout.samples();
    let to = to.get_mut(place.left * samples..).unwrap_or_default();
    if let Some(palette) = &meaning.palette {
        let to = to.get_mut(..place.count * samples).unwrap_or_default();
        // Of a second sample nothing is kept.
        let step = if place.plane.is_none() { meaning.samples } else { 1 };
        if place.plane.is_none_or(|plane| plane == 0) {
            palette.expand(unpacked(row, meaning.bits).step_by(step), meaning.layout, to);
        }
        return;
    }
    let (width, high) = if meaning.bits == 16 { (2, meaning.high_byte) } else { (1, 0) };
    let pixels = to.chunks_exact_mut(samples).take(place.count);
    match place.plane {
        Some(plane) => {
            for (sample, pixel) in row.chunks_exact(width).zip(pixels) {
                if let (Some(value), Some(to)) = (sample.get(high), pixel.get_mut(plane)) {
                    *to = *value;
                }
            }
        }
        None => {
            for (stored, pixel) in row.chunks_exact(width * meaning.samples).zip(pixels) {
                stored
                    .iter()
                    .skip(high)
                    .step_by(width)
                    .zip(pixel)
                    .for_each(|(value, to)| *to = *value);
            }
        }
    }
}

/// What is done when all samples of the page are there.
pub(super) fn finish(meaning: &Meaning, pixels: &mut [u8]) {
    if meaning.is_inverted {
        pixels.iter_mut().for_each(|value| *value = !*value);
    }
    if meaning.is_premultiplied {
        let samples = meaning.layout.samples();
        debug_assert!(matches!(meaning.layout, Layout::Rgba | Layout::GrayAlpha));
        for pixel in pixels.chunks_exact_mut(samples) {
            if let Some((alpha, colors)) = pixel.split_last_mut() {
                colors.iter_mut().for_each(|color| *color = divided(*color, *alpha));
            }
        }
    }
}

/// The color before it was multiplied by alpha, as Pillow finds it.
fn divided(color: u8, alpha: u8) -> u8 {
    match alpha {
        0 => 0,
        255 => color,
        alpha => u8::try_from(255 * u32::from(color) / u32::from(alpha)).unwrap_or(u8::MAX),
    }
}
