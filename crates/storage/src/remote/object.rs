//! One open object: its version, and the bytes read last.
//!
//! Small reads are served from a window that is fetched around them; it grows while reads are
//! sequential. Large reads and batches of ranges are fetched as they are.

use super::failure::{Operation, failed};
use super::fetch::{self, Failure};
use super::location::Location;
use super::runtime;
use super::store::RemoteStore;
use super::version::Version;
use crate::bytes::cache::CachedObject;
use crate::bytes::fresh;
use crate::bytes::requests::joined;
use crate::{Error, Identity, RangeRead, Result, len_within};
use bytes::Bytes;
use futures_util::future::try_join_all;
use object_store::path::Path;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What joins to one run; longer runs are cut again when they are fetched.
const MAX_JOINED: u64 = 64 << 20;
/// Covers the footers of most files.
pub(super) const TAIL: u64 = 64 << 10;
const FIRST_WINDOW: u64 = 64 << 10;
const MAX_WINDOW: u64 = 8 << 20;
/// Small enough for a runtime thread to copy it without delaying others.
const SMALL: u64 = 128 << 10;
/// The total size of small objects that are kept whole.
const MAX_KEPT: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct RemoteObject {
    path: String,
    key: Path,
    store: Arc<RemoteStore>,
    version: Version,
    cached: Option<CachedObject>,
    /// The whole object, if opening it fetched all bytes: a server without ranges sends it once.
    whole: Option<Bytes>,
    /// Never waited for: a thread that finds it locked reads from the store.
    window: Mutex<Window>,
}

/// A share of the memory for the small objects of a store.
#[derive(Debug)]
struct Kept {
    len: u64,
    all: Arc<AtomicU64>,
}

impl Kept {
    fn of(all: &Arc<AtomicU64>, len: u64) -> Option<Self> {
        let kept = Self { len, all: Arc::clone(all) };
        // A share over the limit is returned immediately.
        (all.fetch_add(len, Ordering::Relaxed).saturating_add(len) <= MAX_KEPT).then_some(kept)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[derive(Debug, Default, Clone)]
struct Window {
    start: u64,
    bytes: Bytes,
    /// The size of the next window.
    next: u64,
    /// Of a whole object.
    _kept: Option<Arc<Kept>>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let from = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}

impl RemoteObject {
    /// # Errors
    /// [`Error::NotFound`]; when the store rejects the request.
    pub(super) fn open(store: &Arc<RemoteStore>, path: &str, tail_bytes: u64) -> Result<Self> {
        let key = Location::parse(path)?.existing()?;
        if key.as_ref().is_empty() {
            return Err(Error::NotFound { path: path.to_owned() });
        }
        if let Some(meta) = store.listed(key.as_ref()) {
            return Self::new(Arc::clone(store), path, key, Version::of(&meta), Bytes::new());
        }
        let answer =
            runtime::wait(fetch::tail(store.client()?, &key, tail_bytes, store.patience()))
                .map_err(|source| failed(path.to_owned(), Operation::Opening, source))?;
        let (meta, tail) =
            answer.map_err(|failure| failure.error(path, Operation::Opening, &store.options))?;
        Self::new(Arc::clone(store), path, key, Version::of(&meta), tail)
    }

    pub(super) fn new(
        store: Arc<RemoteStore>,
        path: &str,
        key: Path,
        version: Version,
        tail: Bytes,
    ) -> Result<Self> {
        let start = version.size.saturating_sub(tail.len() as u64);
        // A server without ranges has already sent the whole file.
        let whole = (start == 0 && !tail.is_empty() && store.is_http()).then(|| tail.clone());
        let window = Mutex::new(Window { start, bytes: tail, next: FIRST_WINDOW, _kept: None });
        // A server that sends neither tag nor time may have other bytes of the same size in the
        // next run.
        let is_cached = whole.is_none() && (version.is_told() || !store.is_http());
        let cached = match store.cache()?.filter(|_| is_cached) {
            Some(cache) => cache.object(path, &version.mark(), version.size)?,
            None => None,
        };
        Ok(Self { path: path.to_owned(), key, store, version, cached, whole, window })
    }

    fn fetched(&self, spans: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        let first = spans.first().cloned().unwrap_or_default();
        let operation = Operation::Reading {
            offset: first.start,
            len: usize::try_from(first.end - first.start).unwrap_or(usize::MAX),
        };
        let patience = self.store.patience();
        let answers =
            if spans.iter().map(|span| span.end.saturating_sub(span.start)).sum::<u64>() <= SMALL {
                // Creating the client may fail; the error is reported here.
                self.store.client()?;
                let (store, key, version) =
                    (Arc::clone(&self.store), self.key.clone(), self.version.clone());
                runtime::wait_elsewhere(async move {
                    let Ok(client) = store.client() else { return Err(Failure::Memory) };
                    try_join_all(
                        spans
                            .into_iter()
                            .map(|span| fetch::span(client, &key, &version, span, patience)),
                    )
                    .await
                })
            } else {
                let client = self.store.client()?;
                runtime::wait(try_join_all(
                    spans
                        .into_iter()
                        .map(|span| fetch::span(client, &self.key, &self.version, span, patience)),
                ))
            };
        let answers = answers.map_err(|source| failed(self.path.clone(), operation, source))?;
        answers.map_err(|failure| failure.error(&self.path, operation, &self.store.options))
    }

    fn spans(&self, spans: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        match &self.cached {
            Some(cached) => cached.read(&spans, |missing| self.fetched(missing)),
            None => self.fetched(spans),
        }
    }

    fn one(&self, span: Range<u64>) -> Result<Bytes> {
        Ok(self.spans(vec![span])?.pop().unwrap_or_default())
    }

    /// The range to fetch for a small read.
    fn around(&self, range: &Range<u64>, window: &Window) -> (Range<u64>, u64) {
        let size = self.version.size;
        if range.start >= size.saturating_sub(TAIL) {
            return (size.saturating_sub(TAIL)..size, FIRST_WINDOW);
        }
        let reads_on = range.start >= window.start
            && range.start <= window.end().saturating_add(window.next)
            && !window.bytes.is_empty();
        let len = if reads_on { (window.next * 2).min(MAX_WINDOW) } else { FIRST_WINDOW };
        (range.start..range.start.saturating_add(len).max(range.end).min(size), len)
    }

    /// The next reader of a small object, usually of its rows after its footer, needs no request.
    fn keep_whole(&self, bytes: &Bytes) {
        let len = bytes.len() as u64;
        if len == self.version.size
            && len <= TAIL
            && let Some(kept) = Kept::of(&self.store.kept, len)
            && let Ok(mut window) = self.window.try_lock()
        {
            *window = Window {
                start: 0,
                bytes: bytes.clone(),
                next: FIRST_WINDOW,
                _kept: Some(Arc::new(kept)),
            };
        }
    }

    /// The bytes read last, unless the caller bypasses caches.
    fn known(&self) -> Window {
        if let Some(bytes) = &self.whole {
            return Window { bytes: bytes.clone(), ..Window::default() };
        }
        let Ok(mut window) = self.window.try_lock() else { return Window::default() };
        if fresh::is_wanted() {
            *window = Window { next: FIRST_WINDOW, ..Window::default() };
        }
        window.clone()
    }

    fn small(&self, range: &Range<u64>) -> Result<Bytes> {
        let known = self.known();
        if let Some(bytes) = known.slice(range) {
            return Ok(bytes);
        }
        let (span, next) = self.around(range, &known);
        let window = Window { start: span.start, bytes: self.one(span)?, next, _kept: None };
        let found = window.slice(range).ok_or_else(|| short(self, range))?;
        if let Ok(mut kept) = self.window.try_lock() {
            *kept = window;
        }
        Ok(found)
    }
}

fn short(object: &RemoteObject, range: &Range<u64>) -> Error {
    let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    Error::ShortRead { path: object.path.clone(), offset: range.start, len, end: range.end }
}

impl RangeRead for RemoteObject {
    fn path(&self) -> &str {
        &self.path
    }

    fn identity(&self) -> Identity {
        self.version.identity()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        len_within(self, &range)?;
        if range.is_empty() {
            return Ok(());
        }
        let bytes = if buffer.len() as u64 <= FIRST_WINDOW {
            self.small(&range)?
        } else {
            self.read_ranges(std::slice::from_ref(&range))?.pop().unwrap_or_default()
        };
        if bytes.len() != buffer.len() {
            return Err(short(self, &range));
        }
        buffer.copy_from_slice(&bytes);
        Ok(())
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        for range in ranges {
            len_within(self, range)?;
        }
        let known = self.known();
        let missing: Vec<Range<u64>> =
            ranges.iter().filter(|range| known.slice(range).is_none()).cloned().collect();
        let spans = joined(missing, self.store.gap, MAX_JOINED);
        let answers = if spans.is_empty() { Vec::new() } else { self.spans(spans.clone())? };
        answers.iter().for_each(|bytes| self.keep_whole(bytes));
        let windows: Vec<Window> = spans
            .iter()
            .zip(answers)
            .map(|(span, bytes)| Window { start: span.start, bytes, next: 0, _kept: None })
            .collect();
        let read = |range: &Range<u64>| {
            let before =
                windows.partition_point(|window| window.start <= range.start).checked_sub(1);
            let found = known.slice(range).or_else(|| windows.get(before?)?.slice(range));
            if range.is_empty() {
                Ok(Bytes::new())
            } else {
                found.ok_or_else(|| short(self, range))
            }
        };
        ranges.iter().map(read).collect()
    }

    fn gap_bytes(&self) -> u64 {
        self.store.gap
    }

    fn is_remote(&self) -> bool {
        true
    }
}
