//! Reads the members of a block with as few requests as possible.
//!
//! Members that are close together form one run, including headers between them; values are views
//! into runs, so nothing is copied.

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

/// The number of a value that is to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(usize);

/// The values to read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    wanted: Vec<Range<u64>>,
    gap_bytes: u64,
}

/// Where the bytes of a value are in their run.
#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    run: usize,
    start: usize,
    len: usize,
}

impl Reading {
    pub(super) fn new(gap_bytes: u64) -> Self {
        Self { wanted: Vec::new(), gap_bytes }
    }

    pub(super) fn add(&mut self, offset: u64, size: u64) -> Place {
        self.wanted.push(offset..offset.saturating_add(size));
        Place(self.wanted.len() - 1)
    }

    /// The number of bytes of all values; bytes that several values share count once.
    pub(super) fn distinct_bytes(&self) -> u64 {
        let (mut end, mut bytes) = (0, 0_u64);
        for value in self.in_order().into_iter().filter_map(|number| self.wanted.get(number)) {
            bytes = bytes.saturating_add(value.end.saturating_sub(value.start.max(end)));
            end = value.end.max(end);
        }
        bytes
    }

    /// Numbers of the values by offset. Only links are out of order.
    fn in_order(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..self.wanted.len()).collect();
        numbers.sort_by_key(|number| self.wanted.get(*number).map_or(0, |value| value.start));
        numbers
    }

    /// Runs that do not overlap, in order, and the place of each value.
    fn runs(&self) -> (Vec<Range<u64>>, Vec<Slice>) {
        let (mut runs, mut slices): (Vec<Range<u64>>, _) =
            (Vec::new(), vec![Slice::default(); self.wanted.len()]);
        for number in self.in_order() {
            // Empty values need no bytes.
            let Some(value) = self.wanted.get(number).filter(|value| !value.is_empty()) else {
                continue;
            };
            let is_near = |run: &&mut Range<u64>| {
                value.end <= run.end
                    || value.start <= run.end.saturating_add(self.gap_bytes)
                        && value.end - run.start <= MAX_RUN_BYTES
            };
            let start = match runs.last_mut().filter(is_near) {
                Some(run) => {
                    run.end = run.end.max(value.end);
                    run.start
                }
                None => {
                    runs.push(value.clone());
                    value.start
                }
            };
            let in_run = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
            let slice = Slice {
                run: runs.len() - 1,
                start: in_run(value.start - start),
                len: in_run(value.end - value.start),
            };
            if let Some(place) = slices.get_mut(number) {
                *place = slice;
            }
        }
        (runs, slices)
    }

    pub(super) fn read(
        self,
        object: &dyn RangeRead,
        compression: Compression,
    ) -> Result<Payload, Error> {
        let (runs, slices) = self.runs();
        let read: Vec<Buffer> = if runs.is_empty() {
            Vec::new()
        } else if compression == Compression::None {
            object.read_ranges(&runs)?.into_iter().map(Buffer::from).collect()
        } else {
            stream::read(object, compression, &runs)?.into_iter().map(Buffer::from_vec).collect()
        };
        Ok(Payload::of(read, slices))
    }
}

/// Bytes of the members of a block.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) buffers: Vec<Buffer>,
    /// Buffer and start of each run.
    runs: Vec<(usize, usize)>,
    slices: Vec<Slice>,
}

impl Payload {
    fn of(runs: Vec<Buffer>, slices: Vec<Slice>) -> Self {
        if runs.len() <= MAX_BUFFERS {
            return Self {
                runs: (0..runs.len()).map(|run| (run, 0)).collect(),
                buffers: runs,
                slices,
            };
        }
        let (mut buffers, mut places): (Vec<Vec<u8>>, Vec<(usize, usize)>) =
            (Vec::new(), Vec::with_capacity(runs.len()));
        for run in runs {
            let fits =
                |buffer: &&mut Vec<u8>| buffer.len() as u64 + run.len() as u64 <= MAX_RUN_BYTES;
            if let Some(buffer) = buffers.last_mut().filter(fits) {
                let start = buffer.len();
                buffer.extend_from_slice(&run);
                places.push((buffers.len() - 1, start));
            } else {
                places.push((buffers.len(), 0));
                buffers.push(run.to_vec());
            }
        }
        Self { buffers: buffers.into_iter().map(Buffer::from_vec).collect(), runs: places, slices }
    }

    /// The bytes of a value, with their buffer and offset.
    pub(super) fn get(&self, place: Place) -> Option<(&[u8], u32, u32)> {
        let slice = self.slices.get(place.0)?;
        if slice.len == 0 {
            return Some((&[], 0, 0));
        }
        let (buffer, start) = *self.runs.get(slice.run)?;
        let start = start.checked_add(slice.start)?;
        let bytes =
            self.buffers.get(buffer)?.as_slice().get(start..start.checked_add(slice.len)?)?;
        Some((bytes, u32::try_from(buffer).ok()?, u32::try_from(start).ok()?))
    }
}
