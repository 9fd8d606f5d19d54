//! Plans the copy of one page.
//!
//! Produces the head of a one-page TIFF and the source ranges after it. The steps are: nested
//! directories, tag values, Huffman counts of old-style JPEG, then the layout. Invariant:
//! everything fetched or copied for a page is bounded by the payload length.

use std::collections::VecDeque;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::tiff::copy::PageCopy;
use crate::tiff::directory::read_directory;
use crate::tiff::encode::encode_head;
use crate::tiff::fetch::Fetch;
use crate::tiff::old_jpeg;
use crate::tiff::plan::{Item, Nested, Origin, Value, plan_directory};
use crate::tiff::relocate::Relocation;
use crate::tiff::segments::{Page, find_segments};
use crate::tiff::tags;
use crate::tiff::walk::TiffIndex;
use crate::window::{Progress, Window, clipped};

/// Nested directories are small.
const NESTED_REQUEST: u64 = 1024;

/// Requests the tag values of one page until its copy is planned.
#[derive(Debug)]
pub struct PageExtraction {
    page: Page,
    is_old_jpeg: bool,
    /// The page first, then its nested directories.
    directories: Vec<Vec<Item>>,
    directory_bytes: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Nested(VecDeque<Nested>, Range<u64>),
    Values(Fetch),
    HuffmanCounts(Fetch),
    Done(PageCopy),
    Failed(Error),
}

impl PageExtraction {
    /// An extraction of page `page` of the indexed payload.
    ///
    /// # Errors
    /// When the page does not exist, or a tag that is needed for decoding
    /// is outside of the payload.
    pub fn new(index: &TiffIndex, page: usize) -> Result<Self> {
        let source = index.page(page)?;
        let payload_len = index.payload_len;
        let mut extraction = Self {
            page: Page { number: page, layout: source.layout, payload_len },
            is_old_jpeg: source.is_old_jpeg(),
            directories: Vec::new(),
            directory_bytes: 0,
            state: State::Done(PageCopy::Whole),
        };
        if !index.is_single_page() {
            let (items, nested) = plan_directory(extraction.origin(0, 0), &source.entries)?;
            extraction.directories.push(items);
            extraction.state = extraction.next_nested(nested.into());
            extraction.advance()?;
        }
        Ok(extraction)
    }

    /// The range to push next; `None` once the copy is planned.
    #[must_use]
    pub fn needs(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Nested(_, request) => Some(request.clone()),
            State::Values(fetch) | State::HuffmanCounts(fetch) => fetch.needs().cloned(),
            State::Done(_) | State::Failed(_) => None,
        }
    }

    /// Consumes the bytes of the range that [`needs`](Self::needs) returned.
    ///
    /// # Errors
    /// When the page cannot be copied without decoding: segments outside of the payload, unknown
    /// lengths, unterminated tables.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let step = self.take(bytes).and_then(|()| self.advance());
        if let Err(error) = &step {
            self.state = State::Failed(error.clone());
        }
        step
    }

    /// The plan of the copy.
    ///
    /// # Errors
    /// The error of an earlier [`push`](Self::push), or [`Error::Unfinished`].
    pub fn finish(self) -> Result<PageCopy> {
        let request = self.needs().unwrap_or_default();
        match self.state {
            State::Done(copy) => Ok(copy),
            State::Failed(error) => Err(error),
            _ => Err(Error::Unfinished {
                offset: request.start,
                needed: request.end.saturating_sub(request.start),
            }),
        }
    }

    fn origin(&self, directory: usize, depth: u8) -> Origin {
        Origin {
            page: self.page.number,
            layout: self.page.layout,
            payload_len: self.page.payload_len,
            directory,
            depth,
            is_old_jpeg: self.is_old_jpeg,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.state {
            State::Nested(queue, request) => {
                let window = Window::answer(request, bytes)?;
                let queue = std::mem::take(queue);
                self.take_nested(queue, window)
            }
            State::Values(fetch) | State::HuffmanCounts(fetch) => fetch.push(bytes),
            State::Done(_) => Ok(()),
            State::Failed(error) => Err(error.clone()),
        }
    }

    /// Reads the directory at the front of the queue. An unreadable one is skipped, because pixels
    /// do not depend on it.
    fn take_nested(&mut self, mut queue: VecDeque<Nested>, window: Window<'_>) -> Result<()> {
        let Some(nested) = queue.front().copied() else {
            return Ok(());
        };
        let Page { layout, payload_len, .. } = self.page;
        match read_directory(layout, window, nested.offset, payload_len) {
            Ok(Progress::Needs(request)) => {
                self.state = State::Nested(queue, request);
                return Ok(());
            }
            Ok(Progress::Ready(directory)) => {
                self.directory_bytes = self.directory_bytes.saturating_add(directory.len);
                if self.directory_bytes <= payload_len {
                    let child = self.directories.len();
                    let origin = self.origin(child, nested.depth);
                    let (items, deeper) = plan_directory(origin, directory.entries)?;
                    self.directories.push(items);
                    queue.extend(deeper);
                    self.link(nested, child);
                }
            }
            Err(_) => {}
        }
        queue.pop_front();
        self.state = self.next_nested(queue);
        Ok(())
    }

    fn link(&mut self, nested: Nested, child: usize) {
        let items = self.directories.get_mut(nested.parent);
        if let Some(item) = items.and_then(|items| items.get_mut(nested.item)) {
            item.value = Value::Child(Some(child));
        }
    }

    fn next_nested(&self, mut queue: VecDeque<Nested>) -> State {
        while let Some(nested) = queue.front() {
            if let Some(request) = clipped(nested.offset, NESTED_REQUEST, self.page.payload_len) {
                return State::Nested(queue, request);
            }
            queue.pop_front();
        }
        State::Nested(queue, 0..0)
    }

    /// Executes the steps that have all their bytes.
    fn advance(&mut self) -> Result<()> {
        loop {
            self.state = match &mut self.state {
                State::Nested(queue, _) if queue.is_empty() => self.plan_values()?,
                State::Values(fetch) if fetch.needs().is_none() => {
                    let fetch = std::mem::take(fetch);
                    self.fill(&fetch);
                    self.plan_huffman_counts()?
                }
                State::HuffmanCounts(fetch) if fetch.needs().is_none() => {
                    let fetch = std::mem::take(fetch);
                    State::Done(self.lay_out(&fetch)?)
                }
                _ => return Ok(()),
            };
        }
    }

    fn plan_values(&mut self) -> Result<State> {
        for items in &mut self.directories {
            items.retain(|item| !matches!(item.value, Value::Child(None)));
        }
        let ranges: Vec<_> = self
            .directories
            .iter()
            .flatten()
            .filter_map(|item| match &item.value {
                Value::At(range) => Some(range.clone()),
                _ => None,
            })
            .collect();
        let value_bytes =
            ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        if value_bytes > self.page.payload_len {
            return Err(Error::OverlappingValues {
                page: self.page.number,
                value_bytes,
                payload_len: self.page.payload_len,
            });
        }
        Ok(State::Values(Fetch::new(ranges)))
    }

    fn fill(&mut self, fetch: &Fetch) {
        for item in self.directories.iter_mut().flatten() {
            if let Value::At(range) = &item.value {
                item.value = Value::Fetched(fetch.get(range).unwrap_or_default());
            }
        }
    }

    fn plan_huffman_counts(&self) -> Result<State> {
        let ranges = match self.directories.first() {
            Some(items) if self.is_old_jpeg => old_jpeg::huffman_counts(self.page, items)?,
            _ => Vec::new(),
        };
        Ok(State::HuffmanCounts(Fetch::new(ranges)))
    }

    fn lay_out(&mut self, huffman_counts: &Fetch) -> Result<PageCopy> {
        let page = self.page;
        let no_segments = Error::NoSegments { page: page.number };
        let Some(items) = self.directories.first_mut() else {
            return Err(no_segments);
        };
        let mut found = find_segments(page, items)?;
        if self.is_old_jpeg {
            found.extend(old_jpeg::find_tables(page, items, huffman_counts)?);
        }
        let has_pixels = found.iter().any(|segments| {
            matches!(
                segments.tag,
                tags::STRIP_OFFSETS | tags::TILE_OFFSETS | tags::JPEG_INTERCHANGE
            )
        });
        if !has_pixels {
            return Err(no_segments);
        }
        // Reserved exactly: a hostile page has millions of segments,
        // and growth would double the memory.
        let mut ranges = Vec::with_capacity(found.iter().map(|found| found.ranges.len()).sum());
        for segments in &found {
            ranges.extend_from_slice(&segments.ranges);
        }
        let relocation = Relocation::new(ranges);
        // The tables of an old-style JPEG contain its strips; on other pages, segments larger than
        // the payload are an attack.
        if relocation.distinct_bytes > page.payload_len && !self.is_old_jpeg {
            return Err(Error::OverlappingSegments {
                page: page.number,
                segment_bytes: relocation.distinct_bytes,
                payload_len: page.payload_len,
            });
        }
        for segments in found {
            let places = segments
                .ranges
                .into_iter()
                .map(|range| match range.is_empty() {
                    true => (range.start != 0).then_some(0),
                    false => relocation.place(range.start),
                })
                .collect();
            if let Ok(k) = items.binary_search_by_key(&segments.tag, |item| item.tag)
                && let Some(item) = items.get_mut(k)
            {
                item.value = Value::Placed(places);
            }
        }
        let head = encode_head(page.layout, &mut self.directories)
            .ok_or(Error::PageTooLarge { page: page.number })?;
        Ok(PageCopy::Pieces { head: head.into(), segments: relocation.into_segments() })
    }
}
