//! Many records as one run of bytes with offsets: what Arrow calls a large binary array.

use super::Gathered;
use super::batch::Batch;
use super::reader::Reader;
use crate::{Error, Result};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use bytes::BytesMut;
use shardmill_engine::{Cancel, run_in_order};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

/// Offsets, and the bytes between them.
pub type LargeBinary = (OffsetBuffer<i64>, Buffer);

/// Lengths of an index that nobody has checked are believed up to so many times the bytes that are stored.
const BELIEVED: u64 = 64;
const BELIEVED_ALWAYS: u64 = 64 << 20;

/// The records of these numbers in this order.
///
/// # Errors
/// When a number is no record's; when a chunk cannot be read or is damaged.
pub fn gather(reader: &Arc<Reader>, numbers: &[u64], threads: usize, cancel: &Cancel) -> Result<LargeBinary> {
    match total_length(reader, numbers)? {
        Some(total) => in_place(reader, numbers, total, threads, cancel),
        None => copied(reader, numbers, threads, cancel),
    }
}

/// Of all records, where the index tells and can be believed.
fn total_length(reader: &Reader, numbers: &[u64]) -> Result<Option<usize>> {
    let (mut total, mut stored) = (0u64, 0u64);
    for number in numbers {
        let found = reader.find(*number)?;
        let Some(length) = reader.length_of_single(*number) else { return Ok(None) };
        total = total.saturating_add(length as u64);
        stored = stored.saturating_add(found.read_bytes());
    }
    let is_believable = total <= stored.saturating_mul(BELIEVED).saturating_add(BELIEVED_ALWAYS);
    Ok(usize::try_from(total).ok().filter(|_| is_believable))
}

/// Each thread decodes into its part of the result.
fn in_place(reader: &Arc<Reader>, numbers: &[u64], total: usize, threads: usize, cancel: &Cancel) -> Result<LargeBinary> {
    let batch = Batch::in_order(reader, numbers, threads)?;
    let mut rest = BytesMut::with_capacity(total);
    let mut parts = Vec::with_capacity(batch.jobs());
    for job in (0..batch.jobs()).rev() {
        let of_job: usize = batch.slots(job).filter_map(|slot| reader.length_of_single(*numbers.get(slot)?)).sum();
        parts.push(Mutex::new(Some(rest.split_off(rest.capacity().saturating_sub(of_job)))));
    }
    parts.reverse();
    let (decoder, reader) = (batch.clone(), Arc::clone(reader));
    let decode = move |job: usize| {
        let values = parts.get(job).and_then(|part| part.lock().unwrap_or_else(PoisonError::into_inner).take()).unwrap_or_default();
        decoder.decode_into(&reader, job, Gathered { values, ends: Vec::new() })
    };
    let mut values = BytesMut::new();
    let mut offsets = Vec::with_capacity(batch.len() + 1);
    offsets.push(0);
    for decoded in decoded_in_order(batch.jobs(), if batch.is_small() { 1 } else { threads }, cancel, decode)? {
        let decoded = decoded?;
        offsets.extend(decoded.ends.iter().map(|end| offset(values.len() + end)));
        // Parts of one allocation, side by side: no byte is copied.
        values.unsplit(decoded.values);
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from(values.freeze())))
}

/// Chunks of many records are decoded once and copied from.
fn copied(reader: &Arc<Reader>, numbers: &[u64], threads: usize, cancel: &Cancel) -> Result<LargeBinary> {
    let batch = Batch::new(reader, numbers.iter().copied(), threads)?;
    let (decoder, reader) = (batch.clone(), Arc::clone(reader));
    let decode = move |job: usize| decoder.decode(&reader, job);
    let decoded = decoded_in_order(batch.jobs(), if batch.is_small() { 1 } else { threads }, cancel, decode)?.collect::<Result<Vec<Gathered>>>()?;
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
        values.extend_from_slice(decoded.get(job).and_then(|decoded| decoded.get(within)).unwrap_or_default());
        offsets.push(offset(values.len()));
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values)))
}

type Decoded = Box<dyn Iterator<Item = Result<Gathered>>>;

fn decoded_in_order(
    jobs: usize,
    threads: usize,
    cancel: &Cancel,
    decode: impl Fn(usize) -> Result<Gathered> + Send + Sync + 'static,
) -> Result<Decoded> {
    if threads <= 1 {
        return Ok(Box::new((0..jobs).map(decode)));
    }
    let run = run_in_order(jobs, threads, cancel, move |job| match decode(job) {
        Ok(gathered) => ControlFlow::Continue(Ok(gathered)),
        Err(error) => ControlFlow::Break(Err(error)),
    })?;
    Ok(Box::new(run.map(|decoded| decoded.map_err(Error::from).and_then(|decoded| decoded))))
}

fn offset(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
