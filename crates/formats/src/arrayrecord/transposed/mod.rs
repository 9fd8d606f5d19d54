//! Chunks that were taken apart into the fields of their records, so that like stands beside like and compresses well.
//!
//! Fields of one kind lie in one buffer, buffers lie in compressed buckets; a state machine, driven by one byte for some of its steps, puts them together
//! again, last record first. The invariants: nothing is allocated for a number of the file before it is compared with the bytes that are there or with
//! what records of the promised size can need; each step of the machine gives bytes or records, takes a byte, or is one of a few.

mod buckets;
mod encode;
mod header;
mod machine;
mod output;
#[cfg(test)]
mod tests;

use super::codec::{Zstd, decompress, stated_len};
use super::decode::MAX_DECODED_BYTES;
use super::{Codec, Fault, varint};
use header::Header;
use std::borrow::Cow;

pub(super) use encode::encode;

/// What is granted to a chunk that is too small to need it, and more than any needs besides what grows with its records.
const FLOOR: u64 = 64 << 10;
/// Of a header; there are twenty bytes of memory for each of its bytes.
const HEADER_MAX: u64 = 64 << 20;

/// All records one behind the other, and where each ends. `num_records` and `decoded_size` are those of the chunk's header; the caller has bounded both.
pub(super) fn decode(data: &[u8], num_records: usize, decoded_size: usize, zstd: &mut Zstd) -> Result<(Vec<u8>, Vec<usize>), Fault> {
    let limits = Limits::of(num_records as u64, decoded_size as u64);
    let (&codec, rest) = data.split_first().ok_or(Fault::Malformed("no data"))?;
    let codec = Codec::of(codec)?;
    let (header_len, rest) = varint::read(rest).ok_or(Fault::Malformed("length of the header is no number"))?;
    let (header, rest) = split_off("header of a transposed chunk", header_len, rest)?;
    let header = Header::parse(&decompressed("header of a transposed chunk", codec, header, limits.header, zstd)?)?;
    let (buckets, transitions) = buckets::Buckets::read(codec, rest, &header.bucket_lens, limits.buckets, zstd)?;
    let transitions = decompressed("transitions", codec, transitions, limits.transitions, zstd)?;
    let buffers = buckets.buffers(&header.buffer_lens)?;
    machine::run(&header, buffers, &transitions, num_records, decoded_size)
}

/// The most bytes that each part can have once it is decompressed.
struct Limits {
    header: u64,
    buckets: u64,
    transitions: u64,
}

impl Limits {
    fn of(num_records: u64, decoded_size: u64) -> Self {
        // A step that is not idle gives a record or a byte.
        let steps = decoded_size.saturating_add(num_records);
        Self {
            // Each state serves a step; its tag, edge, subtype, buffer and that buffer's length have hardly more bytes than eight times what it gives.
            header: steps.saturating_mul(8).saturating_add(FLOOR).min(HEADER_MAX),
            // All that is in a buffer becomes bytes of a record, but for the lengths of opaque ones.
            buckets: decoded_size.saturating_add(num_records.saturating_mul(10)),
            // Original writers go over one or two idle states where an edge is far; in a large chunk not at every step.
            transitions: steps.saturating_mul(4).saturating_add(FLOOR).min(decoded_size.max(MAX_DECODED_BYTES)),
        }
    }
}

fn split_off<'a>(what: &'static str, len: u64, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Fault> {
    let truncated = || Fault::Truncated { what, needed: len, found: bytes.len() as u64 };
    usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len)).ok_or_else(truncated)
}

/// A block in plain, if that has at most `limit` bytes.
fn decompressed<'a>(what: &'static str, codec: Codec, block: &'a [u8], limit: u64, zstd: &mut Zstd) -> Result<Cow<'a, [u8]>, Fault> {
    let (len, input) = stated(codec, block)?;
    let too_large = Fault::TooLarge { what, value: len, limit };
    let len = usize::try_from(len).ok().filter(|_| len <= limit).ok_or(too_large)?;
    if codec == Codec::None {
        return Ok(Cow::Borrowed(input));
    }
    let mut output = vec![0; len];
    decompress(codec, input, &mut output, zstd)?;
    Ok(Cow::Owned(output))
}

/// The length that a block states, and what is behind it. No codec makes no bytes at all, not even of nothing; yet one would take them for that.
fn stated(codec: Codec, block: &[u8]) -> Result<(u64, &[u8]), Fault> {
    let (len, input) = stated_len(codec, block)?;
    if codec != Codec::None && input.is_empty() {
        return Err(Fault::Malformed("block without compressed data"));
    }
    Ok((len, input))
}
