//! A piece of the payload with its offset.
//!
//! Parsers read by payload offset, regardless of how the payload was divided. Invariant: a result
//! is complete or missing, never short.

use std::ops::Range;

use crate::error::{Error, Result};

/// Bytes of the payload from `start` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window<'a> {
    start: u64,
    bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// The response to a request; surplus bytes are ignored.
    ///
    /// # Errors
    /// [`Error::ShortBytes`] when the response is shorter than the request.
    pub(crate) fn answer(request: &Range<u64>, bytes: &'a [u8]) -> Result<Self> {
        let needed = request.end.saturating_sub(request.start);
        let short =
            || Error::ShortBytes { offset: request.start, needed, found: bytes.len() as u64 };
        let len = usize::try_from(needed).map_err(|_| short())?;
        Ok(Self { start: request.start, bytes: bytes.get(..len).ok_or_else(short)? })
    }

    /// `len` bytes at payload offset `offset`, if the window contains all of them.
    pub(crate) fn get(&self, offset: u64, len: u64) -> Option<&'a [u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(usize::try_from(len).ok()?)?;
        self.bytes.get(from..to)
    }

    /// Everything from payload offset `offset` to the end of the window.
    pub(crate) fn tail(&self, offset: u64) -> Option<&'a [u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..)
    }
}

/// `len` bytes of `payload_len` at `offset`, clipped at the end of the payload;
/// `None` if nothing remains.
pub(crate) fn clipped(offset: u64, len: u64, payload_len: u64) -> Option<Range<u64>> {
    (offset < payload_len).then(|| offset..offset.saturating_add(len).min(payload_len))
}

/// The bytes of a range of the payload; empty if it is out of bounds.
pub(crate) fn slice<'a>(payload: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    usize::try_from(range.start)
        .ok()
        .zip(usize::try_from(range.end).ok())
        .and_then(|(start, end)| payload.get(start..end))
        .unwrap_or_default()
}

/// The result of a step of a state machine.
#[derive(Debug)]
pub(crate) enum Progress<T, N = Range<u64>> {
    Needs(N),
    Ready(T),
}
