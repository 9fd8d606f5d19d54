//! What the header of an image says: its format, and the size of each page.
//!
//! A payload enters by ranges, an [`ImageHeader`] leaves; called by verify and inspect. The invariant: no pixel is read, and every page of a TIFF is
//! looked at, not only the first.

use crate::payload::append_range;
use shardmill_images::{ImageFormat, ImageSize, PageExtraction, SizeProbe, TiffIndex, TiffWalk, sniff};
use shardmill_storage::RangeRead;
use std::ops::Range;

/// Enough for the magic number of every known format.
const SNIFF_LEN: u64 = 64;

#[derive(Debug)]
pub(crate) struct ImageHeader {
    pub format: ImageFormat,
    /// One entry a page, or why the page cannot be used.
    pub pages: Vec<Result<ImageSize, String>>,
    /// Why there may be more pages than could be reached.
    pub broken_chain: Option<String>,
}

/// A payload that can be read by ranges.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ImageBytes<'a> {
    Memory(&'a [u8]),
    Member(&'a dyn RangeRead, &'a Range<u64>),
}

/// How much of a TIFF page is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Sizes,
    /// Also whether the page can be copied: all of its tags and the places of its strips or tiles.
    Copies,
}

impl ImageBytes<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Member(_, range) => range.end - range.start,
        }
    }

    fn read(&self, range: &Range<u64>, window: &mut Vec<u8>) -> Result<(), String> {
        window.clear();
        match self {
            Self::Memory(bytes) => {
                let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let found = bounds.and_then(|(start, end)| bytes.get(start..end)).ok_or("the image ends early")?;
                window.extend_from_slice(found);
                Ok(())
            }
            Self::Member(object, member) => {
                append_range(*object, &(member.start + range.start..member.start + range.end), window).map_err(|error| error.to_string())
            }
        }
    }
}

impl ImageHeader {
    /// # Errors
    /// Why the payload is no image whose size can be told.
    pub(crate) fn read(bytes: ImageBytes<'_>, depth: Depth) -> Result<Self, String> {
        let mut window = Vec::new();
        bytes.read(&(0..bytes.len().min(SNIFF_LEN)), &mut window)?;
        match sniff(&window) {
            None => Err(shardmill_images::Error::UnknownFormat { payload_len: bytes.len() }.to_string()),
            Some(ImageFormat::Tiff) => read_tiff(bytes, depth, &mut window),
            Some(format) => {
                let mut probe = SizeProbe::new(bytes.len());
                while let Some(range) = probe.needs() {
                    bytes.read(&range, &mut window)?;
                    probe.push(&window);
                }
                let size = probe.finish().map_err(|error| error.to_string())?;
                Ok(Self { format, pages: vec![Ok(size)], broken_chain: None })
            }
        }
    }
}

fn read_tiff(bytes: ImageBytes<'_>, depth: Depth, window: &mut Vec<u8>) -> Result<ImageHeader, String> {
    let mut walk = TiffWalk::new(bytes.len());
    while let Some(range) = walk.needs() {
        bytes.read(&range, window)?;
        walk.push(window).map_err(|error| error.to_string())?;
    }
    let index = walk.finish().map_err(|error| error.to_string())?;
    let pages = (0..index.len()).map(|page| {
        let size = index.page(page).and_then(shardmill_images::TiffPage::size).map_err(|error| error.to_string())?;
        if depth == Depth::Copies {
            plan_copy(bytes, &index, page, window)?;
        }
        Ok(size)
    });
    let pages = pages.collect();
    // Asking for the page behind the last one tells a chain that ends from one that breaks.
    let broken_chain = match index.page(index.len()) {
        Err(shardmill_images::Error::PageBeyondEnd { .. }) | Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    Ok(ImageHeader { format: ImageFormat::Tiff, pages, broken_chain })
}

fn plan_copy(bytes: ImageBytes<'_>, index: &TiffIndex, page: usize, window: &mut Vec<u8>) -> Result<(), String> {
    let mut extraction = PageExtraction::new(index, page).map_err(|error| error.to_string())?;
    while let Some(range) = extraction.needs() {
        bytes.read(&range, window)?;
        extraction.push(window).map_err(|error| error.to_string())?;
    }
    extraction.finish().map(|_copy| ()).map_err(|error| error.to_string())
}
