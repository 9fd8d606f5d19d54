//! One page: its raw directory, and its size.
//!
//! The size is read from the directory alone. Invariant: the first entry
//! of a tag counts, as in libtiff.

use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::image_size::ImageSize;
use crate::tiff::directory::read_directory;
use crate::tiff::entry::Entry;
use crate::tiff::layout::Layout;
use crate::tiff::tags;
use crate::window::{Progress, Window};

/// A directory of the main chain.
#[derive(Debug, Clone)]
pub struct TiffPage {
    pub(crate) number: usize,
    pub(crate) layout: Layout,
    pub(crate) entries: Bytes,
}

impl TiffPage {
    /// Width and height, swapped if the orientation tag rotates the page by 90°.
    ///
    /// # Errors
    /// When the size is missing, out of line, negative or zero.
    pub fn size(&self) -> Result<ImageSize> {
        Ok(PageSize::of(self.number, self.layout, &self.entries)?.turned())
    }

    /// Whether the page has no orientation tag, so that its XMP may rotate it.
    #[must_use]
    pub fn asks_xmp(&self) -> bool {
        PageSize::of(self.number, self.layout, &self.entries)
            .is_ok_and(|page| page.asked_xmp().is_some())
    }

    /// Whether the tables of the page may be anywhere in the file.
    pub(crate) fn is_old_jpeg(&self) -> bool {
        raw_entries(self.layout, &self.entries)
            .filter_map(|bytes| Entry::parse(self.layout, bytes))
            .find(|entry| entry.tag == tags::COMPRESSION)
            .and_then(|entry| entry.inline_unsigned(self.layout))
            == Some(tags::OLD_JPEG)
    }
}

/// The raw entries, one slice each.
pub(crate) fn raw_entries(layout: Layout, entries: &[u8]) -> impl Iterator<Item = &[u8]> {
    let len = if layout.is_big { 20 } else { 12 };
    entries.chunks_exact(len)
}

/// The size of a page, and the sources of its orientation.
#[derive(Debug, Clone)]
pub(crate) struct PageSize {
    pub(crate) stored: ImageSize,
    /// 0 for a value without a meaning.
    orientation: Option<u8>,
    xmp: Option<Range<u64>>,
}

impl PageSize {
    fn of(page: usize, layout: Layout, entries: &[u8]) -> Result<Self> {
        let [mut width, mut height, mut orientation, mut xmp] = [None; 4];
        for bytes in raw_entries(layout, entries) {
            let slot = match layout.endian.u16(bytes) {
                Some(tags::WIDTH) => &mut width,
                Some(tags::HEIGHT) => &mut height,
                Some(tags::ORIENTATION) => &mut orientation,
                Some(tags::XMP) => &mut xmp,
                _ => continue,
            };
            if slot.is_none() {
                *slot = Entry::parse(layout, bytes);
            }
        }
        let side = |entry: Option<Entry>, tag: u16| {
            let entry = entry.ok_or(Error::MissingTag { page, tag })?;
            entry
                .inline_unsigned(layout)
                .and_then(|value| u32::try_from(value).ok())
                .ok_or(Error::UnusableTag { page, tag, kind: entry.kind, count: entry.count })
        };
        let (width, height) = (side(width, tags::WIDTH)?, side(height, tags::HEIGHT)?);
        let stored = ImageSize::new(width, height)?;
        // As in Pillow: a byte or a text is not an orientation, and XMP is not used either.
        let value = |entry: Entry| {
            entry.inline_unsigned(layout).filter(|_| !matches!(entry.kind, 1 | 2 | 7))
        };
        let orientation = orientation
            .map(|entry| value(entry).and_then(|value| u8::try_from(value).ok()).unwrap_or(0));
        let xmp = xmp
            .filter(|entry| matches!(entry.kind, 1 | 7))
            .and_then(|entry| entry.out_of_line(layout));
        Ok(Self { stored, orientation, xmp })
    }

    /// The place of XMP, if the orientation depends on it.
    pub(crate) fn asked_xmp(&self) -> Option<Range<u64>> {
        self.xmp.clone().filter(|_| self.orientation.is_none())
    }

    /// The orientation, 1 to 8; `from_xmp` is that of XMP.
    pub(crate) fn upright_by(&self, from_xmp: Option<u8>) -> u8 {
        self.orientation.or(from_xmp).filter(|value| (2..=8).contains(value)).unwrap_or(1)
    }

    /// Width and height, swapped if the orientation tag rotates the page by 90°.
    fn turned(&self) -> ImageSize {
        let ImageSize { width, height } = self.stored;
        if self.upright_by(None) > 4 {
            ImageSize { width: height, height: width }
        } else {
            self.stored
        }
    }
}

/// A directory of the main chain, found in memory without an index of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageDirectory<'a> {
    pub(crate) layout: Layout,
    pub(crate) offset: u64,
    pub(crate) entries: &'a [u8],
}

impl<'a> PageDirectory<'a> {
    /// The directory of page `page`.
    pub(crate) fn find(payload: &'a [u8], page: usize) -> Result<Self> {
        let payload_len = payload.len() as u64;
        let window = Window::answer(&(0..payload_len), payload)?;
        let (layout, mut offset) = Layout::parse(payload).ok_or(Error::NotTiff { payload_len })?;
        let mut directory_bytes: u64 = 0;
        for k in 0.. {
            if offset == 0 {
                return Err(Error::PageBeyondEnd { page, pages: k });
            }
            let broken = |offset: u64, needed: u64| Error::DirectoryOutOfFile {
                page,
                broken_page: k,
                offset,
                needed,
                payload_len,
            };
            let directory = match read_directory(layout, window, offset, payload_len) {
                Ok(Progress::Ready(directory)) => directory,
                Ok(Progress::Needs(range)) => {
                    return Err(broken(range.start, range.end - range.start));
                }
                Err(at) => return Err(broken(at.offset, at.needed)),
            };
            if k == page {
                return Ok(Self { layout, offset, entries: directory.entries });
            }
            // A chain that bites its tail ends here too.
            directory_bytes = directory_bytes.saturating_add(directory.len);
            if directory_bytes > payload_len {
                return Err(Error::OverlappingDirectories {
                    page,
                    broken_page: k,
                    directory_bytes,
                    payload_len,
                });
            }
            offset = directory.next;
        }
        Err(Error::PageBeyondEnd { page, pages: page })
    }

    /// Width and height as stored.
    pub(crate) fn size(&self, page: usize) -> Result<ImageSize> {
        PageSize::of(page, self.layout, self.entries).map(|page| page.stored)
    }
}

/// Reads the size of page 0, without an index of the others.
#[derive(Debug)]
pub(crate) struct FirstPage {
    payload_len: u64,
    place: Option<(Layout, u64)>,
}

impl FirstPage {
    pub(crate) fn new(payload_len: u64) -> Self {
        Self { payload_len, place: None }
    }

    /// The size by the orientation tag alone; see [`FirstPage::page`].
    pub(crate) fn step(&mut self, window: Window<'_>) -> Result<Progress<ImageSize, Range<u64>>> {
        Ok(match self.page(window)? {
            Progress::Needs(range) => Progress::Needs(range),
            Progress::Ready(page) => Progress::Ready(page.turned()),
        })
    }

    /// Continues in `window`; the first window must begin at the start of the payload.
    pub(crate) fn page(&mut self, window: Window<'_>) -> Result<Progress<PageSize, Range<u64>>> {
        let payload_len = self.payload_len;
        let (layout, offset) = match self.place {
            Some(place) => place,
            None => window.tail(0).and_then(Layout::parse).ok_or(Error::NotTiff { payload_len })?,
        };
        self.place = Some((layout, offset));
        if offset == 0 {
            return Err(Error::PageBeyondEnd { page: 0, pages: 0 });
        }
        match read_directory(layout, window, offset, payload_len) {
            Ok(Progress::Needs(range)) => Ok(Progress::Needs(range)),
            Ok(Progress::Ready(directory)) => {
                PageSize::of(0, layout, directory.entries).map(Progress::Ready)
            }
            Err(at) => Err(Error::DirectoryOutOfFile {
                page: 0,
                broken_page: 0,
                offset: at.offset,
                needed: at.needed,
                payload_len,
            }),
        }
    }
}
