//! The pages of a TIFF member, copied without decoding.

use crate::image_header::{ImageBytes, page_copy, tiff_index};
use crate::payload::Located;
use shardmill_images::{ImageFormat, PageCopy, TiffIndex};
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;

/// A member with the name of a TIFF.
#[derive(Debug)]
pub struct TiffPages {
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

/// The page cannot be copied safely; the row gets an error and no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageUnavailable;

impl TiffPages {
    #[must_use]
    pub fn open(object: Arc<dyn RangeRead>, range: Range<u64>) -> Self {
        let content = Self::content(ImageBytes::Member(&*object, &range));
        Self { object, range, content }
    }

    fn content(bytes: ImageBytes<'_>) -> Content {
        let mut window = Vec::new();
        match bytes.format(&mut window) {
            Ok(Some(ImageFormat::Tiff)) => tiff_index(bytes, &mut window).map_or(Content::Unusable, Content::Tiff),
            Ok(Some(_)) => Content::OtherImage,
            Ok(None) | Err(_) => Content::Unusable,
        }
    }

    /// Page `frame` as a copy plan; a single-page TIFF is copied unchanged.
    ///
    /// # Errors
    /// [`PageUnavailable`] beyond the last page, and if the page cannot be copied safely.
    pub fn page(&self, frame: u64) -> Result<Located, PageUnavailable> {
        let index = match &self.content {
            Content::Unusable => return Err(PageUnavailable),
            Content::OtherImage if frame > 0 => return Err(PageUnavailable),
            Content::OtherImage => return Ok(Located::verbatim(Arc::clone(&self.object), self.range.clone())),
            Content::Tiff(index) => index,
        };
        let page = usize::try_from(frame).map_err(|_| PageUnavailable)?;
        let size = index.page(page).map_err(|_| PageUnavailable)?.size().ok();
        let bytes = ImageBytes::Member(&*self.object, &self.range);
        Ok(match page_copy(bytes, index, page, &mut Vec::new()).map_err(|_| PageUnavailable)? {
            PageCopy::Whole => Located { size, ..Located::verbatim(Arc::clone(&self.object), self.range.clone()) },
            PageCopy::Pieces { head, segments } => {
                let absolute = segments.into_iter().map(|segment| self.range.start + segment.start..self.range.start + segment.end);
                Located { object: Arc::clone(&self.object), head, segments: absolute.collect(), size }
            }
        })
    }

    #[must_use]
    pub fn is_member(&self, range: &Range<u64>) -> bool {
        self.range == *range
    }
}
