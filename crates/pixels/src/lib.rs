//! Turns encoded images into pixels of a batch: decode, convert colors,
//! resize, crop, flip, normalize.
//!
//! Everything is a pure function of the bytes and the options, so a batch is the same
//! on every thread, rank and machine. The reference is Pillow 13: integer arithmetic
//! that is equal on every CPU. Nothing here opens a file, and no size that a header states
//! is trusted before it was checked.

mod alpha;
mod augment;
mod build_info;
mod caught;
pub mod decode;
mod encode;
mod error;
mod geometry;
mod laplacian;
mod luma;
mod output;
mod parts;
mod patches;
mod phash;
mod raster;
mod reencoder;
mod renderer;
mod resize;
mod strips;
mod transform;

pub use augment::{AUGMENT_VERSION, Draw, Draws};
pub use build_info::{BuildInfo, build_info};
pub use caught::is_caught;
pub use decode::Channels;
pub use encode::Codec;
pub use error::{Cause, Error, Result};
pub use geometry::{Fit, Geometry};
pub use laplacian::laplacian_variance;
pub use output::{Dtype, Layout, Normalize};
pub use parts::Parts;
pub use patches::Patches;
pub use phash::phash;
pub use raster::{Raster, Region, ShapeError, Sides};
pub use reencoder::{Reencode, Reencoder};
pub use renderer::{Renderer, Rendering, Sizes};
pub use resize::{Filter, Resizer};
pub use transform::{Scratch, Spec, Transform};

#[cfg(test)]
mod test_jpegs;

/// The pixels of the tests whose expected values other libraries computed:
/// `(37 i + 11 i²) mod 256`.
#[cfg(test)]
fn test_pixels(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 37 + i * i * 11) & 0xFF).to_le_bytes()[0]).collect()
}
