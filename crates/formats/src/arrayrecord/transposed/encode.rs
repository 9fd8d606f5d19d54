//! Transposed chunks with opaque records, which all readers accept; splitting records into fields
//! would save space.

use super::super::encoder::Compressor;
use super::super::{Fault, varint};

/// Appends the data of a chunk with at least one record. `values` are the concatenated records.
pub(in super::super) fn encode(
    lengths: &[u64],
    values: &[u8],
    compressor: &mut Compressor,
    scratch: &mut (Vec<u8>, Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (bucket, block) = scratch;
    bucket.clear();
    block.clear();
    let transitions = lengths.len().checked_sub(1).ok_or(Fault::Malformed("no records"))?;
    // Readers start with the last record.
    let mut rest = values;
    for &length in lengths.iter().rev() {
        let limit = u64::from(u32::MAX);
        let too_large = Fault::TooLarge {
            what: "length of a record of a transposed chunk",
            value: length,
            limit,
        };
        let length = usize::try_from(length).ok().filter(|_| length <= limit).ok_or(too_large)?;
        let (before, record) = rest
            .len()
            .checked_sub(length)
            .and_then(|at| rest.split_at_checked(at))
            .ok_or(Fault::Malformed("records are too short"))?;
        bucket.extend_from_slice(record);
        rest = before;
    }
    if !rest.is_empty() {
        return Err(Fault::Malformed("records are too long"));
    }
    lengths.iter().rev().for_each(|length| varint::write(*length, bucket));
    compressor.append(bucket, block)?;

    let mut header = Vec::new();
    // Numbers of buckets and buffers, and their lengths.
    for number in
        [1, 2, block.len() as u64, values.len() as u64, (bucket.len() - values.len()) as u64]
    {
        varint::write(number, &mut header);
    }
    // A single state: opaque, followed by itself, using the first buffer, and initial.
    header.extend_from_slice(&[1, 1, 0, 0, 0]);
    bucket.clear();
    compressor.append(&header, bucket)?;
    out.push(compressor.codec().byte());
    varint::write(bucket.len() as u64, out);
    out.extend_from_slice(bucket);
    out.extend_from_slice(block);

    // Each byte encodes up to four steps: one and the number of those that follow.
    let mut bytes = vec![3; transitions / 4];
    bytes.extend((transitions % 4).checked_sub(1).and_then(|further| u8::try_from(further).ok()));
    compressor.append(&bytes, out)
}
