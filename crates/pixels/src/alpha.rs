//! Alpha of a PNG that stays a PNG.
//!
//! Decoders composite on a background, and all other code here handles one or three channels. On
//! black, the colors are those that Pillow weights by alpha (mode `RGBa`). The difference between
//! white and black is what alpha lets through. Invariant: the rounding is that of Pillow.

use shardmill_images::{ImageFormat, sniff};

/// Whether the payload is a PNG with alpha or with a transparent color.
pub(crate) fn has_alpha(payload: &[u8]) -> bool {
    if sniff(payload) != Some(ImageFormat::Png) {
        return false;
    }
    let has_samples = payload.get(25).is_some_and(|kind| kind & 4 != 0);
    has_samples
        || chunk_names(payload).take_while(|name| name != b"IDAT").any(|name| &name == b"tRNS")
}

fn chunk_names(png: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    let mut at = 8;
    std::iter::from_fn(move || {
        let &[l3, l2, l1, l0, a, b, c, d] = png.get(at..)?.first_chunk()?;
        at = at.checked_add(12)?.checked_add(u32::from_be_bytes([l3, l2, l1, l0]) as usize)?;
        Some([a, b, c, d])
    })
}

/// The alpha of pixels that were composited on white and on black.
pub(crate) fn alpha_of(white: &[u8], black: &[u8], channels: usize) -> Vec<u8> {
    let step = channels.max(1);
    white
        .iter()
        .step_by(step)
        .zip(black.iter().step_by(step))
        .map(|(white, black)| 255 - white.saturating_sub(*black))
        .collect()
}

/// Divides colors by their alpha, as Pillow does; the color of a transparent pixel stays.
pub(crate) fn unweight(colors: &mut [u8], channels: usize, alpha: &[u8]) {
    for (pixel, alpha) in colors.chunks_exact_mut(channels.max(1)).zip(alpha) {
        if !matches!(alpha, 0 | 255) {
            let unweighted = |color: u8| {
                u8::try_from(255 * u32::from(color) / u32::from(*alpha)).unwrap_or(u8::MAX)
            };
            pixel.iter_mut().for_each(|color| *color = unweighted(*color));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_the_difference_between_white_and_black() {
        // As `blend` rounds.
        let on = |color: u32, under: u32, alpha: u32| {
            let sum = color * alpha + under * (255 - alpha) + 128;
            u8::try_from((sum + (sum >> 8)) >> 8).unwrap()
        };
        for alpha in 0..=255 {
            for color in 0..=255 {
                let found = alpha_of(&[on(color, 255, alpha)], &[on(color, 0, alpha)], 1);
                assert_eq!(u32::from(found[0]), alpha, "{color}");
            }
        }
    }
}
