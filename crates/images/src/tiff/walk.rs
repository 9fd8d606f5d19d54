//! Walks the main chain of directories once.
//!
//! Each document is walked once, regardless of how many of its pages are used.
//! Invariant: the stored directories together are not larger than the payload, so overlapping
//! ones cannot multiply memory.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::tiff::directory::read_directory;
use crate::tiff::layout::Layout;
use crate::tiff::page::TiffPage;
use crate::window::{Progress, Window, clipped, slice};

/// Many writers put the first directory directly after the header.
const FIRST_REQUEST: u64 = 1024;

/// Requests directory after directory of one payload.
#[derive(Debug)]
pub struct TiffWalk {
    payload_len: u64,
    pages: Vec<TiffPage>,
    visited: HashSet<u64>,
    directory_bytes: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Header(Range<u64>),
    Directory { layout: Layout, offset: u64, request: Range<u64> },
    Done(ChainEnd),
    Failed(Error),
}

#[derive(Debug)]
enum ChainEnd {
    /// Offset 0, or the payload ends where it would be.
    Proper,
    /// The next directory was already visited.
    Loop,
    OutOfFile {
        offset: u64,
        needed: u64,
    },
    Overlapping {
        directory_bytes: u64,
    },
}

impl TiffWalk {
    /// A walk through a payload with a known length.
    #[must_use]
    pub fn new(payload_len: u64) -> Self {
        let state = match clipped(0, FIRST_REQUEST, payload_len) {
            Some(range) => State::Header(range),
            None => State::Failed(Error::NotTiff { payload_len }),
        };
        Self { payload_len, pages: Vec::new(), visited: HashSet::new(), directory_bytes: 0, state }
    }

    /// The range to push next; `None` if the walk is finished.
    #[must_use]
    pub fn needs(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Header(request) | State::Directory { request, .. } => Some(request.clone()),
            State::Done(_) | State::Failed(_) => None,
        }
    }

    /// Consumes the bytes of the range that [`needs`](Self::needs) returned.
    ///
    /// # Errors
    /// [`Error::NotTiff`], and [`Error::ShortBytes`] when fewer bytes were pushed than requested. A
    /// broken chain is not an error here: the pages before the break are usable.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let step = self.step(bytes);
        if let Err(error) = &step {
            self.state = State::Failed(error.clone());
        }
        step
    }

    /// The index of the pages.
    ///
    /// # Errors
    /// The error of an earlier [`push`](Self::push), or [`Error::Unfinished`].
    pub fn finish(self) -> Result<TiffIndex> {
        match self.state {
            State::Done(end) => {
                Ok(TiffIndex { payload_len: self.payload_len, pages: self.pages, end })
            }
            State::Failed(error) => Err(error),
            State::Header(request) | State::Directory { request, .. } => Err(Error::Unfinished {
                offset: request.start,
                needed: request.end.saturating_sub(request.start),
            }),
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Result<()> {
        let payload_len = self.payload_len;
        let (layout, mut offset, window) = match &self.state {
            State::Header(request) => {
                let window = Window::answer(request, bytes)?;
                let (layout, offset) =
                    window.tail(0).and_then(Layout::parse).ok_or(Error::NotTiff { payload_len })?;
                if offset == 0 {
                    self.state = State::Done(ChainEnd::Proper);
                    return Ok(());
                }
                self.visited.insert(offset);
                (layout, offset, window)
            }
            State::Directory { layout, offset, request } => {
                (*layout, *offset, Window::answer(request, bytes)?)
            }
            State::Done(_) => return Ok(()),
            State::Failed(error) => return Err(error.clone()),
        };
        // One window may contain several directories.
        let end = loop {
            let directory = match read_directory(layout, window, offset, payload_len) {
                Ok(Progress::Ready(directory)) => directory,
                Ok(Progress::Needs(request)) => {
                    self.state = State::Directory { layout, offset, request };
                    return Ok(());
                }
                Err(at) => {
                    break ChainEnd::OutOfFile { offset: at.offset, needed: at.needed };
                }
            };
            self.directory_bytes = self.directory_bytes.saturating_add(directory.len);
            if self.directory_bytes > payload_len {
                break ChainEnd::Overlapping { directory_bytes: self.directory_bytes };
            }
            self.pages.push(TiffPage {
                number: self.pages.len(),
                layout,
                entries: Bytes::copy_from_slice(directory.entries),
            });
            if directory.next == 0 {
                break ChainEnd::Proper;
            }
            if !self.visited.insert(directory.next) {
                break ChainEnd::Loop;
            }
            offset = directory.next;
        };
        self.state = State::Done(end);
        Ok(())
    }
}

/// The pages of one TIFF.
#[derive(Debug)]
pub struct TiffIndex {
    pub(crate) payload_len: u64,
    pages: Vec<TiffPage>,
    end: ChainEnd,
}

impl TiffIndex {
    /// Number of pages that can be reached.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether no page can be reached.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Page `k`, counted from 0.
    ///
    /// # Errors
    /// [`Error::PageBeyondEnd`], or the fault that broke the chain before the page.
    pub fn page(&self, k: usize) -> Result<&TiffPage> {
        let pages = self.pages.len();
        let payload_len = self.payload_len;
        self.pages.get(k).ok_or(match self.end {
            ChainEnd::Proper | ChainEnd::Loop => Error::PageBeyondEnd { page: k, pages },
            ChainEnd::OutOfFile { offset, needed } => Error::DirectoryOutOfFile {
                page: k,
                broken_page: pages,
                offset,
                needed,
                payload_len,
            },
            ChainEnd::Overlapping { directory_bytes } => Error::OverlappingDirectories {
                page: k,
                broken_page: pages,
                directory_bytes,
                payload_len,
            },
        })
    }

    /// Whether the payload is a sound TIFF with one page, which needs no copy.
    pub(crate) fn is_single_page(&self) -> bool {
        self.pages.len() == 1 && matches!(self.end, ChainEnd::Proper)
    }
}

/// The index of a TIFF in memory.
///
/// # Errors
/// [`Error::NotTiff`].
pub fn tiff_index(payload: &[u8]) -> Result<TiffIndex> {
    let mut walk = TiffWalk::new(payload.len() as u64);
    while let Some(range) = walk.needs() {
        walk.push(slice(payload, &range))?;
    }
    walk.finish()
}
