//! Colors of indices, and samples of fewer than eight bits.
//!
//! Invariant: a palette has 256 entries. Those that a file does not state are black, as in Pillow.

use crate::decode::raster::Layout;

/// RGBA by index.
#[derive(Debug, Clone)]
pub(crate) struct Palette([[u8; 4]; 256]);

impl Palette {
    /// Index `k` is gray `k`.
    pub(crate) fn gray() -> Self {
        let mut colors = [[0, 0, 0, 255]; 256];
        for (value, color) in (0..=255_u8).zip(&mut colors) {
            *color = [value, value, value, 255];
        }
        Self(colors)
    }

    /// The stated colors, then black.
    pub(crate) fn stated(colors: impl Iterator<Item = [u8; 3]>) -> Self {
        let mut palette = Self([[0, 0, 0, 255]; 256]);
        for (entry, [red, green, blue]) in palette.0.iter_mut().zip(colors) {
            *entry = [red, green, blue, 255];
        }
        palette
    }

    pub(crate) fn set_alpha(&mut self, index: u8, alpha: u8) {
        if let Some([_, _, _, value]) = self.0.get_mut(usize::from(index)) {
            *value = alpha;
        }
    }

    /// The layout that loses nothing.
    pub(crate) fn layout(&self, keeps_alpha: bool) -> Layout {
        if keeps_alpha && self.0.iter().any(|[_, _, _, alpha]| *alpha != 255) {
            Layout::Rgba
        } else if self.0.iter().all(|[red, green, blue, _]| red == green && green == blue) {
            Layout::Gray
        } else {
            Layout::Rgb
        }
    }

    pub(crate) fn color(&self, index: u8) -> [u8; 4] {
        self.0.get(usize::from(index)).copied().unwrap_or_default()
    }

    /// Writes a pixel of `layout` for each index.
    pub(crate) fn expand(
        &self,
        indices: impl Iterator<Item = u8>,
        layout: Layout,
        pixels: &mut [u8],
    ) {
        let samples = layout.samples();
        for (index, pixel) in indices.zip(pixels.chunks_exact_mut(samples)) {
            if let Some(color) = self.color(index).get(..samples) {
                pixel.copy_from_slice(color);
            }
        }
    }
}

/// The samples of a row of 1, 2, 4 or 8 bits each, first in the high bits.
pub(crate) fn unpacked(row: &[u8], bits: u8) -> impl Iterator<Item = u8> + '_ {
    let per_byte = 8 / bits.clamp(1, 8);
    let mask = u8::try_from((1_u16 << bits.min(8)) - 1).unwrap_or(u8::MAX);
    row.iter()
        .flat_map(move |byte| (0..per_byte).map(move |k| (byte >> (8 - bits * (k + 1))) & mask))
}

/// The factor that brings the largest sample of `bits` to 255.
pub(crate) fn spread(bits: u8) -> u8 {
    match bits {
        1 => 255,
        2 => 85,
        4 => 17,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_is_in_the_high_bits() {
        assert_eq!(unpacked(&[0b1000_0001], 1).collect::<Vec<_>>(), [1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(unpacked(&[0b1101_1000], 2).collect::<Vec<_>>(), [3, 1, 2, 0]);
        assert_eq!(unpacked(&[0xa5, 0x0f], 4).collect::<Vec<_>>(), [10, 5, 0, 15]);
        assert_eq!(unpacked(&[7], 8).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn gray_palette_is_one_channel_until_a_color_or_alpha_is_set() {
        let mut palette = Palette::gray();
        assert_eq!(palette.layout(true), Layout::Gray);
        palette.set_alpha(3, 0);
        assert_eq!((palette.layout(true), palette.layout(false)), (Layout::Rgba, Layout::Gray));
        assert_eq!(Palette::stated([[1, 2, 3]].into_iter()).layout(true), Layout::Rgb);
    }
}
