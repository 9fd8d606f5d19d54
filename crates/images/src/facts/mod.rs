//! What a header tells about an image in memory: sides, orientation, format.
//!
//! Plans are made from these facts, so they equal what Pillow reports once it has loaded and turned
//! the image. Invariant: each walk goes forwards and reads a byte a bounded number of times.

mod exif;
mod gif;
mod jpeg;
mod png;
mod probe;
#[cfg(test)]
mod tests;
mod webp;
mod xmp;

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::format::{ImageFormat, sniff};
use crate::image_size::ImageSize;
use crate::size::image_size;
use crate::tiff::PageDirectory;

pub use probe::FactsProbe;

/// Sides, orientation and format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Facts {
    /// As the pixels are stored.
    pub stored: ImageSize,
    /// As the image is to be seen.
    pub oriented: ImageSize,
    /// As in EXIF: 1 upright, 2 mirrored, 3 upside down, …, 8 turned left.
    /// 5 to 8 exchange the sides.
    pub orientation: u8,
    pub format: ImageFormat,
}

impl Facts {
    fn new(format: ImageFormat, stored: ImageSize, orientation: u8) -> Self {
        let oriented = match orientation {
            5..=8 => ImageSize { width: stored.height, height: stored.width },
            _ => stored,
        };
        Self { stored, oriented, orientation, format }
    }
}

/// The facts of an image; of a TIFF those of page 0.
///
/// # Errors
/// When the payload is not an image, or its header is damaged or has a zero side.
pub fn image_facts(payload: &[u8]) -> Result<Facts> {
    page_facts(payload, 0)
}

/// The facts of page `page` of a TIFF, counted from 0. Other formats have one page.
///
/// # Errors
/// As [`image_facts`], and when there is no such page.
pub fn page_facts(payload: &[u8], page: usize) -> Result<Facts> {
    let format =
        sniff(payload).ok_or(Error::UnknownFormat { payload_len: payload.len() as u64 })?;
    if format == ImageFormat::Tiff {
        let directory = PageDirectory::find(payload, page)?;
        let tags = exif::read(payload, directory.layout, directory.offset);
        return Ok(Facts::new(format, directory.size(page)?, tags.upright_by(payload)));
    }
    if page > 0 {
        return Err(Error::PageBeyondEnd { page, pages: 1 });
    }
    let mut stored = match image_size(payload) {
        // The screen may be empty where the first frame is not.
        Err(Error::ZeroSize { width, height }) if format == ImageFormat::Gif => {
            ImageSize { width, height }
        }
        size => size?,
    };
    let metadata = match format {
        ImageFormat::Jpeg => jpeg::metadata(payload),
        ImageFormat::Png => png::metadata(payload),
        ImageFormat::Webp => webp::metadata(payload),
        ImageFormat::Gif => {
            let ImageSize { width, height } = gif::canvas(payload, stored);
            stored = ImageSize::new(width, height)?;
            Metadata::default()
        }
        _ => Metadata::default(),
    };
    Ok(Facts::new(format, stored, metadata.orientation()))
}

/// The records that may state an orientation.
#[derive(Debug, Default)]
struct Metadata<'a> {
    exif: Option<Cow<'a, [u8]>>,
    xmp: Option<Cow<'a, [u8]>>,
}

impl Metadata<'_> {
    /// 1 to 8. XMP is asked only where EXIF does not have the tag, whatever its value.
    fn orientation(&self) -> u8 {
        let stated = self.exif.as_deref().and_then(exif::stated);
        stated
            .or_else(|| self.xmp.as_deref().and_then(xmp::stated))
            .filter(|value| (2..=8).contains(value))
            .unwrap_or(1)
    }
}
