//! The facts of an image that is read by ranges.
//!
//! Gathers a prefix of the image, or the chunks that contain facts, and evaluates them as
//! [`image_facts`](super::image_facts) evaluates the whole image. Invariant: the probe ends for any
//! bytes, because each request begins at or after the end of the last one, and the bytes that it
//! holds are bounded.

use std::ops::Range;

use super::{Facts, gif, jpeg, page_facts, png, webp, xmp};
use crate::error::{Error, Result};
use crate::format::{ImageFormat, sniff};
use crate::tiff::{FirstPage, PageSize};
use crate::window::{Progress, Window, clipped};

/// Covers the header of most images.
const FIRST_REQUEST: u64 = 4096;
/// Each request of a growing prefix multiplies it by this.
const GROWTH: u64 = 4;
/// ICC profiles and extended XMP precede the pixels of a JPEG; most are smaller than 1 MiB.
const MAX_PREFIX: u64 = 256 << 20;
/// AVIF and HEIC store their size in the `meta` box, which precedes the pixels.
const META_PREFIX: u64 = 64 << 10;
/// Enough for the headers of several chunks.
const STEP_REQUEST: u64 = 1024;
/// Chunks with EXIF, XMP and texts together.
const MAX_CHUNK_BYTES: u64 = 64 << 20;
const MAX_XMP: u64 = 16 << 20;

/// Requests ranges of one payload until its facts are known. The facts
/// of a TIFF are those of page 0.
#[derive(Debug)]
pub struct FactsProbe {
    payload_len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Prefix { format: Option<ImageFormat>, bytes: Vec<u8>, request: Range<u64> },
    Chunks(Chunks, Range<u64>),
    Tiff(FirstPage, Range<u64>),
    TiffXmp(PageSize, Range<u64>),
    Done(Result<Facts>),
}

impl FactsProbe {
    /// A probe of a payload with a known length.
    #[must_use]
    pub fn new(payload_len: u64) -> Self {
        let state = match clipped(0, FIRST_REQUEST, payload_len) {
            Some(request) => State::Prefix { format: None, bytes: Vec::new(), request },
            None => State::Done(Err(Error::UnknownFormat { payload_len })),
        };
        Self { payload_len, state }
    }

    /// The range to push next; `None` if the probe is finished.
    #[must_use]
    pub fn needs(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Prefix { request, .. }
            | State::Chunks(_, request)
            | State::Tiff(_, request)
            | State::TiffXmp(_, request) => Some(request.clone()),
            State::Done(_) => None,
        }
    }

    /// Consumes the bytes of the range that [`needs`](Self::needs) returned.
    pub fn push(&mut self, bytes: &[u8]) {
        let Some(request) = self.needs() else { return };
        let state = std::mem::replace(
            &mut self.state,
            State::Done(Err(Error::UnknownFormat { payload_len: self.payload_len })),
        );
        self.state = match Window::answer(&request, bytes) {
            Ok(window) => self.step(state, window),
            Err(error) => State::Done(Err(error)),
        };
    }

    /// The facts.
    ///
    /// # Errors
    /// When the payload is not an image, its header is damaged or has a zero side, or not all bytes
    /// were pushed.
    pub fn finish(self) -> Result<Facts> {
        let request = self.needs();
        match self.state {
            State::Done(result) => result,
            _ => {
                let range = request.unwrap_or_default();
                Err(Error::Unfinished {
                    offset: range.start,
                    needed: range.end.saturating_sub(range.start),
                })
            }
        }
    }

    fn step(&self, state: State, window: Window<'_>) -> State {
        match state {
            State::Prefix { format, mut bytes, request } => {
                bytes.extend_from_slice(window.tail(request.start).unwrap_or_default());
                match format.or_else(|| sniff(&bytes)) {
                    None => {
                        State::Done(Err(Error::UnknownFormat { payload_len: self.payload_len }))
                    }
                    Some(format) => self.prefix(format, bytes, window),
                }
            }
            State::Chunks(chunks, _) => self.chunks(chunks, window),
            State::Tiff(page, _) => self.first_page(page, window),
            State::TiffXmp(page, request) => {
                let stated = window.tail(request.start).and_then(xmp::stated);
                State::Done(Ok(tiff_facts(&page, stated)))
            }
            State::Done(result) => State::Done(result),
        }
    }

    fn prefix(&self, format: ImageFormat, bytes: Vec<u8>, window: Window<'_>) -> State {
        let is_whole = bytes.len() as u64 == self.payload_len;
        let most = match format {
            ImageFormat::Tiff => return self.first_page(FirstPage::new(self.payload_len), window),
            ImageFormat::Png if !is_whole => return self.chunks(Chunks::of_png(&bytes), window),
            ImageFormat::Webp if !is_whole && webp::has_metadata(&bytes) => {
                return self.chunks(Chunks::of_webp(&bytes, self.payload_len), window);
            }
            ImageFormat::Jpeg if !jpeg::has_header(&bytes) => MAX_PREFIX,
            ImageFormat::Gif if !gif::has_frame(&bytes) => MAX_PREFIX,
            ImageFormat::Avif | ImageFormat::Other => META_PREFIX,
            _ => 0,
        };
        let len = bytes.len() as u64;
        match clipped(
            len,
            len.saturating_mul(GROWTH - 1).min(most.saturating_sub(len)),
            self.payload_len,
        ) {
            Some(request) if !request.is_empty() => {
                State::Prefix { format: Some(format), bytes, request }
            }
            _ => State::Done(page_facts(&bytes, 0)),
        }
    }

    fn chunks(&self, mut chunks: Chunks, window: Window<'_>) -> State {
        match chunks.step(window, self.payload_len) {
            Some(request) => State::Chunks(chunks, request),
            None => State::Done(page_facts(&chunks.finish(), 0)),
        }
    }

    fn first_page(&self, mut page: FirstPage, window: Window<'_>) -> State {
        match page.page(window) {
            Ok(Progress::Needs(request)) => State::Tiff(page, request),
            Err(error) => State::Done(Err(error)),
            Ok(Progress::Ready(page)) => match page
                .asked_xmp()
                .filter(|xmp| xmp.end <= self.payload_len && xmp.end - xmp.start <= MAX_XMP)
            {
                Some(request) => State::TiffXmp(page, request),
                None => State::Done(Ok(tiff_facts(&page, None))),
            },
        }
    }
}

fn tiff_facts(page: &PageSize, from_xmp: Option<u8>) -> Facts {
    Facts::new(ImageFormat::Tiff, page.stored, page.upright_by(from_xmp))
}

/// A walk over the chunks of a PNG or a WebP, which copies those that contain facts.
#[derive(Debug)]
struct Chunks {
    is_png: bool,
    /// The header, and the chunks that contain more facts.
    copied: Vec<u8>,
    position: u64,
    /// The end of the container.
    end: u64,
}

impl Chunks {
    fn of_png(prefix: &[u8]) -> Self {
        Self { is_png: true, copied: png::header(prefix), position: 8, end: u64::MAX }
    }

    fn of_webp(prefix: &[u8], payload_len: u64) -> Self {
        Self {
            is_png: false,
            copied: webp::header(prefix),
            position: 12,
            end: webp::end(prefix).min(payload_len),
        }
    }

    /// Continues in `window`. Returns the range to push next, or `None` at the end of the walk.
    fn step(&mut self, window: Window<'_>, payload_len: u64) -> Option<Range<u64>> {
        let end = self.end.min(payload_len);
        loop {
            if self.position.saturating_add(8) > end {
                return None;
            }
            let Some(header) = window.get(self.position, 8) else {
                return clipped(self.position, STEP_REQUEST, payload_len);
            };
            let &[a, b, c, d, e, f, g, h] = header.first_chunk()?;
            let (len, name, after) = match self.is_png {
                true => (u64::from(u32::from_be_bytes([a, b, c, d])), [e, f, g, h], 4),
                false => {
                    let len = u64::from(u32::from_le_bytes([e, f, g, h]));
                    (len, [a, b, c, d], len % 2)
                }
            };
            // A chunk that leaves the container ends the walk.
            if self.position + 8 + len > end {
                return None;
            }
            let is_wanted =
                if self.is_png { png::states_facts(&name) } else { webp::states_facts(&name) };
            if is_wanted && self.copied.len() as u64 + len <= MAX_CHUNK_BYTES {
                let Some(chunk) = window.get(self.position, 8 + len) else {
                    return clipped(self.position, 8 + len, payload_len);
                };
                self.copied.extend_from_slice(chunk);
                self.copied.resize(self.copied.len() + usize::try_from(after).unwrap_or(0), 0);
            } else if self.is_png && &name == b"IDAT" {
                png::push_empty_pixels(&mut self.copied);
            }
            if self.is_png && &name == b"IEND" {
                return None;
            }
            self.position += 8 + len + after;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if !self.is_png {
            webp::set_end(&mut self.copied);
        }
        self.copied
    }
}
