//! Fetches scattered small ranges with few requests.
//!
//! Invariant: requests are disjoint and ascending, so together they are never larger
//! than the payload.

use std::ops::Range;

use bytes::Bytes;

use crate::error::Result;
use crate::window::Window;

/// Values of one directory are close together; reading a small gap is cheaper than
/// a second request.
const MAX_GAP: u64 = 1024;

/// Requests and the responses so far.
#[derive(Debug, Default)]
pub(crate) struct Fetch {
    requests: Vec<Range<u64>>,
    answers: Vec<Bytes>,
}

impl Fetch {
    /// Plans requests that cover `ranges`.
    pub(crate) fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut requests: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match requests.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(MAX_GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ => requests.push(range),
            }
        }
        Self { requests, answers: Vec::new() }
    }

    /// The next request; `None` if all were answered.
    pub(crate) fn needs(&self) -> Option<&Range<u64>> {
        self.requests.get(self.answers.len())
    }

    /// Consumes the response to the next request.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(request) = self.needs() {
            let window = Window::answer(request, bytes)?;
            let answer = window.tail(request.start).unwrap_or_default();
            self.answers.push(Bytes::copy_from_slice(answer));
        }
        Ok(())
    }

    /// The bytes of one of the planned ranges.
    pub(crate) fn get(&self, range: &Range<u64>) -> Option<Bytes> {
        let after = self.requests.partition_point(|request| request.start <= range.start);
        let k = after.checked_sub(1)?;
        let request = self.requests.get(k)?;
        let answer = self.answers.get(k)?;
        let from = usize::try_from(range.start.checked_sub(request.start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(request.start)?).ok()?;
        (from <= to && to <= answer.len()).then(|| answer.slice(from..to))
    }
}
