//! One scan of a text file: the positions and the number of its records, and a digest.

use super::BYTE_ORDER_MARK;
use crate::limit::{DecodeLimit, TooLarge};
use shardmill_storage::{Error, RangeRead};
use std::io::Read;
use xxhash_rust::xxh3::Xxh3;

/// Large enough to amortize a request, small enough to stay in the cache
/// for the two passes over it.
const CHUNK_BYTES: u64 = 1 << 20;

/// Records that are read together, without the line end of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) records: u64,
    /// Line of its first byte: 1-based, in physical lines.
    pub(crate) first_line: u64,
}

/// The result of scanning a file.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) runs: Vec<Run>,
    pub(crate) longest: Longest,
    /// Digest of the whole content. XXH3 keeps up with the disk, SHA-2 would take three times as
    /// long as the scan; the digest distinguishes changed files from copies, but does not guard
    /// against forgery.
    pub(crate) digest: u128,
}

/// The longest record, and its line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Longest {
    len: u64,
    line: u64,
}

impl Longest {
    /// # Errors
    /// When it is longer than the limit.
    pub(crate) fn check(self, path: &str, limit: DecodeLimit) -> Result<(), TooLarge> {
        limit.check(path, self.len, "a record of", || format!("line {}", self.line))
    }
}

/// Finds records in a file that is pushed in chunks.
pub(crate) trait Borders {
    /// `offset` is the position of the chunk in the file.
    fn push(&mut self, chunk: &[u8], offset: u64, cutter: &mut Cutter);

    /// The file ends at `end`; the last record may lack its line end.
    fn finish(&mut self, end: u64, cutter: &mut Cutter);
}

/// Groups records into runs. A run is closed by the record that no longer fits, so its borders do
/// not depend on how the file was read.
#[derive(Debug)]
pub(crate) struct Cutter {
    target_bytes: u64,
    runs: Vec<Run>,
    current: Option<Run>,
    longest: Longest,
    /// Of the last record.
    end: u64,
}

impl Cutter {
    fn new(target_bytes: u64) -> Self {
        Self { target_bytes, runs: Vec::new(), current: None, longest: Longest::default(), end: 0 }
    }

    /// Where the last record ends, without its line end.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// A record from `start` to `end`, without its line end, that begins on `line`.
    pub(crate) fn record(&mut self, start: u64, end: u64, line: u64) {
        let len = end.saturating_sub(start);
        self.end = end;
        if len > self.longest.len {
            self.longest = Longest { len, line };
        }
        match &mut self.current {
            Some(run) if end.saturating_sub(run.offset) <= self.target_bytes => {
                run.records += 1;
                run.len = end.saturating_sub(run.offset);
            }
            _ => {
                self.runs.extend(self.current.take());
                self.current = Some(Run { offset: start, len, records: 1, first_line: line });
            }
        }
    }
}

/// Reads `object` once from its start and splits everything from `start` on into
/// runs of about `target_bytes`.
///
/// # Errors
/// When the bytes cannot be read.
pub(crate) fn index(
    object: &dyn RangeRead,
    start: u64,
    borders: &mut dyn Borders,
    target_bytes: u64,
) -> Result<Index, Error> {
    let size = object.size();
    let mut cutter = Cutter::new(target_bytes);
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; usize::try_from(size.min(CHUNK_BYTES)).unwrap_or_default()];
    let mut offset = 0;
    while offset < size {
        let len = usize::try_from((size - offset).min(CHUNK_BYTES)).unwrap_or_default();
        let Some(chunk) = buffer.get_mut(..len) else { break };
        object.read_at(offset, chunk)?;
        hash.update(chunk);
        let ahead = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX).min(len);
        if let Some(records) = chunk.get(ahead..).filter(|records| !records.is_empty()) {
            borders.push(records, offset + ahead as u64, &mut cutter);
        }
        offset += len as u64;
    }
    borders.finish(size, &mut cutter);
    cutter.runs.extend(cutter.current.take());
    Ok(Index { runs: cutter.runs, longest: cutter.longest, digest: hash.digest128() })
}

/// Reads `object` from its start until `borders` has found `records` records, or its end. What is
/// then read for type inference or for the header is known to be below the limit.
///
/// # Errors
/// For a record that is longer than the limit.
pub(crate) fn check_start(
    object: &dyn RangeRead,
    reader: &mut dyn Read,
    borders: &mut dyn Borders,
    records: u64,
    limit: DecodeLimit,
) -> Result<(), TooLarge> {
    // Each record is a run.
    let mut cutter = Cutter::new(0);
    let (mut chunk, mut offset) = (Vec::new(), 0u64);
    loop {
        chunk.clear();
        // Opening the file reports what cannot be read.
        if !(&mut *reader).take(CHUNK_BYTES).read_to_end(&mut chunk).is_ok_and(|read| read > 0) {
            return Ok(());
        }
        borders.push(&chunk, offset, &mut cutter);
        offset += chunk.len() as u64;
        let found = cutter.runs.len() as u64 + u64::from(cutter.current.is_some());
        if found >= records {
            return Ok(());
        }
        let last = cutter.current.as_ref();
        let open = offset - last.map_or(0, |run| run.offset + run.len);
        limit.check(object.path(), open, "a record of at least", || {
            format!("line {}", last.map_or(1, |run| run.first_line + 1))
        })?;
    }
}

/// The bytes of a run.
///
/// # Errors
/// When they cannot be read, as when the file shrank after it was indexed.
pub(crate) fn read_run(object: &dyn RangeRead, run: &Run) -> Result<Vec<u8>, Error> {
    let (size, end) = (object.size(), run.offset.saturating_add(run.len));
    let len = usize::try_from(run.len).unwrap_or(usize::MAX);
    if end > size {
        return Err(Error::ShortRead {
            path: object.path().to_owned(),
            offset: run.offset,
            len,
            end: size,
        });
    }
    let mut bytes = vec![0; len];
    object.read_at(run.offset, &mut bytes)?;
    Ok(bytes)
}

/// The first `len` bytes of a file and whether that is the whole file; a byte order mark counts
/// towards `len` and is removed.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn read_start(object: &dyn RangeRead, len: u64) -> Result<Start, Error> {
    let size = object.size();
    let mut bytes = vec![0; usize::try_from(len.min(size)).unwrap_or(usize::MAX)];
    object.read_at(0, &mut bytes)?;
    Ok(start_of(bytes, len >= size))
}

/// From the first bytes of a file, which may be all of them.
pub(crate) fn start_of(mut bytes: Vec<u8>, is_whole: bool) -> Start {
    let mark_len = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    bytes.drain(..mark_len);
    Start { bytes, mark_len: mark_len as u64, is_whole }
}

/// The start of a file.
#[derive(Debug)]
pub struct Start {
    pub bytes: Vec<u8>,
    pub(crate) mark_len: u64,
    pub(crate) is_whole: bool,
}

/// The physical line at `position` of `bytes`, whose first byte is on `first_line`. `\n`, `\r\n`
/// and a lone `\r` end a line.
pub(crate) fn line_of(bytes: &[u8], position: usize, first_line: u64) -> u64 {
    let before = bytes.get(..position).unwrap_or(bytes);
    let ends = memchr::memchr2_iter(b'\n', b'\r', before).filter(|end| {
        let is_paired = before.get(*end) == Some(&b'\r') && bytes.get(end + 1) == Some(&b'\n');
        !is_paired
    });
    first_line + ends.count() as u64
}
