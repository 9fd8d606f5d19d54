//! Reads the header of an image: its format, and the size of each page.
//!
//! Used by verify and inspect, and for copying pages. The invariant: no pixel is read, and every page of a TIFF is checked, not only the first.

use crate::payload::{HeaderError, append_range};
use shardmill_images::{FactsProbe, ImageFormat, ImageSize, PageCopy, PageExtraction, TiffIndex, TiffWalk, sniff};
use shardmill_storage::RangeRead;
use std::ops::Range;

/// Enough for the magic number of every known format.
const SNIFF_LEN: u64 = 64;

#[derive(Debug)]
pub(crate) struct ImageHeader {
    pub format: ImageFormat,
    /// The size of each page as displayed, or why the page cannot be used.
    pub pages: Vec<Result<ImageSize, String>>,
    /// Why there may be more pages than were found.
    pub broken_chain: Option<String>,
}

/// A payload that can be read by ranges.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ImageBytes<'a> {
    Memory(&'a [u8]),
    Member(&'a dyn RangeRead, &'a Range<u64>),
}

/// How thoroughly a TIFF page is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Sizes,
    /// Also check that the page can be copied: all of its tags and the positions of its strips or tiles.
    Copies,
}

impl ImageBytes<'_> {
    /// The format, by the first bytes.
    pub(crate) fn format(&self, window: &mut Vec<u8>) -> Result<Option<ImageFormat>, HeaderError> {
        self.read(&(0..self.len().min(SNIFF_LEN)), window)?;
        Ok(sniff(window))
    }

    fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Member(_, range) => range.end - range.start,
        }
    }

    fn read(&self, range: &Range<u64>, window: &mut Vec<u8>) -> Result<(), HeaderError> {
        window.clear();
        match self {
            Self::Memory(bytes) => {
                let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let found = bounds.and_then(|(start, end)| bytes.get(start..end)).ok_or(HeaderError::EndsEarly)?;
                window.extend_from_slice(found);
                Ok(())
            }
            Self::Member(object, member) => Ok(append_range(*object, &(member.start + range.start..member.start + range.end), window)?),
        }
    }
}

impl ImageHeader {
    /// # Errors
    /// Why the payload is not an image with a known size.
    pub(crate) fn read(bytes: ImageBytes<'_>, depth: Depth) -> Result<Self, String> {
        let mut window = Vec::new();
        match bytes.format(&mut window).map_err(|error| error.to_string())? {
            None => Err(shardmill_images::Error::UnknownFormat { payload_len: bytes.len() }.to_string()),
            Some(ImageFormat::Tiff) => read_tiff(bytes, depth, &mut window),
            Some(format) => {
                let mut probe = FactsProbe::new(bytes.len());
                while let Some(range) = probe.needs() {
                    bytes.read(&range, &mut window).map_err(|error| error.to_string())?;
                    probe.push(&window);
                }
                let size = probe.finish().map_err(|error| error.to_string())?;
                Ok(Self { format, pages: vec![Ok(size.oriented)], broken_chain: None })
            }
        }
    }
}

fn read_tiff(bytes: ImageBytes<'_>, depth: Depth, window: &mut Vec<u8>) -> Result<ImageHeader, String> {
    let index = tiff_index(bytes, window).map_err(|error| error.to_string())?;
    let pages = (0..index.len()).map(|page| {
        let size = index.page(page).and_then(shardmill_images::TiffPage::size).map_err(|error| error.to_string())?;
        if depth == Depth::Copies {
            page_copy(bytes, &index, page, window).map_err(|error| error.to_string())?;
        }
        Ok(size)
    });
    let pages = pages.collect();
    // Reading the page after the last one distinguishes the end of a chain from a broken one.
    let broken_chain = match index.page(index.len()) {
        Err(shardmill_images::Error::PageBeyondEnd { .. }) | Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    Ok(ImageHeader { format: ImageFormat::Tiff, pages, broken_chain })
}

/// The directories of a TIFF.
pub(crate) fn tiff_index(bytes: ImageBytes<'_>, window: &mut Vec<u8>) -> Result<TiffIndex, HeaderError> {
    let mut walk = TiffWalk::new(bytes.len());
    while let Some(range) = walk.needs() {
        bytes.read(&range, window)?;
        walk.push(window)?;
    }
    Ok(walk.finish()?)
}

/// How a page of a TIFF is copied.
pub(crate) fn page_copy(bytes: ImageBytes<'_>, index: &TiffIndex, page: usize, window: &mut Vec<u8>) -> Result<PageCopy, HeaderError> {
    let mut extraction = PageExtraction::new(index, page)?;
    while let Some(range) = extraction.needs() {
        bytes.read(&range, window)?;
        extraction.push(window)?;
    }
    Ok(extraction.finish()?)
}
