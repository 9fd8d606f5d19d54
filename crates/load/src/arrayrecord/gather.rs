//! Collects many records in one buffer with offsets, as an Arrow large binary array.

use super::Gathered;
use super::batch::Batch;
use super::reader::Reader;
use crate::{Error, Result};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use bytes::BytesMut;
use shardmill_engine::{Cancel, run_until_error};
use std::sync::{Arc, Mutex, PoisonError};

/// Offsets and values.
pub type LargeBinary = (OffsetBuffer<i64>, Buffer);

/// Unverified lengths in an index are trusted up to this multiple of the stored bytes.
const BELIEVED: u64 = 64;
const BELIEVED_ALWAYS: u64 = 64 << 20;

/// The records with these numbers, in this order.
///
/// # Errors
/// When a record does not exist, or a chunk cannot be read or is damaged.
pub fn gather(
    reader: &Arc<Reader>,
    numbers: &[u64],
    threads: usize,
    cancel: &Cancel,
) -> Result<LargeBinary> {
    let lengths = lengths_of(reader, numbers)?;
    let batch = Batch::new(reader, numbers.iter().copied(), threads)?;
    let threads = if batch.is_small() { 1 } else { threads };
    match lengths {
        Some(lengths) => in_place(reader, &batch, &lengths, threads, cancel),
        None => copied(reader, &batch, threads, cancel),
    }
}

/// The lengths of the records, if the index states them and they are plausible.
fn lengths_of(reader: &Reader, numbers: &[u64]) -> Result<Option<Vec<usize>>> {
    if !reader.file().is_single() {
        return Ok(None);
    }
    let (mut total, mut stored) = (0u64, 0u64);
    let mut lengths = Vec::with_capacity(numbers.len());
    for number in numbers {
        let found = reader.find(*number)?;
        let Some(length) = reader.length_of_single(&found) else { return Ok(None) };
        total = total.saturating_add(length as u64);
        stored = stored.saturating_add(found.read_bytes());
        lengths.push(length);
    }
    let is_believable = total <= stored.saturating_mul(BELIEVED).saturating_add(BELIEVED_ALWAYS);
    Ok(is_believable.then_some(lengths))
}

/// Threads read the file in order, and decode each record into its position in the result.
fn in_place(
    reader: &Arc<Reader>,
    batch: &Batch,
    lengths: &[usize],
    threads: usize,
    cancel: &Cancel,
) -> Result<LargeBinary> {
    let mut rest = BytesMut::with_capacity(lengths.iter().sum());
    let mut rooms: Vec<BytesMut> = lengths
        .iter()
        .rev()
        .map(|length| rest.split_off(rest.capacity().saturating_sub(*length)))
        .collect();
    rooms.reverse();
    let of_jobs: Vec<Mutex<Vec<BytesMut>>> = (0..batch.jobs())
        .map(|job| {
            Mutex::new(
                batch
                    .slots(job)
                    .filter_map(|slot| rooms.get_mut(slot).map(std::mem::take))
                    .collect(),
            )
        })
        .collect();
    let (decoder, owner) = (batch.clone(), Arc::clone(reader));
    let decode = move |job: usize| {
        let mut rooms = of_jobs
            .get(job)
            .map(|rooms| std::mem::take(&mut *rooms.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default();
        decoder.place(&owner, job, &mut rooms).map(|()| rooms)
    };
    for (job, decoded) in in_order(batch.jobs(), threads, cancel, decode)?.enumerate() {
        for (slot, room) in batch.slots(job).zip(decoded?) {
            if let Some(place) = rooms.get_mut(slot) {
                *place = room;
            }
        }
    }
    let mut values = BytesMut::new();
    let mut offsets = Vec::with_capacity(rooms.len() + 1);
    offsets.push(0);
    for room in rooms {
        // The parts are contiguous in one allocation: nothing is copied.
        values.unsplit(room);
        offsets.push(offset(values.len()));
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from(values.freeze())))
}

/// Chunks with many records are decoded once, and the records are copied.
fn copied(
    reader: &Arc<Reader>,
    batch: &Batch,
    threads: usize,
    cancel: &Cancel,
) -> Result<LargeBinary> {
    let (decoder, reader) = (batch.clone(), Arc::clone(reader));
    let decode = move |job: usize| decoder.decode(&reader, job);
    let decoded =
        in_order(batch.jobs(), threads, cancel, decode)?.collect::<Result<Vec<Gathered>>>()?;
    let mut places = vec![(0, 0); batch.len()];
    for job in 0..decoded.len() {
        for (within, slot) in batch.slots(job).enumerate() {
            if let Some(place) = places.get_mut(slot) {
                *place = (job, within);
            }
        }
    }
    let mut values = Vec::with_capacity(decoded.iter().map(|decoded| decoded.values.len()).sum());
    let mut offsets = Vec::with_capacity(places.len() + 1);
    offsets.push(0);
    for (job, within) in places {
        values.extend_from_slice(
            decoded.get(job).and_then(|decoded| decoded.records().get(within)).unwrap_or_default(),
        );
        offsets.push(offset(values.len()));
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values)))
}

type InOrder<T> = Box<dyn Iterator<Item = Result<T>>>;

fn in_order<T: Send + 'static>(
    jobs: usize,
    threads: usize,
    cancel: &Cancel,
    work: impl Fn(usize) -> Result<T> + Send + Sync + 'static,
) -> Result<InOrder<T>> {
    if threads <= 1 {
        return Ok(Box::new((0..jobs).map(work)));
    }
    let run = run_until_error(jobs, threads, cancel, work)?;
    Ok(Box::new(run.map(|done| done.map_err(Error::from).and_then(|done| done))))
}

fn offset(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
