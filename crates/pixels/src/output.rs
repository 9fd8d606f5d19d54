//! Writes resized pixels into their place in a batch: layout, channels, mirroring, normalization
//! and background in one go.
//!
//! A window of pixels and its [`Geometry`] enter, the bytes of one output leave. Invariant: each
//! value is a table's entry for the pixel, so output is equal on every machine.

use crate::decode::Channels;
use crate::geometry::Geometry;
use crate::patches::Patches;
use crate::raster::{Raster, ShapeError, Sides};
use crate::resize::split_channels;

/// The type of an output value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dtype {
    #[default]
    U8,
    F32,
    /// The upper half of an `f32`, rounded half to even.
    Bf16,
}

impl Dtype {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }
}

/// The order of an output's axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    #[default]
    Chw,
    Hwc,
    /// Of the three channels of an image without a background.
    Patches(Patches),
}

impl Layout {
    /// How often a pixel comes in an output.
    pub fn copies(self) -> usize {
        if let Self::Patches(patches) = self { patches.frames.max(1) } else { 1 }
    }
}

/// Mean and standard deviation of each channel, for pixels of [0, 1]. A gray output uses those of
/// the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalize {
    pub mean: [f64; 3],
    pub std: [f64; 3],
}

impl Normalize {
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] };
    pub const CLIP: Self = Self {
        mean: [0.481_454_66, 0.457_827_5, 0.408_210_73],
        std: [0.268_629_54, 0.261_302_58, 0.275_777_11],
    };
    pub const SIGLIP: Self = Self { mean: [0.5; 3], std: [0.5; 3] };

    /// Returns the preset of a name: `"imagenet"`, `"clip"` or `"siglip"`.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "imagenet" => Some(Self::IMAGENET),
            "clip" => Some(Self::CLIP),
            "siglip" => Some(Self::SIGLIP),
            _ => None,
        }
    }
}

type Table<const BYTES: usize> = [[u8; BYTES]; 256];

/// The bytes of each value of each channel.
#[derive(Debug, Clone)]
enum Values {
    Same,
    Two(Box<[Table<2>; 3]>),
    Four(Box<[Table<4>; 3]>),
}

/// Writes outputs of one kind. Its tables are made once, and shared by all threads.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    values: Values,
    layout: Layout,
    channels: Channels,
    background: [u8; 3],
}

impl Output {
    pub(crate) fn new(
        dtype: Dtype,
        normalize: Option<Normalize>,
        layout: Layout,
        channels: Channels,
        background: [u8; 3],
    ) -> Self {
        let values = match dtype {
            Dtype::U8 => Values::Same,
            Dtype::F32 => Values::Four(Box::new(tables(normalize, f32::to_ne_bytes))),
            Dtype::Bf16 => {
                Values::Two(Box::new(tables(normalize, |value| bfloat16(value).to_ne_bytes())))
            }
        };
        Self { values, layout, channels, background }
    }

    /// Writes `window` to its place on the canvas. What is around it stays.
    ///
    /// # Errors
    /// If `out` has another length than the canvas, or the window is not where the geometry says.
    pub(crate) fn write(
        &self,
        window: Raster<'_>,
        geometry: &Geometry,
        out: &mut [u8],
    ) -> Result<(), ShapeError> {
        match &self.values {
            Values::Same => self.write_values(window, geometry, out, &Same),
            Values::Two(tables) => self.write_values(window, geometry, out, tables.as_ref()),
            Values::Four(tables) => self.write_values(window, geometry, out, tables.as_ref()),
        }
    }

    fn write_values<const BYTES: usize>(
        &self,
        window: Raster<'_>,
        geometry: &Geometry,
        out: &mut [u8],
        lookup: &impl Lookup<BYTES>,
    ) -> Result<(), ShapeError> {
        let canvas = geometry.canvas;
        let place = crate::Region {
            top: geometry.offset.0,
            left: geometry.offset.1,
            ..window.sides().whole()
        };
        place.within(canvas)?;
        let count = self.channels.count();
        let needed = canvas.height * canvas.width * count * self.layout.copies() * BYTES;
        if out.len() != needed {
            return Err(ShapeError::Output { found: out.len(), needed });
        }
        let out = out.as_chunks_mut::<BYTES>().0;
        if let Layout::Patches(patches) = self.layout {
            let mut band: Vec<[u8; 3]> = Vec::new();
            let (mut rows, mut y) = (window.rows(), place.top);
            while y < place.top + place.height {
                let count = patches.rows_of_band(y).min(place.top + place.height - y);
                band.clear();
                for row in rows.by_ref().take(count) {
                    let start = band.len();
                    match window.channels() {
                        1 => band.extend(row.iter().map(|value| [*value; 3])),
                        _ => band.extend_from_slice(pixels_of::<3>(row)),
                    }
                    if geometry.flip {
                        band.get_mut(start..).unwrap_or_default().reverse();
                    }
                }
                patches.write_band(y, (&band, place.width), out, |channel, value| {
                    lookup.value(channel, value)
                });
                y += count;
            }
            return Ok(());
        }
        let left = if geometry.flip { canvas.width - place.left - place.width } else { place.left };
        if count == 1 || self.layout == Layout::Hwc {
            let rows = out.chunks_exact_mut(canvas.width * count).skip(place.top);
            for (row, out) in window.rows().zip(rows) {
                let out =
                    out.get_mut(left * count..(left + place.width) * count).unwrap_or_default();
                match count {
                    1 => write_plane(out, pixels_of::<1>(row), geometry.flip, |[value]| {
                        lookup.value(0, value)
                    }),
                    _ if window.channels() == 1 => interleave(
                        out,
                        pixels_of::<1>(row),
                        geometry.flip,
                        |[value]| [value; 3],
                        lookup,
                    ),
                    _ => interleave(out, pixels_of::<3>(row), geometry.flip, |pixel| pixel, lookup),
                }
            }
            return Ok(());
        }
        let (red, rest) = out.split_at_mut(canvas.height * canvas.width);
        let (green, blue) = rest.split_at_mut(canvas.height * canvas.width);
        let mut planes = [red, green, blue];
        for (y, row) in window.rows().enumerate() {
            let start = (place.top + y) * canvas.width + left;
            let outs = planes
                .each_mut()
                .map(|plane| plane.get_mut(start..start + place.width).unwrap_or_default());
            if window.channels() == 3 {
                lookup.split(pixels_of::<3>(row), outs, geometry.flip);
                continue;
            }
            for (channel, out) in outs.into_iter().enumerate() {
                write_plane(out, pixels_of::<1>(row), geometry.flip, |[value]| {
                    lookup.value(channel, value)
                });
            }
        }
        Ok(())
    }

    /// Fills a canvas with the background.
    pub(crate) fn fill(&self, sides: Sides, out: &mut [u8]) {
        match &self.values {
            Values::Same => self.fill_values(sides, out, &Same),
            Values::Two(tables) => self.fill_values(sides, out, tables.as_ref()),
            Values::Four(tables) => self.fill_values(sides, out, tables.as_ref()),
        }
    }

    fn fill_values<const BYTES: usize>(
        &self,
        sides: Sides,
        out: &mut [u8],
        lookup: &impl Lookup<BYTES>,
    ) {
        let (out, pixel, count) =
            (out.as_chunks_mut::<BYTES>().0, self.background_of(lookup), self.channels.count());
        let is_planar = count > 1 && self.layout == Layout::Chw;
        let run = if is_planar { (sides.height * sides.width).max(1) } else { 1 };
        for (values, filled) in out.chunks_mut(run).zip(pixel.iter().take(count).cycle()) {
            values.fill(*filled);
        }
    }

    fn background_of<const BYTES: usize>(&self, lookup: &impl Lookup<BYTES>) -> [[u8; BYTES]; 3] {
        let [red, green, blue] = match self.channels {
            Channels::Rgb => self.background,
            Channels::Gray => [crate::luma::luma(self.background); 3],
        };
        [lookup.value(0, red), lookup.value(1, green), lookup.value(2, blue)]
    }
}

fn pixels_of<const CHANNELS: usize>(row: &[u8]) -> &[[u8; CHANNELS]] {
    row.as_chunks().0
}

#[inline]
fn write_plane<const BYTES: usize>(
    out: &mut [[u8; BYTES]],
    pixels: &[[u8; 1]],
    flip: bool,
    value: impl Fn([u8; 1]) -> [u8; BYTES],
) {
    if flip {
        out.iter_mut().zip(pixels.iter().rev()).for_each(|(out, pixel)| *out = value(*pixel));
    } else {
        out.iter_mut().zip(pixels).for_each(|(out, pixel)| *out = value(*pixel));
    }
}

#[inline]
fn interleave<const CHANNELS: usize, const BYTES: usize>(
    out: &mut [[u8; BYTES]],
    pixels: &[[u8; CHANNELS]],
    flip: bool,
    rgb: impl Fn([u8; CHANNELS]) -> [u8; 3],
    lookup: &impl Lookup<BYTES>,
) {
    let write = |(out, pixel): (&mut [[u8; BYTES]; 3], &[u8; CHANNELS])| {
        let [red, green, blue] = rgb(*pixel);
        *out = [lookup.value(0, red), lookup.value(1, green), lookup.value(2, blue)];
    };
    let out = out.as_chunks_mut::<3>().0.iter_mut();
    if flip {
        out.zip(pixels.iter().rev()).for_each(write);
    } else {
        out.zip(pixels).for_each(write);
    }
}

/// The bytes that a value of a channel becomes.
trait Lookup<const BYTES: usize> {
    fn value(&self, channel: usize, value: u8) -> [u8; BYTES];

    /// Writes the pixels of a row to the rows of three planes.
    fn split(&self, pixels: &[[u8; 3]], planes: [&mut [[u8; BYTES]]; 3], flip: bool) {
        for (channel, out) in planes.into_iter().enumerate() {
            let value =
                |pixel: &[u8; 3]| self.value(channel, pixel.get(channel).copied().unwrap_or(0));
            if flip {
                out.iter_mut().rev().zip(pixels).for_each(|(out, pixel)| *out = value(pixel));
            } else {
                out.iter_mut().zip(pixels).for_each(|(out, pixel)| *out = value(pixel));
            }
        }
    }
}

struct Same;

impl Lookup<1> for Same {
    #[inline]
    fn value(&self, _: usize, value: u8) -> [u8; 1] {
        [value]
    }

    fn split(&self, pixels: &[[u8; 3]], planes: [&mut [[u8; 1]]; 3], flip: bool) {
        split_channels(pixels, planes.map(<[[u8; 1]]>::as_flattened_mut), flip);
    }
}

impl<const BYTES: usize> Lookup<BYTES> for [Table<BYTES>; 3] {
    #[inline]
    fn value(&self, channel: usize, value: u8) -> [u8; BYTES] {
        self.get(channel)
            .and_then(|table| table.get(usize::from(value)))
            .copied()
            .unwrap_or([0; BYTES])
    }
}

fn tables<const BYTES: usize>(
    normalize: Option<Normalize>,
    bytes: impl Fn(f32) -> [u8; BYTES],
) -> [Table<BYTES>; 3] {
    std::array::from_fn(|channel| {
        let mut table = [[0; BYTES]; 256];
        for (entry, value) in table.iter_mut().zip(0_u8..=255) {
            *entry = bytes(normalized(normalize, channel, f32::from(value)));
        }
        table
    })
}

/// `TorchvisionBackend.rescale_and_normalize` of transformers: mean and deviation are scaled in
/// single precision, not the pixel.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a tensor of Python floats is rounded to single precision too"
)]
fn normalized(normalize: Option<Normalize>, channel: usize, value: f32) -> f32 {
    let Some(Normalize { mean, std }) = normalize else { return value / 255.0 };
    let scaled = |of: [f64; 3]| of.get(channel).map_or(1.0, |number| *number as f32 * 255.0);
    (value - scaled(mean)) / scaled(std)
}

/// Rounds half to even. Not a number stays that: the mantissa cannot carry out of its set bit.
fn bfloat16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return ((bits >> 16) as u16) | 0x40;
    }
    ((bits.wrapping_add(0x7FFF + ((bits >> 16) & 1))) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raster::{Region, Sides};

    const PIXELS: [u8; 12] = [0, 1, 128, 255, 4, 5, 6, 7, 8, 9, 10, 11];

    /// Writes the 2 x 2 pixels to a canvas of 2 x 4, one column from the left.
    fn written(output: &Output, flip: bool) -> Vec<u8> {
        let window = Sides { height: 2, width: 2 }.whole();
        let canvas = Sides { height: 2, width: 4 };
        let geometry = Geometry {
            region: window,
            target: window.sides(),
            window,
            canvas,
            offset: (0, 1),
            flip,
        };
        let pixels = Raster::new(&PIXELS, window.sides(), 3).unwrap();
        let mut out = vec![0xAA; 8 * output.channels.count() * 4];
        let len = if matches!(output.values, Values::Same) { out.len() / 4 } else { out.len() };
        output.fill(geometry.canvas, &mut out[..len]);
        output.write(pixels, &geometry, &mut out[..len]).unwrap();
        out.truncate(len);
        out
    }

    #[test]
    fn planes_and_pixels_are_placed_on_the_background() {
        let output = |layout| Output::new(Dtype::U8, None, layout, Channels::Rgb, [20, 30, 40]);
        let planes = [
            20, 0, 255, 20, 20, 6, 9, 20, 30, 1, 4, 30, 30, 7, 10, 30, 40, 128, 5, 40, 40, 8, 11,
            40,
        ];
        assert_eq!(written(&output(Layout::Chw), false), planes);
        let pixels = [
            20, 30, 40, 255, 4, 5, 0, 1, 128, 20, 30, 40, 20, 30, 40, 9, 10, 11, 6, 7, 8, 20, 30,
            40,
        ];
        assert_eq!(written(&output(Layout::Hwc), true), pixels);
    }

    #[test]
    fn normalized_values_are_those_of_torch() {
        let output = Output::new(
            Dtype::F32,
            Some(Normalize::IMAGENET),
            Layout::Hwc,
            Channels::Rgb,
            [255; 3],
        );
        let bits: Vec<u32> = written(&output, false)
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| u32::from_ne_bytes(*bytes))
            .collect();
        assert_eq!(bits[..3], [0x400f_ee1d, 0x401b_6db6, 0x4028_f5c3]);
        assert_eq!(bits[3..6], [0xc007_8bbd, 0xc001_2a4e, 0x3eda_5d36]);
    }

    #[test]
    fn bfloat16_is_rounded_half_to_even() {
        for (bits, rounded) in [
            (0x400f_ee1d, 0x4010),
            (0x3f80_8000, 0x3f80),
            (0x3f81_8000, 0x3f82),
            (0x3f80_8001, 0x3f81),
            (0x7fff_ffff, 0x7fff),
        ] {
            assert_eq!(bfloat16(f32::from_bits(bits)), rounded, "{bits:x}");
        }
    }

    #[test]
    fn outputs_of_another_length_are_errors() {
        let window = Region { top: 0, left: 0, height: 2, width: 2 };
        let sides = window.sides();
        let geometry = Geometry {
            region: window,
            target: sides,
            window,
            canvas: sides,
            offset: (0, 0),
            flip: false,
        };
        let output = Output::new(Dtype::U8, None, Layout::Chw, Channels::Rgb, [0; 3]);
        let pixels = Raster::new(&PIXELS, sides, 3).unwrap();
        assert_eq!(
            output.write(pixels, &geometry, &mut [0; 11]),
            Err(ShapeError::Output { found: 11, needed: 12 })
        );
        let moved = Geometry { offset: (0, 1), ..geometry };
        assert!(matches!(
            output.write(pixels, &moved, &mut [0; 12]),
            Err(ShapeError::Region { .. })
        ));
    }
}
