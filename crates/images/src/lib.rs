//! Reads the size of an image and copies one page out of a TIFF, without decoding pixels.
//!
//! State machines request ranges of one payload, and return sizes and copy plans. The engine drives
//! them over local files, tar members and object stores; [`image_size`] and [`extract_page`] drive
//! them over memory. Invariant: every requested range is inside of the payload, and no number in a
//! payload is used before it was checked against the payload length.

mod endian;
mod error;
mod facts;
mod format;
mod image_size;
mod size;
mod tiff;
mod window;

pub use error::{Error, Result};
pub use facts::{Facts, FactsProbe, image_facts, page_facts};
pub use format::{ImageFormat, sniff, unsupported_name};
pub use image_size::ImageSize;
pub use size::{SizeProbe, image_size};
pub use tiff::{
    PageCopy, PageExtraction, PageTags, TiffIndex, TiffPage, TiffWalk, extract_page, page_tags,
    tiff_index,
};
