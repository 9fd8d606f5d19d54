//! Reads many records: sorts them by their position in the file, divides them into jobs, and
//! decodes them on threads.

use super::Gathered;
use super::reader::{Reader, failed, with_scratch};
use crate::Result;
use bytes::BytesMut;
use shardmill_engine::{Cancel, Run, run_until_error};
use std::ops::Range;
use std::sync::Arc;

/// Smaller batches are not worth waking a thread for.
const INLINE_BYTES: u64 = 48 << 10;
/// File bytes per job: enough for one read, small enough to stay in a core's cache.
const JOB_BYTES: u64 = 256 << 10;
const LEAST_JOB_BYTES: u64 = 16 << 10;
/// A request to a remote store costs as much as transferring some megabytes, so a remote job is
/// this many times its gap size.
const GAPS_OF_A_JOB: u64 = 4;
/// Lengths come from the index, and have not been verified.
const MOST_RESERVED: usize = 8 << 20;
/// File bytes that are read together.
const READ_BYTES: u64 = 1 << 20;

/// One record of a batch.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    chunk: usize,
    /// Index in its chunk.
    place: usize,
    /// Index in the batch.
    slot: usize,
}

/// The selected records of a file, as jobs.
#[derive(Debug, Clone)]
pub struct Batch {
    wanted: Arc<[Wanted]>,
    jobs: Arc<[Range<usize>]>,
    bytes: u64,
}

impl Batch {
    /// The records `indices` in this order, possibly with repeats. Jobs ascend in the file.
    ///
    /// # Errors
    /// When one of them does not exist.
    pub fn new(
        reader: &Reader,
        indices: impl Iterator<Item = u64>,
        threads: usize,
    ) -> Result<Self> {
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
        let job_bytes = (bytes / (threads.max(1) as u64 * 4))
            .clamp(LEAST_JOB_BYTES, JOB_BYTES)
            .max(gap * GAPS_OF_A_JOB);
        let mut jobs: Vec<Range<usize>> = Vec::new();
        let mut of_job = u64::MAX;
        for (place, weight) in weights.iter().enumerate() {
            // A chunk is never split between jobs, or both would decode it.
            match jobs.last_mut() {
                Some(job) if *weight == 0 || of_job.saturating_add(*weight) <= job_bytes => {
                    job.end = place + 1;
                }
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

    /// Whether the calling thread alone is faster.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.bytes <= INLINE_BYTES
    }

    /// Indices in the batch of the records of one job, in the order of its segment.
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
            // If each chunk has one record and none repeats, all decoded bytes are needed.
            if reader.file().is_single() && chunks.len() == wanted.len() {
                let lengths = wanted
                    .iter()
                    .filter_map(|wanted| reader.file().length_of_single(wanted.chunk))
                    .sum::<usize>();
                gathered.values.reserve(lengths.min(MOST_RESERVED));
                gathered.ends.reserve(wanted.len());
                let mut runs = reader.file().runs(&chunks, READ_BYTES)?.into_iter();
                return runs.try_for_each(|run| {
                    reader.file().append_chunks(
                        chunks.get(run).unwrap_or_default(),
                        scratch,
                        &mut gathered,
                    )
                });
            }
            let mut rest = wanted.iter().peekable();
            for run in reader.file().runs(&chunks, READ_BYTES)? {
                reader.file().read_chunks(
                    chunks.get(run).unwrap_or_default(),
                    scratch,
                    |chunk, records| {
                        while let Some(Wanted { place, .. }) =
                            rest.next_if(|wanted| wanted.chunk == chunk)
                        {
                            gathered.push(records.get(*place).unwrap_or_default());
                        }
                    },
                )?;
            }
            Ok(())
        })
        .map_err(failed)?;
        Ok(gathered)
    }

    /// Decodes the records of one job, each of which has its own chunk, into their buffers; `rooms`
    /// are in the order of [`Batch::slots`].
    ///
    /// # Errors
    /// As [`Batch::decode`].
    pub(super) fn place(&self, reader: &Reader, job: usize, rooms: &mut [BytesMut]) -> Result<()> {
        let chunks: Vec<usize> = self.wanted(job).iter().map(|wanted| wanted.chunk).collect();
        let mut rooms = rooms.iter_mut();
        with_scratch(|scratch| {
            let mut runs = reader.file().runs(&chunks, READ_BYTES)?.into_iter();
            runs.try_for_each(|run| {
                reader.file().place_chunks(chunks.get(run).unwrap_or_default(), scratch, |_chunk| {
                    rooms.next()
                })
            })
        })
        .map_err(failed)
    }

    /// Decodes all jobs on threads; segments are in the order of the jobs.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn run(
        &self,
        reader: &Arc<Reader>,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Run<Result<Gathered>>> {
        let (batch, reader) = (self.clone(), Arc::clone(reader));
        Ok(run_until_error(self.jobs(), threads, cancel, move |job| batch.decode(&reader, job))?)
    }
}
