//! Reads the members of a block with as few requests as possible.
//!
//! Members that are close together form one run, including headers between them; values are views into runs, so nothing is copied.

use super::Error;
use super::stream;
use crate::tar::Compression;
use arrow_buffer::Buffer;
use shardmill_storage::RangeRead;
use std::ops::Range;

/// Offsets of views have 32 bits.
const MAX_RUN_BYTES: u64 = 1 << 30;

/// Arrays with many small buffers are slow.
const MAX_BUFFERS: usize = 8;

/// Position of the bytes of a value, once the runs are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    run: usize,
    start: usize,
    len: usize,
}

/// The runs to read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    runs: Vec<Range<u64>>,
    gap_bytes: u64,
}

impl Reading {
    pub(super) fn new(gap_bytes: u64) -> Self {
        Self { runs: Vec::new(), gap_bytes }
    }

    /// Members come in the order of the archive.
    pub(super) fn add(&mut self, offset: u64, size: u64) -> Place {
        // Empty values need no bytes.
        if size == 0 {
            return Place { run: 0, start: 0, len: 0 };
        }
        let end = offset.saturating_add(size);
        let gap_bytes = self.gap_bytes;
        let is_near = |run: &&mut Range<u64>| offset >= run.end && offset - run.end <= gap_bytes && end - run.start <= MAX_RUN_BYTES;
        if let Some(run) = self.runs.last_mut().filter(is_near) {
            run.end = end;
        } else {
            self.runs.push(offset..end);
        }
        let in_run = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
        let run_start = self.runs.last().map_or(offset, |run| run.start);
        Place { run: self.runs.len().saturating_sub(1), start: in_run(offset - run_start), len: in_run(size) }
    }

    pub(super) fn read(self, object: &dyn RangeRead, compression: Compression) -> Result<Payload, Error> {
        let runs: Vec<Buffer> = if self.runs.is_empty() {
            Vec::new()
        } else if compression == Compression::None {
            object.read_ranges(&self.runs)?.into_iter().map(Buffer::from).collect()
        } else {
            stream::read(object, compression, &self.runs)?.into_iter().map(Buffer::from_vec).collect()
        };
        Ok(Payload::of(runs))
    }
}

/// Bytes of the members of a block.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) buffers: Vec<Buffer>,
    /// Buffer and start of each run.
    runs: Vec<(usize, usize)>,
}

impl Payload {
    fn of(runs: Vec<Buffer>) -> Self {
        if runs.len() <= MAX_BUFFERS {
            return Self { runs: (0..runs.len()).map(|run| (run, 0)).collect(), buffers: runs };
        }
        let (mut buffers, mut places): (Vec<Vec<u8>>, Vec<(usize, usize)>) = (Vec::new(), Vec::with_capacity(runs.len()));
        for run in runs {
            let fits = |buffer: &&mut Vec<u8>| buffer.len() as u64 + run.len() as u64 <= MAX_RUN_BYTES;
            if let Some(buffer) = buffers.last_mut().filter(fits) {
                let start = buffer.len();
                buffer.extend_from_slice(&run);
                places.push((buffers.len() - 1, start));
            } else {
                places.push((buffers.len(), 0));
                buffers.push(run.to_vec());
            }
        }
        Self { buffers: buffers.into_iter().map(Buffer::from_vec).collect(), runs: places }
    }

    /// The bytes of a value, with their buffer and offset.
    pub(super) fn get(&self, place: Place) -> Option<(&[u8], u32, u32)> {
        if place.len == 0 {
            return Some((&[], 0, 0));
        }
        let (buffer, start) = *self.runs.get(place.run)?;
        let start = start.checked_add(place.start)?;
        let bytes = self.buffers.get(buffer)?.as_slice().get(start..start.checked_add(place.len)?)?;
        Some((bytes, u32::try_from(buffer).ok()?, u32::try_from(start).ok()?))
    }
}
