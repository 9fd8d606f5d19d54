//! Any image to any size by any filter: the SIMD kernel of this CPU is equal to the scalar code.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use shardmill_pixels::{Filter, Raster, Region, Resizer, Sides};

const FILTERS: [Filter; 6] = [
    Filter::Nearest,
    Filter::Box,
    Filter::Bilinear,
    Filter::Hamming,
    Filter::Bicubic,
    Filter::Lanczos,
];

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    width: u8,
    height: u8,
    to_width: u8,
    to_height: u8,
    corner: (u8, u8),
    /// Filter, channels, and whether the image is a part of a larger one.
    flags: u8,
    pixels: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let side = |side: u8| usize::from(side) + 1;
    let channels = if input.flags & 1 == 1 { 3 } else { 1 };
    let margin = usize::from(input.flags >> 1 & 1);
    let outer = Sides { height: side(input.height) + margin, width: side(input.width) + margin };
    let source = if input.pixels.is_empty() { &[128] } else { input.pixels };
    let pixels: Vec<u8> =
        source.iter().copied().cycle().take(outer.height * outer.width * channels).collect();
    let part =
        Region { top: margin, left: 0, height: side(input.height), width: side(input.width) };
    let image = Raster::new(&pixels, outer, channels).unwrap().crop(part).unwrap();
    let target = Sides { height: side(input.to_height), width: side(input.to_width) };
    let (top, left) =
        (usize::from(input.corner.0) % target.height, usize::from(input.corner.1) % target.width);
    let window = Region { top, left, height: target.height - top, width: target.width - left };
    let filter = FILTERS[usize::from(input.flags >> 2) % FILTERS.len()];
    let (mut kernel, mut scalar) = (Resizer::new(), Resizer::scalar());
    let kernel = kernel.resize(image, target, window, filter).unwrap();
    let scalar = scalar.resize(image, target, window, filter).unwrap();
    assert!(kernel.rows().eq(scalar.rows()));
});
