//! Reads records in file order, decoding ahead of the consumer.

use super::Gathered;
use super::reader::{Reader, failed, with_scratch};
use crate::{Error, Result};
use shardmill_engine::{Cancel, Poll, Run, run_in_order};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

/// File bytes that are read and decoded together.
const JOB_BYTES: u64 = 256 << 10;

/// The records before an unreadable chunk, and its error.
type Decoded = (Gathered, Option<Error>);

/// Iterates over consecutive chunks from one record on.
#[derive(Debug)]
pub struct Sequence {
    run: Run<Decoded>,
    /// Of the chunk after the last segment.
    error: Option<Error>,
    /// Number of records in the first segment before the first requested one.
    before: usize,
}

impl Sequence {
    /// Reads from record number `first` on.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(reader: &Arc<Reader>, first: u64, threads: usize) -> Result<Self> {
        let file = reader.file();
        let Some((chunk, before)) = file.locate(first) else {
            let run = run_in_order(0, 1, &Cancel::default(), |_none| {
                ControlFlow::Continue(Decoded::default())
            })
            .map_err(Error::from)?;
            return Ok(Self { run, error: None, before: 0 });
        };
        let mut jobs: Vec<Range<usize>> = Vec::new();
        let mut begin = 0;
        for number in chunk..file.num_chunks() {
            let range = file.range_of(number).map_err(failed)?;
            match jobs.last_mut() {
                Some(job) if range.end - begin <= JOB_BYTES => job.end = number + 1,
                _ => {
                    jobs.push(number..number + 1);
                    begin = range.start;
                }
            }
        }
        let reader = Arc::clone(reader);
        let run = run_in_order(jobs.len(), threads, &Cancel::default(), move |job| {
            match decode(&reader, jobs.get(job)) {
                (segment, None) => ControlFlow::Continue((segment, None)),
                damaged => ControlFlow::Break(damaged),
            }
        });
        Ok(Self { run: run.map_err(Error::from)?, error: None, before })
    }

    /// The next segment, and how many of its first records were not requested.
    pub fn poll(&mut self, patience: Duration) -> Poll<Result<(Gathered, usize)>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Ok(Err(error)));
        }
        match self.run.poll(patience) {
            Poll::Ready(Ok((segment, error))) => {
                self.error = error;
                Poll::Ready(Ok(Ok((segment, std::mem::take(&mut self.before)))))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
            Poll::Finished => Poll::Finished,
        }
    }
}

fn decode(reader: &Reader, chunks: Option<&Range<usize>>) -> Decoded {
    let chunks: Vec<usize> = chunks.cloned().unwrap_or_default().collect();
    let mut records = Gathered::default();
    let result =
        with_scratch(|scratch| reader.file().append_chunks(&chunks, scratch, &mut records));
    (records, result.map_err(failed).err())
}
