//! The pages of one TIFF member, handed out as copies without decoding.

use crate::payload::{Located, append_range};
use shardmill_images::{ImageFormat, PageCopy, PageExtraction, TiffIndex, TiffWalk, sniff};
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;

/// Enough for the magic number of every known format.
const SNIFF_LEN: u64 = 64;

/// One member that is named like a TIFF.
#[derive(Debug)]
pub struct TiffPages {
    object: Arc<dyn RangeRead>,
    range: Range<u64>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Tiff(TiffIndex),
    /// Another image under a TIFF's name: its only page is itself.
    OtherImage,
    Unusable,
}

/// The page cannot be copied safely; the row gets an error and no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageUnavailable;

impl TiffPages {
    #[must_use]
    pub fn open(object: Arc<dyn RangeRead>, range: Range<u64>) -> Self {
        let content = Self::content(&*object, &range);
        Self { object, range, content }
    }

    fn content(object: &dyn RangeRead, range: &Range<u64>) -> Content {
        let len = range.end - range.start;
        let mut window = Vec::new();
        let prefix = range.start..range.start + len.min(SNIFF_LEN);
        if append_range(object, &prefix, &mut window).is_err() {
            return Content::Unusable;
        }
        match sniff(&window) {
            Some(ImageFormat::Tiff) => {}
            Some(_) => return Content::OtherImage,
            None => return Content::Unusable,
        }
        let mut walk = TiffWalk::new(len);
        while let Some(needed) = walk.needs() {
            window.clear();
            let absolute = range.start + needed.start..range.start + needed.end;
            if append_range(object, &absolute, &mut window).is_err() || walk.push(&window).is_err() {
                return Content::Unusable;
            }
        }
        walk.finish().map_or(Content::Unusable, Content::Tiff)
    }

    /// Page `frame` as a copy plan; a single-page TIFF is taken as it is.
    ///
    /// # Errors
    /// [`PageUnavailable`] beyond the last page, and where the page cannot be copied safely.
    pub fn page(&self, frame: u64) -> Result<Located, PageUnavailable> {
        let index = match &self.content {
            Content::Unusable => return Err(PageUnavailable),
            Content::OtherImage if frame > 0 => return Err(PageUnavailable),
            Content::OtherImage => return Ok(Located::verbatim(Arc::clone(&self.object), self.range.clone())),
            Content::Tiff(index) => index,
        };
        let page = usize::try_from(frame).map_err(|_| PageUnavailable)?;
        let size = index.page(page).map_err(|_| PageUnavailable)?.size().ok();
        let mut extraction = PageExtraction::new(index, page).map_err(|_| PageUnavailable)?;
        let mut window = Vec::new();
        while let Some(needed) = extraction.needs() {
            window.clear();
            let absolute = self.range.start + needed.start..self.range.start + needed.end;
            append_range(&*self.object, &absolute, &mut window).map_err(|_| PageUnavailable)?;
            extraction.push(&window).map_err(|_| PageUnavailable)?;
        }
        Ok(match extraction.finish().map_err(|_| PageUnavailable)? {
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
