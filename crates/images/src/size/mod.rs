//! Reads the size of an image from its header.
//!
//! The aspect ratio filter runs a [`SizeProbe`] once per image. Invariant: the probe ends
//! for any bytes, because each step of the JPEG walk advances and the other formats
//! make at most two requests.

mod fixed;
mod jpeg;
mod jpeg2000;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::format::{ImageFormat, is_jpeg2000, sniff};
use crate::image_size::ImageSize;
use crate::tiff::FirstPage;
use crate::window::{Progress, Window, clipped, slice};
use jpeg::JpegWalk;
use std::ops::Range;

/// Covers every fixed header, and the SOF of a JPEG without large metadata.
const FIRST_REQUEST: u64 = 4096;
/// AVIF and HEIC store their size in the `meta` box, which precedes the pixels
/// and is rarely larger.
const LONG_PREFIX: u64 = 64 * 1024;

/// Requests header ranges of one payload until the size is known.
#[derive(Debug)]
pub struct SizeProbe {
    payload_len: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Start(Range<u64>),
    LongPrefix(ImageFormat, Range<u64>),
    Jpeg(JpegWalk, Range<u64>),
    Tiff(FirstPage, Range<u64>),
    Done(Result<ImageSize>),
}

impl SizeProbe {
    /// A probe of a payload with a known length.
    #[must_use]
    pub fn new(payload_len: u64) -> Self {
        let state = match clipped(0, FIRST_REQUEST, payload_len) {
            Some(range) => State::Start(range),
            None => State::Done(Err(Error::UnknownFormat { payload_len })),
        };
        Self { payload_len, state }
    }

    /// The range to push next; `None` if the probe is finished.
    #[must_use]
    pub fn needs(&self) -> Option<Range<u64>> {
        match &self.state {
            State::Start(range)
            | State::LongPrefix(_, range)
            | State::Jpeg(_, range)
            | State::Tiff(_, range) => Some(range.clone()),
            State::Done(_) => None,
        }
    }

    /// Consumes the bytes of the range that [`needs`](Self::needs) returned.
    /// Errors are returned by [`finish`](Self::finish).
    pub fn push(&mut self, bytes: &[u8]) {
        let Some(request) = self.needs() else { return };
        // A placeholder: every path below sets the next state.
        let state = std::mem::replace(
            &mut self.state,
            State::Done(Err(Error::UnknownFormat { payload_len: self.payload_len })),
        );
        self.state = match Window::answer(&request, bytes) {
            Ok(window) => self.step(state, window),
            Err(error) => State::Done(Err(error)),
        };
    }

    /// The size.
    ///
    /// # Errors
    /// When the payload is not an image, its header is damaged or has a zero side, or not all bytes
    /// were pushed.
    pub fn finish(self) -> Result<ImageSize> {
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
            State::Start(_) => self.start(window),
            State::LongPrefix(format, _) => State::Done(self.generic(format, window)),
            State::Jpeg(walk, _) => self.walk(walk, window),
            State::Tiff(page, _) => self.first_page(page, window),
            State::Done(result) => State::Done(result),
        }
    }

    fn start(&self, window: Window<'_>) -> State {
        let prefix = window.tail(0).unwrap_or_default();
        let Some(format) = sniff(prefix) else {
            return State::Done(Err(Error::UnknownFormat { payload_len: self.payload_len }));
        };
        match format {
            ImageFormat::Jpeg => self.walk(JpegWalk::new(), window),
            ImageFormat::Tiff => self.first_page(FirstPage::new(self.payload_len), window),
            ImageFormat::Png | ImageFormat::Gif | ImageFormat::Bmp | ImageFormat::Webp => {
                State::Done(fixed::size(format, prefix))
            }
            ImageFormat::Avif | ImageFormat::Other => {
                match clipped(0, LONG_PREFIX, self.payload_len) {
                    Some(range) if range.end > FIRST_REQUEST => State::LongPrefix(format, range),
                    _ => State::Done(self.generic(format, window)),
                }
            }
        }
    }

    fn walk(&self, mut walk: JpegWalk, window: Window<'_>) -> State {
        match walk.step(window, self.payload_len) {
            Ok(Progress::Ready(size)) => State::Done(Ok(size)),
            Ok(Progress::Needs(range)) => State::Jpeg(walk, range),
            Err(error) => State::Done(Err(error)),
        }
    }

    fn first_page(&self, mut page: FirstPage, window: Window<'_>) -> State {
        match page.step(window) {
            Ok(Progress::Ready(size)) => State::Done(Ok(size)),
            Ok(Progress::Needs(range)) => State::Tiff(page, range),
            Err(error) => State::Done(Err(error)),
        }
    }

    fn generic(&self, format: ImageFormat, window: Window<'_>) -> Result<ImageSize> {
        let unknown = Error::UnknownSize { format };
        let prefix = window.tail(0).unwrap_or_default();
        if is_jpeg2000(prefix) {
            let (width, height) = jpeg2000::size(prefix).ok_or(unknown)?;
            return ImageSize::new(width, height);
        }
        let size = imagesize::blob_size(prefix).map_err(|_| unknown.clone())?;
        match (u32::try_from(size.width), u32::try_from(size.height)) {
            (Ok(width), Ok(height)) => ImageSize::new(width, height),
            _ => Err(unknown),
        }
    }
}

/// The size of an image in memory; for a TIFF that of page 0.
///
/// # Errors
/// As [`SizeProbe::finish`].
pub fn image_size(payload: &[u8]) -> Result<ImageSize> {
    let mut probe = SizeProbe::new(payload.len() as u64);
    while let Some(range) = probe.needs() {
        probe.push(slice(payload, &range));
    }
    probe.finish()
}
