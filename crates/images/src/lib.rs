//! Says how large an image is and copies one page out of a TIFF, without decoding a pixel.
//!
//! Bytes of one payload enter, by ranges that the state machines ask for; sizes and copy plans leave. The engine drives them over local files,
//! tar members and object stores; [`image_size`] and [`extract_page`] drive them over memory. Invariant: every requested range lies inside the
//! payload, and no number found in a payload is used before it was checked against the payload length.

mod endian;
mod error;
mod format;
mod size;
mod tiff;
mod window;

pub use error::{Error, Result};
pub use format::{ImageFormat, sniff};
pub use size::{ImageSize, SizeProbe, image_size};
pub use tiff::{PageCopy, PageExtraction, TiffIndex, TiffPage, TiffWalk, extract_page, tiff_index};
