//! The pages of a TIFF member, copied without decoding.

use crate::image_bytes::{ImageBytes, page_copy, tiff_index};
use crate::payload::{HeaderError, Located};
use shardmill_images::{ImageFormat, PageCopy, TiffIndex, TiffPage};
use shardmill_storage::{RangeRead, Result};
use std::ops::Range;
use std::sync::Arc;

/// A member with the name of a TIFF.
#[derive(Debug)]
pub(crate) struct TiffPages {
    object: Arc<dyn RangeRead>,
    range: Range<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Tiff(TiffIndex),
    /// Another image format with the name of a TIFF: its only page is itself.
    OtherImage,
    Unusable,
}

impl TiffPages {
    /// # Errors
    /// When the object cannot be read.
    pub(crate) fn open(object: Arc<dyn RangeRead>, range: Range<u64>) -> Result<Self> {
        let content = Self::content(ImageBytes::Member(&*object, &range))?;
        Ok(Self { object, range, content })
    }

    fn content(bytes: ImageBytes<'_>) -> Result<Content> {
        let mut window = Vec::new();
        let format = readable(bytes.format(&mut window))?.flatten();
        Ok(match format {
            Some(ImageFormat::Tiff) => {
                readable(tiff_index(bytes, &mut window))?.map_or(Content::Unusable, Content::Tiff)
            }
            Some(_) => Content::OtherImage,
            None => Content::Unusable,
        })
    }

    /// Page `frame` as a copy plan; a single-page TIFF is copied unchanged. `None` beyond the last
    /// page, and if the page cannot be copied safely.
    ///
    /// # Errors
    /// When the object cannot be read.
    pub(crate) fn page(&self, frame: u64) -> Result<Option<Located>> {
        let index = match &self.content {
            Content::Unusable => return Ok(None),
            Content::OtherImage if frame > 0 => return Ok(None),
            Content::OtherImage => {
                return Ok(Some(Located::verbatim(Arc::clone(&self.object), self.range.clone())));
            }
            Content::Tiff(index) => index,
        };
        // XMP is read only when the size is asked for.
        let size_of = |page: &TiffPage| page.size().ok().filter(|_| !page.asks_xmp());
        let page = usize::try_from(frame)
            .ok()
            .and_then(|page| Some((page, size_of(index.page(page).ok()?))));
        let Some((page, size)) = page else { return Ok(None) };
        let copy = readable(page_copy(
            ImageBytes::Member(&*self.object, &self.range),
            index,
            page,
            &mut Vec::new(),
        ))?;
        Ok(copy.map(|copy| match copy {
            PageCopy::Whole => {
                Located { size, ..Located::verbatim(Arc::clone(&self.object), self.range.clone()) }
            }
            PageCopy::Pieces { head, segments } => {
                let absolute = segments.into_iter().map(|segment| {
                    self.range.start + segment.start..self.range.start + segment.end
                });
                Located {
                    object: Arc::clone(&self.object),
                    head,
                    segments: absolute.collect(),
                    size,
                }
            }
        }))
    }

    #[must_use]
    pub(crate) fn is_member(&self, range: &Range<u64>) -> bool {
        self.range == *range
    }
}

/// `None` for headers that are not valid; a failed read is an error.
fn readable<T>(header: std::result::Result<T, HeaderError>) -> Result<Option<T>> {
    match header {
        Ok(value) => Ok(Some(value)),
        Err(HeaderError::Storage(error)) => Err(error),
        Err(HeaderError::Image(_) | HeaderError::EndsEarly) => Ok(None),
    }
}
