//! Brings what codecs leave to one or three channels.
//!
//! The integer formulas are Pillow's. Conversions work in place: front to back where pixels shrink,
//! and back to front where gray takes on the color of its background. Invariant: the first
//! `pixels × channels` bytes of the buffer are the result.

use crate::decode::options::Channels;
use crate::decode::raster::{Layout, Raster};

/// The color model asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) channels: Channels,
    pub(crate) background: Option<[u8; 3]>,
}

/// Converts the pixels in `buffer`, and returns the number of channels.
pub(crate) fn convert(raster: Raster, buffer: &mut Vec<u8>, wanted: Wanted) -> usize {
    if let (Layout::GrayAlpha, Some(background @ [red, green, blue])) =
        (raster.layout, wanted.background)
        && (red != green || green != blue)
    {
        let len = raster.pixels().saturating_mul(3);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let pixels = buffer.get_mut(..len).unwrap_or_default();
        tint(pixels, raster.pixels(), background);
        return gray_if_wanted(raster, pixels, wanted);
    }
    let pixels = buffer.get_mut(..raster.len()).unwrap_or_default();
    match raster.layout {
        Layout::Gray => 1,
        Layout::GrayAlpha => {
            let background = wanted.background.map(|color| color[0]);
            map::<2, 1>(pixels, |[value, alpha]| {
                [background.map_or(value, |under| blend(value, under, alpha))]
            });
            1
        }
        Layout::Rgb => gray_if_wanted(raster, pixels, wanted),
        Layout::Rgba => {
            if let Some(background) = wanted.background {
                let [r, g, b] = background;
                map::<4, 3>(pixels, |[red, green, blue, alpha]| {
                    [blend(red, r, alpha), blend(green, g, alpha), blend(blue, b, alpha)]
                });
            } else {
                map::<4, 3>(pixels, |[red, green, blue, _]| [red, green, blue]);
            }
            gray_if_wanted(raster, pixels, wanted)
        }
        Layout::Cmyk => {
            map::<4, 3>(pixels, |[cyan, magenta, yellow, black]| {
                [ink(cyan, black), ink(magenta, black), ink(yellow, black)]
            });
            gray_if_wanted(raster, pixels, wanted)
        }
    }
}

fn gray_if_wanted(raster: Raster, pixels: &mut [u8], wanted: Wanted) -> usize {
    if wanted.channels == Channels::Rgb {
        return 3;
    }
    let rgb = pixels.get_mut(..raster.pixels().saturating_mul(3)).unwrap_or_default();
    map::<3, 1>(rgb, |[red, green, blue]| [luma(red, green, blue)]);
    1
}

/// Composites gray and alpha on a color.
fn tint(bytes: &mut [u8], pixels: usize, background: [u8; 3]) {
    for k in (0..pixels).rev() {
        let Some(&[value, alpha]) = bytes.get(2 * k..).and_then(|rest| rest.first_chunk()) else {
            continue;
        };
        if let Some(to) = bytes.get_mut(3 * k..).and_then(|rest| rest.first_chunk_mut()) {
            *to = background.map(|under| blend(value, under, alpha));
        }
    }
}

/// Replaces each `FROM` bytes by `TO` bytes, where `TO` is not larger.
fn map<const FROM: usize, const TO: usize>(
    bytes: &mut [u8],
    convert: impl Fn([u8; FROM]) -> [u8; TO],
) {
    let pixels = bytes.len() / FROM;
    for k in 0..pixels {
        let Some(&from) = bytes.get(k * FROM..).and_then(|rest| rest.first_chunk::<FROM>()) else {
            return;
        };
        if let Some(to) = bytes.get_mut(k * TO..).and_then(|rest| rest.first_chunk_mut::<TO>()) {
            *to = convert(from);
        }
    }
}

/// `round(color · alpha / 255 + under · (1 − alpha / 255))`, as `alpha_composite` rounds it.
fn blend(color: u8, under: u8, alpha: u8) -> u8 {
    let sum = u32::from(color) * u32::from(alpha) + u32::from(under) * u32::from(255 - alpha) + 128;
    narrow((sum + (sum >> 8)) >> 8)
}

/// `L` of Pillow.
fn luma(red: u8, green: u8, blue: u8) -> u8 {
    narrow(
        (19_595 * u32::from(red) + 38_470 * u32::from(green) + 7_471 * u32::from(blue) + 32_768)
            >> 16,
    )
}

/// The light that is left of one channel.
fn ink(color: u8, black: u8) -> u8 {
    let paper = 255 - u32::from(black);
    let product = u32::from(color) * paper + 128;
    narrow(paper.saturating_sub((product + (product >> 8)) >> 8))
}

fn narrow(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blend_rounds_to_nearest() {
        for alpha in 0..=255_u8 {
            for color in 0..=255_u8 {
                let exact =
                    (f64::from(color) * f64::from(alpha) + 255.0 * f64::from(255 - alpha)) / 255.0;
                assert_eq!(f64::from(blend(color, 255, alpha)), exact.round(), "{color} {alpha}");
            }
        }
    }

    #[test]
    fn full_black_leaves_nothing_and_no_ink_leaves_paper() {
        assert_eq!((ink(0, 0), ink(255, 0), ink(0, 255), ink(7, 255)), (255, 0, 0, 0));
    }

    #[test]
    fn luma_of_gray_is_the_value() {
        assert!((0..=255).all(|value| luma(value, value, value) == value));
    }
}
