//! Many records as one run of bytes with offsets: what Arrow calls a large binary array.

use super::batch::Batch;
use super::reader::Reader;
use super::segment::Segment;
use crate::{Error, Result};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use shardmill_engine::Cancel;
use std::sync::Arc;

/// The records of these numbers in this order: offsets, and their bytes.
///
/// # Errors
/// When a number is no record's; when a chunk cannot be read or is damaged.
pub fn gather(reader: &Arc<Reader>, numbers: impl Iterator<Item = u64>, threads: usize) -> Result<(OffsetBuffer<i64>, Buffer)> {
    let batch = Batch::new(reader, numbers, threads)?;
    let segments = if batch.is_small() || threads <= 1 {
        (0..batch.jobs()).map(|job| batch.decode(reader, job)).collect::<Result<Vec<Segment>>>()?
    } else {
        let run = batch.run(reader, threads, &Cancel::default())?;
        run.map(|segment| segment.map_err(Error::from).and_then(|segment| segment)).collect::<Result<Vec<Segment>>>()?
    };
    let mut places = vec![(0, 0); batch.len()];
    for (job, segment) in segments.iter().enumerate() {
        for (within, slot) in batch.slots(job).enumerate() {
            if let Some(place) = places.get_mut(slot) {
                *place = (job, within);
            }
            debug_assert!(within < segment.len());
        }
    }
    let mut values = Vec::with_capacity(segments.iter().map(Segment::values_len).sum());
    let mut offsets = Vec::with_capacity(places.len() + 1);
    offsets.push(0);
    for (job, within) in places {
        values.extend_from_slice(segments.get(job).and_then(|segment| segment.get(within)).unwrap_or_default());
        offsets.push(i64::try_from(values.len()).unwrap_or(i64::MAX));
    }
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(values)))
}
