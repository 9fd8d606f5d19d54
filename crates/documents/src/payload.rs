//! The bytes of an image, or a plan for copying them.
//!
//! The invariant: the length is known before pixels are read, and getting the size of the image
//! reads headers only. A size is that of the image as displayed: with the orientation of EXIF or
//! XMP applied, as in the loader and in `ReencodeImages`.

use bytes::Bytes;
use shardmill_images::{FactsProbe, ImageSize, image_facts, page_facts, tiff_index};
use shardmill_storage::{RangeRead, Result};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The content of an image row.
#[derive(Debug, Clone, Default)]
pub enum Payload {
    /// Null: not fetched, or nothing to fetch.
    #[default]
    Absent,
    /// Copied from a file only when it is written.
    Located(Located),
    Memory(Bytes),
}

/// `head`, followed by ranges of one object.
#[derive(Debug, Clone)]
pub struct Located {
    pub object: Arc<dyn RangeRead>,
    pub head: Bytes,
    pub segments: Vec<Range<u64>>,
    /// Already known for a TIFF page; otherwise read from the headers on demand.
    pub size: Option<ImageSize>,
}

/// Why the headers of an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    #[error(transparent)]
    Image(#[from] shardmill_images::Error),
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error("the image ends early")]
    EndsEarly,
}

impl Located {
    /// The bytes of one member, as they are.
    #[must_use]
    pub fn verbatim(object: Arc<dyn RangeRead>, range: Range<u64>) -> Self {
        Self { object, head: Bytes::new(), segments: vec![range], size: None }
    }

    #[must_use]
    pub fn len(&self) -> u64 {
        self.head.len() as u64
            + self.segments.iter().map(|segment| segment.end - segment.start).sum::<u64>()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the bytes to `out`; after an error `out` is unchanged.
    ///
    /// # Errors
    /// When the object cannot be read, or has shrunk.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(&self.head);
        for segment in &self.segments {
            if let Err(error) = append_range(&*self.object, segment, out) {
                out.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }

    fn image_size(&self) -> std::result::Result<ImageSize, HeaderError> {
        match (self.size, self.segments.as_slice()) {
            (Some(size), _) => Ok(size),
            // The directory of a page that was copied, and its values, are in the head.
            (None, _) if !self.head.is_empty() && image_facts(&self.head).is_ok() => {
                Ok(image_facts(&self.head)?.oriented)
            }
            (None, [whole]) if self.head.is_empty() => {
                let mut probe = FactsProbe::new(whole.end - whole.start);
                let mut window = Vec::new();
                while let Some(range) = probe.needs() {
                    window.clear();
                    append_range(
                        &*self.object,
                        &(whole.start + range.start..whole.start + range.end),
                        &mut window,
                    )?;
                    probe.push(&window);
                }
                Ok(probe.finish()?.oriented)
            }
            _ => {
                let mut bytes = Vec::new();
                self.append_to(&mut bytes)?;
                Ok(image_facts(&bytes)?.oriented)
            }
        }
    }
}

impl Payload {
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Located(located) => located.len(),
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Width and height from the headers. `frame` selects the page of a multi-page TIFF.
    ///
    /// # Errors
    /// [`HeaderError::Image`] when the headers do not state a size, [`HeaderError::Storage`] when
    /// they cannot be read.
    pub fn image_size(
        &self,
        frame: impl FnOnce() -> Option<u64>,
    ) -> std::result::Result<ImageSize, HeaderError> {
        match self {
            Self::Absent => Ok(image_facts(&[])?.oriented),
            Self::Located(located) => located.image_size(),
            Self::Memory(bytes) => size_in_memory(bytes, frame),
        }
    }

    /// Stores the size, so that the next filter does not need to read the headers again.
    pub fn note_size(&mut self, size: ImageSize) {
        if let Self::Located(located) = self {
            located.size = Some(size);
        }
    }

    /// The bytes in memory, fetched at most once.
    ///
    /// # Errors
    /// When the object cannot be read.
    pub fn fetch(&mut self) -> Result<Option<Bytes>> {
        if let Self::Located(located) = self {
            let mut bytes = Vec::new();
            located.append_to(&mut bytes)?;
            *self = Self::Memory(Bytes::from(bytes));
        }
        Ok(match self {
            Self::Memory(bytes) => Some(bytes.clone()),
            _ => None,
        })
    }
}

/// Width and height of an image in memory. `frame` selects the page of a multi-page TIFF.
///
/// # Errors
/// [`HeaderError::Image`] when the headers do not state a size.
pub fn size_in_memory(
    bytes: &[u8],
    frame: impl FnOnce() -> Option<u64>,
) -> std::result::Result<ImageSize, HeaderError> {
    Ok(page_facts(bytes, page_of_many(bytes, frame).unwrap_or_default())?.oriented)
}

/// The wanted page of a TIFF with several pages.
fn page_of_many(bytes: &[u8], frame: impl FnOnce() -> Option<u64>) -> Option<usize> {
    if !(bytes.starts_with(b"II") || bytes.starts_with(b"MM")) {
        return None;
    }
    let page = usize::try_from(frame().filter(|page| *page > 0)?).ok()?;
    (tiff_index(bytes).ok()?.len() > 1).then_some(page)
}

fn no_memory(object: &dyn RangeRead, offset: u64, len: usize) -> shardmill_storage::Error {
    shardmill_storage::Error::Read {
        path: object.path().to_owned(),
        offset,
        len,
        source: io::ErrorKind::OutOfMemory.into(),
    }
}

/// Appends one range of `object`.
///
/// # Errors
/// When the object cannot be read.
pub fn append_range(object: &dyn RangeRead, range: &Range<u64>, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let len = range.end.saturating_sub(range.start);
    // A range outside of the object is rejected before memory is allocated for it.
    let Some(len) = usize::try_from(len).ok().filter(|_| range.end <= object.size()) else {
        return Err(shardmill_storage::Error::ShortRead {
            path: object.path().to_owned(),
            offset: range.start,
            len: usize::try_from(len).unwrap_or(usize::MAX),
            end: range.end,
        });
    };
    out.try_reserve(len).map_err(|_| no_memory(object, range.start, len))?;
    out.resize(start + len, 0);
    let result = out.get_mut(start..).map_or(Ok(()), |target| object.read_at(range.start, target));
    if result.is_err() {
        out.truncate(start);
    }
    result
}
