//! Many records at once: sorted by their place in the file, cut into jobs, decoded on threads.

use super::Gathered;
use super::reader::{Reader, failed, with_scratch};
use crate::Result;
use bytes::BytesMut;
use shardmill_engine::{Cancel, Run, run_until_error};
use std::ops::Range;
use std::sync::Arc;

/// Less than this is not worth waking a thread for.
const INLINE_BYTES: u64 = 48 << 10;
/// Of the file, for one job: enough to read at once, little enough to stay in a core's cache.
const JOB_BYTES: u64 = 256 << 10;
const LEAST_JOB_BYTES: u64 = 16 << 10;
/// A request to a far storage costs as much as some megabytes of its data, so a job there is several of those.
const GAPS_OF_A_JOB: u64 = 4;
/// Lengths come from the index, which nobody has checked.
const MOST_RESERVED: usize = 8 << 20;
/// Bytes of the file that are read at once.
const READ_BYTES: u64 = 1 << 20;

/// One record of a batch.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    chunk: usize,
    /// In its chunk.
    place: usize,
    /// In the batch.
    slot: usize,
}

/// Which records of a file are wanted, as jobs.
#[derive(Debug, Clone)]
pub struct Batch {
    wanted: Arc<[Wanted]>,
    jobs: Arc<[Range<usize>]>,
    bytes: u64,
}

impl Batch {
    /// The records `indices` in this order; any may repeat. Jobs ascend in the file.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn new(reader: &Reader, indices: impl Iterator<Item = u64>, threads: usize) -> Result<Self> {
        let mut wanted = Vec::with_capacity(indices.size_hint().0);
        let mut is_sorted = true;
        let mut last = 0;
        for (slot, index) in indices.enumerate() {
            let (chunk, place) = reader.locate(index)?;
            is_sorted &= last <= index;
            last = index;
            wanted.push(Wanted { chunk, place, slot });
        }
        if !is_sorted {
            wanted.sort_unstable_by_key(|wanted| (wanted.chunk, wanted.place));
        }
        Self::of(reader, wanted, threads)
    }

    fn of(reader: &Reader, wanted: Vec<Wanted>, threads: usize) -> Result<Self> {
        let mut bytes = 0;
        let mut weights = Vec::with_capacity(wanted.len());
        let mut last = None;
        for Wanted { chunk, .. } in &wanted {
            let range = reader.file().range_of(*chunk).map_err(failed)?;
            let weight = if last == Some(*chunk) { 0 } else { range.end - range.start };
            last = Some(*chunk);
            bytes += weight;
            weights.push(weight);
        }
        let gap = reader.file().object().gap_bytes();
        let job_bytes = (bytes / (threads.max(1) as u64 * 4)).clamp(LEAST_JOB_BYTES, JOB_BYTES).max(gap * GAPS_OF_A_JOB);
        let mut jobs: Vec<Range<usize>> = Vec::new();
        let mut of_job = u64::MAX;
        for (place, weight) in weights.iter().enumerate() {
            // A chunk is never in two jobs, or it would be decoded by both.
            match jobs.last_mut() {
                Some(job) if *weight == 0 || of_job.saturating_add(*weight) <= job_bytes => job.end = place + 1,
                _ => {
                    jobs.push(place..place + 1);
                    of_job = 0;
                }
            }
            of_job += weight;
        }
        Ok(Self { wanted: wanted.into(), jobs: jobs.into(), bytes })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.wanted.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Whether the calling thread is faster alone.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.bytes <= INLINE_BYTES
    }

    /// Places in the batch of the records of one job, in the order of its segment.
    pub fn slots(&self, job: usize) -> impl Iterator<Item = usize> {
        self.wanted(job).iter().map(|wanted| wanted.slot)
    }

    fn wanted(&self, job: usize) -> &[Wanted] {
        self.jobs.get(job).and_then(|job| self.wanted.get(job.clone())).unwrap_or_default()
    }

    /// Decodes the records of one job.
    ///
    /// # Errors
    /// When one of their chunks cannot be read or is damaged.
    pub fn decode(&self, reader: &Reader, job: usize) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        let wanted = self.wanted(job);
        let mut chunks: Vec<usize> = wanted.iter().map(|wanted| wanted.chunk).collect();
        chunks.dedup();
        with_scratch(|scratch| {
            // Records of one chunk each, none of them twice: all that is decoded is wanted.
            if reader.file().is_single() && chunks.len() == wanted.len() {
                let lengths = wanted.iter().filter_map(|wanted| reader.file().length_of_single(wanted.chunk)).sum::<usize>();
                gathered.values.reserve(lengths.min(MOST_RESERVED));
                gathered.ends.reserve(wanted.len());
                let mut runs = reader.file().runs(&chunks, READ_BYTES)?.into_iter();
                return runs.try_for_each(|run| reader.file().append_chunks(chunks.get(run).unwrap_or_default(), scratch, &mut gathered));
            }
            let mut rest = wanted.iter().peekable();
            for run in reader.file().runs(&chunks, READ_BYTES)? {
                reader.file().read_chunks(chunks.get(run).unwrap_or_default(), scratch, |chunk, records| {
                    while let Some(Wanted { place, .. }) = rest.next_if(|wanted| wanted.chunk == chunk) {
                        gathered.push(records.get(*place).unwrap_or_default());
                    }
                })?;
            }
            Ok(())
        })
        .map_err(failed)?;
        Ok(gathered)
    }

    /// Decodes the records of one job, which have chunks of their own, each into its room; `rooms` are in the order of [`Batch::slots`].
    ///
    /// # Errors
    /// As [`Batch::decode`].
    pub(super) fn place(&self, reader: &Reader, job: usize, rooms: &mut [BytesMut]) -> Result<()> {
        let chunks: Vec<usize> = self.wanted(job).iter().map(|wanted| wanted.chunk).collect();
        let mut rooms = rooms.iter_mut();
        with_scratch(|scratch| {
            let mut runs = reader.file().runs(&chunks, READ_BYTES)?.into_iter();
            runs.try_for_each(|run| reader.file().place_chunks(chunks.get(run).unwrap_or_default(), scratch, |_chunk| rooms.next()))
        })
        .map_err(failed)
    }

    /// Decodes all jobs on threads; segments come in the order of the jobs.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn run(&self, reader: &Arc<Reader>, threads: usize, cancel: &Cancel) -> Result<Run<Result<Gathered>>> {
        let (batch, reader) = (self.clone(), Arc::clone(reader));
        Ok(run_until_error(self.jobs(), threads, cancel, move |job| batch.decode(&reader, job))?)
    }
}
