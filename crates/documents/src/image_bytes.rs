//! Reads the headers of an image by ranges.

use crate::payload::{HeaderError, append_range};
use shardmill_images::{ImageFormat, PageCopy, PageExtraction, TiffIndex, TiffWalk, sniff};
use shardmill_storage::RangeRead;
use std::ops::Range;

/// Enough for the magic number of every known format.
const SNIFF_LEN: u64 = 64;

/// A payload that can be read by ranges.
#[derive(Debug, Clone, Copy)]
pub enum ImageBytes<'a> {
    Memory(&'a [u8]),
    Member(&'a dyn RangeRead, &'a Range<u64>),
}

impl ImageBytes<'_> {
    /// The format, by the first bytes.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn format(&self, window: &mut Vec<u8>) -> Result<Option<ImageFormat>, HeaderError> {
        self.read(&(0..self.size().min(SNIFF_LEN)), window)?;
        Ok(sniff(window))
    }

    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Member(_, range) => range.end - range.start,
        }
    }

    /// Replaces the content of `window` by a range.
    ///
    /// # Errors
    /// When it cannot be read, or lies outside of the payload.
    pub fn read(&self, range: &Range<u64>, window: &mut Vec<u8>) -> Result<(), HeaderError> {
        window.clear();
        match self {
            Self::Memory(bytes) => {
                let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                let found = bounds
                    .and_then(|(start, end)| bytes.get(start..end))
                    .ok_or(HeaderError::EndsEarly)?;
                window.extend_from_slice(found);
                Ok(())
            }
            Self::Member(object, member) => Ok(append_range(
                *object,
                &(member.start + range.start..member.start + range.end),
                window,
            )?),
        }
    }
}

/// The directories of a TIFF.
///
/// # Errors
/// When they cannot be read, or are damaged.
pub fn tiff_index(bytes: ImageBytes<'_>, window: &mut Vec<u8>) -> Result<TiffIndex, HeaderError> {
    let mut walk = TiffWalk::new(bytes.size());
    while let Some(range) = walk.needs() {
        bytes.read(&range, window)?;
        walk.push(window)?;
    }
    Ok(walk.finish()?)
}

/// How a page of a TIFF is copied.
///
/// # Errors
/// When its tags cannot be read, or are damaged.
pub fn page_copy(
    bytes: ImageBytes<'_>,
    index: &TiffIndex,
    page: usize,
    window: &mut Vec<u8>,
) -> Result<PageCopy, HeaderError> {
    let mut extraction = PageExtraction::new(index, page)?;
    while let Some(range) = extraction.needs() {
        bytes.read(&range, window)?;
        extraction.push(window)?;
    }
    Ok(extraction.finish()?)
}
