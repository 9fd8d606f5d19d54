//! One open object: its version, its tail in memory, and its connection.

use super::connection::{Asked, Connection, Failure, Version};
use super::site::Site;
use crate::requests::{Fetch, fetches};
use crate::{Error, Identity, RangeRead, Result, len_within};
use bytes::Bytes;
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

/// At 100 MB/s this takes about as long as the first byte of another request.
const MAX_GAP: u64 = 4 << 20;
/// A request that fails is repeated as a whole, so that ranges are not joined without end.
const MAX_JOINED: u64 = 64 << 20;

pub(super) struct GcsObject {
    path: String,
    connection: Connection,
    version: Version,
    /// Of the object, from `tail_start` to its end.
    tail: Bytes,
    tail_start: u64,
}

impl fmt::Debug for GcsObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GcsObject").field("path", &self.path).field("version", &self.version).finish_non_exhaustive()
    }
}

impl GcsObject {
    pub(super) fn open(path: &str, tail_bytes: u64, site: &Site) -> Result<Self> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let connection = site.url_of(path).and_then(|url| Connection::new(url, site)).map_err(failed)?;
        // A tail of nothing is no range that a server can answer, and without an answer the size is not known.
        let asked = Asked::Tail(tail_bytes.max(1));
        let whole = |span: &Range<u64>, body: &mut dyn Read| Ok((span.start, piece(span, body)?));
        let (version, (tail_start, tail)) = connection.get(&asked, whole).map_err(|failure| error_of(failure, path, failed))?;
        Ok(Self { path: path.to_owned(), connection, version, tail, tail_start })
    }

    fn get<T>(&self, span: &Range<u64>, take: impl FnMut(&Range<u64>, &mut dyn Read) -> io::Result<T>) -> Result<T> {
        let (offset, len) = (span.start, usize::try_from(span.end.saturating_sub(span.start)).unwrap_or(usize::MAX));
        let failed = |source| Error::Read { path: self.path.clone(), offset, len, source };
        let asked = Asked::Span(span.clone(), &self.version);
        let (_, taken) = self.connection.get(&asked, take).map_err(|failure| error_of(failure, &self.path, failed))?;
        Ok(taken)
    }

    /// The pieces of one answer, each with where it begins.
    fn pieces(&self, fetch: &Fetch) -> Result<Vec<(u64, Bytes)>> {
        self.get(&fetch.span, |span, body| {
            let mut at = span.start;
            let mut pieces = Vec::with_capacity(fetch.pieces.len());
            for range in &fetch.pieces {
                let gap = range.start.saturating_sub(at);
                if io::copy(&mut body.take(gap), &mut io::sink())? != gap {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                pieces.push((range.start, piece(range, body)?));
                at = range.end;
            }
            Ok(pieces)
        })
    }

    /// What the tail holds of `range`.
    fn tail_of(&self, range: &Range<u64>) -> Bytes {
        let within = |position: u64| usize::try_from(position.saturating_sub(self.tail_start)).unwrap_or(usize::MAX).min(self.tail.len());
        self.tail.slice(within(range.start)..within(range.end))
    }
}

/// The bytes of `range`, which come next.
fn piece(range: &Range<u64>, body: &mut dyn Read) -> io::Result<Bytes> {
    let len = range.end.saturating_sub(range.start);
    let capacity = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = Vec::new();
    // The length was said by somebody else; one that cannot be had must not end the process.
    bytes.try_reserve_exact(capacity).map_err(|_| io::ErrorKind::OutOfMemory)?;
    body.take(len).read_to_end(&mut bytes)?;
    if bytes.len() != capacity {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.into())
}

fn error_of(failure: Failure, path: &str, failed: impl FnOnce(io::Error) -> Error) -> Error {
    match failure {
        Failure::Missing => Error::NotFound { path: path.to_owned() },
        Failure::Denied(status) => Error::Denied { path: path.to_owned(), status },
        Failure::Changed => Error::Changed { path: path.to_owned() },
        Failure::Final(source) | Failure::Passing(source) => failed(source),
    }
}

impl RangeRead for GcsObject {
    fn path(&self) -> &str {
        &self.path
    }

    fn identity(&self) -> Identity {
        // A generation is the microsecond in which the version was made.
        Identity { size: self.version.size, modified_ns: self.version.generation.map_or(0, |micros| i128::from(micros) * 1000) }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        len_within(self, &range)?;
        let tail = self.tail_of(&range);
        let (before, within) = buffer.split_at_mut(buffer.len().saturating_sub(tail.len()));
        within.copy_from_slice(&tail);
        if before.is_empty() {
            return Ok(());
        }
        self.get(&(offset..range.end.min(self.tail_start)), |_, body| body.read_exact(before))
    }

    fn gap_bytes(&self) -> u64 {
        MAX_GAP
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        for range in ranges {
            len_within(self, range)?;
        }
        let mut fetched: Vec<(u64, Bytes)> = Vec::new();
        for fetch in fetches(ranges, self.tail_start, MAX_GAP, MAX_JOINED) {
            fetched.extend(self.pieces(&fetch)?);
        }
        let read = |range: &Range<u64>| {
            let tail = self.tail_of(range);
            if range.start >= range.end.min(self.tail_start) {
                return Some(tail);
            }
            let index = fetched.partition_point(|(start, _)| *start <= range.start).checked_sub(1)?;
            let (start, piece) = fetched.get(index)?;
            let within = |position: u64| usize::try_from(position.checked_sub(*start)?).ok();
            let bounds = within(range.start)?..within(range.end.min(self.tail_start))?;
            if bounds.end > piece.len() {
                return None;
            }
            let before = piece.slice(bounds);
            Some(if tail.is_empty() { before } else { [before, tail].concat().into() })
        };
        let lost = |range: &Range<u64>| Error::Read {
            path: self.path.clone(),
            offset: range.start,
            len: 0,
            source: io::Error::other("no piece of the answer holds the range"),
        };
        ranges.iter().map(|range| read(range).ok_or_else(|| lost(range))).collect()
    }
}
