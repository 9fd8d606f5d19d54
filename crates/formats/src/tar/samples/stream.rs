//! Compressed archives, which can only be read sequentially.
//!
//! The decompressor pushes bytes into a [`Write`]; one of the two sinks here receives them,
//! depending on their purpose. Memory holds only headers and selected members, regardless of the
//! decompressed size.

use super::Error;
use super::index::{Grouping, Index};
use crate::limit::DecodeLimit;
use crate::tar::{Compression, TarError, Walk, inflate};
use shardmill_storage::{RangeRead, SequentialRead};
use std::io::{self, BufReader, Write};
use std::ops::Range;

const READ_BYTES: usize = 1 << 20;

/// Walks a compressed archive.
pub(super) fn index(
    object: &dyn RangeRead,
    compression: Compression,
    ignores_zeros: bool,
    limit: DecodeLimit,
) -> Result<Index, Error> {
    let walk = Walk::new(u64::MAX).reading_on(ignores_zeros);
    let mut headers = Headers {
        walk,
        grouping: Grouping::new(object.path(), limit),
        window: Vec::new(),
        position: 0,
        failure: None,
    };
    let decompressed = decompress(object, compression, &mut headers);
    if let Some(failure) = headers.failure {
        return Err(failure);
    }
    decompressed?;
    let ended = headers.walk.end_at(headers.position, &headers.window);
    headers
        .grouping
        .end(ended.map_err(|source| Error::Archive { path: object.path().to_owned(), source })?)?;
    Ok(headers.grouping.finish())
}

/// The content of `runs`, which are in order and do not overlap.
pub(super) fn read(
    object: &dyn RangeRead,
    compression: Compression,
    runs: &[Range<u64>],
) -> Result<Vec<Vec<u8>>, Error> {
    let mut wanted = Wanted { runs, read: Vec::with_capacity(runs.len()), position: 0 };
    decompress(object, compression, &mut wanted)?;
    let is_whole =
        |(run, bytes): (&Range<u64>, &Vec<u8>)| bytes.len() as u64 == run.end - run.start;
    match runs.last() {
        Some(last)
            if wanted.read.len() != runs.len() || !runs.iter().zip(&wanted.read).all(is_whole) =>
        {
            Err(Error::Changed { path: object.path().to_owned(), offset: last.end })
        }
        _ => Ok(wanted.read),
    }
}

fn decompress(
    object: &dyn RangeRead,
    compression: Compression,
    sink: &mut impl Write,
) -> Result<(), Error> {
    let path = || object.path().to_owned();
    let reader = BufReader::with_capacity(READ_BYTES, SequentialRead::new(object));
    match inflate(compression, reader, sink) {
        Ok(_) => Ok(()),
        Err(TarError::Compression { compression }) => {
            Err(Error::Compression { path: path(), compression })
        }
        Err(source) => Err(Error::Archive { path: path(), source }),
    }
}

/// Receives the bytes that the walk requests.
struct Headers {
    walk: Walk,
    grouping: Grouping,
    /// The start of the range that the walk needs next.
    window: Vec<u8>,
    position: u64,
    failure: Option<Error>,
}

impl Headers {
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while let Some(range) = self.walk.needs() {
            let skipped = usize::try_from(range.start.saturating_sub(self.position))
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            bytes = self.pass(bytes, skipped);
            let missing =
                usize::try_from(range.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
            let taken = missing.min(bytes.len());
            self.window.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            bytes = self.pass(bytes, taken);
            if self.position < range.end {
                return Ok(());
            }
            let walked = self.walk.push(&self.window);
            self.window.clear();
            self.grouping.take(walked)?;
        }
        self.pass(bytes, bytes.len());
        Ok(())
    }

    fn pass<'a>(&mut self, bytes: &'a [u8], count: usize) -> &'a [u8] {
        self.position = self.position.saturating_add(count as u64);
        bytes.get(count..).unwrap_or_default()
    }
}

impl Write for Headers {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.take(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(failure) => {
                let shown = io::Error::other(failure.to_string());
                self.failure = Some(failure);
                Err(shown)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps some ranges.
struct Wanted<'a> {
    runs: &'a [Range<u64>],
    /// The last one may be incomplete.
    read: Vec<Vec<u8>>,
    position: u64,
}

impl Write for Wanted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.position.saturating_add(bytes.len() as u64);
        let mut number = self.read.len().saturating_sub(1);
        while let Some(run) = self.runs.get(number).filter(|run| run.start < end) {
            if number == self.read.len() {
                self.read.push(Vec::new());
            }
            let place = |offset: u64| {
                usize::try_from(offset.clamp(self.position, end) - self.position)
                    .unwrap_or_default()
            };
            let piece = bytes.get(place(run.start)..place(run.end)).unwrap_or_default();
            if let Some(kept) = self.read.get_mut(number) {
                kept.extend_from_slice(piece);
            }
            number += 1;
        }
        self.position = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
