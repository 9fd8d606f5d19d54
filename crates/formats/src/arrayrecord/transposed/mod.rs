//! Chunks whose records are split into fields, so that similar values are stored together and
//! compress well.
//!
//! Values of one field are stored in one buffer, and buffers in compressed buckets. A state
//! machine, driven by transition bytes, reassembles the records, last record first. The invariants:
//! no allocation depends on a number in the file before it is checked against the available bytes
//! or the needs of the stated decoded size; and each step of the machine produces bytes or records,
//! consumes a byte, or is one of a bounded number of idle steps.

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

/// Granted to every chunk; beyond this, limits grow with the records.
const FLOOR: u64 = 64 << 10;
/// Limit for a header, which takes twenty bytes of memory for each of its bytes.
const HEADER_MAX: u64 = 64 << 20;

/// The concatenated records, and the end of each. `num_records` and `decoded_size` come from the
/// chunk's header; the caller has bounded both.
pub(super) fn decode(
    data: &[u8],
    num_records: usize,
    decoded_size: usize,
    zstd: &mut Zstd,
) -> Result<(Vec<u8>, Vec<usize>), Fault> {
    let limits = Limits::of(num_records as u64, decoded_size as u64);
    let (&codec, rest) = data.split_first().ok_or(Fault::Malformed("no data"))?;
    let codec = Codec::of(codec)?;
    let (header_len, rest) =
        varint::read(rest).ok_or(Fault::Malformed("length of the header is not a valid number"))?;
    let (header, rest) = split_off("header of a transposed chunk", header_len, rest)?;
    let header = Header::parse(&decompressed(
        "header of a transposed chunk",
        codec,
        header,
        limits.header,
        zstd,
    )?)?;
    let (buckets, transitions) =
        buckets::Buckets::read(codec, rest, &header.bucket_lens, limits.buckets, zstd)?;
    let transitions = decompressed("transitions", codec, transitions, limits.transitions, zstd)?;
    let buffers = buckets.buffers(&header.buffer_lens)?;
    machine::run(&header, buffers, &transitions, num_records, decoded_size)
}

/// Maximal decompressed size of each part.
struct Limits {
    header: u64,
    buckets: u64,
    transitions: u64,
}

impl Limits {
    fn of(num_records: u64, decoded_size: u64) -> Self {
        // A step that is not idle produces a record or a byte.
        let steps = decoded_size.saturating_add(num_records);
        Self {
            // Each state serves a step; its tag, edge, subtype, buffer and buffer length rarely
            // exceed eight bytes per produced byte.
            header: steps.saturating_mul(8).saturating_add(FLOOR).min(HEADER_MAX),
            // All bytes in buffers become bytes of records, except the lengths of opaque records.
            buckets: decoded_size.saturating_add(num_records.saturating_mul(10)),
            // Original writers use one or two idle states for a distant edge; in a large chunk not
            // in every step.
            transitions: steps
                .saturating_mul(4)
                .saturating_add(FLOOR)
                .min(decoded_size.max(MAX_DECODED_BYTES)),
        }
    }
}

fn split_off<'a>(
    what: &'static str,
    len: u64,
    bytes: &'a [u8],
) -> Result<(&'a [u8], &'a [u8]), Fault> {
    let truncated = || Fault::Truncated { what, needed: len, found: bytes.len() as u64 };
    usize::try_from(len).ok().and_then(|len| bytes.split_at_checked(len)).ok_or_else(truncated)
}

/// Decompresses a block of at most `limit` bytes.
fn decompressed<'a>(
    what: &'static str,
    codec: Codec,
    block: &'a [u8],
    limit: u64,
    zstd: &mut Zstd,
) -> Result<Cow<'a, [u8]>, Fault> {
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

/// The stated length of a block, and the rest. No codec produces an empty block, even for empty
/// data, but one would accept it.
fn stated(codec: Codec, block: &[u8]) -> Result<(u64, &[u8]), Fault> {
    let (len, input) = stated_len(codec, block)?;
    if codec != Codec::None && input.is_empty() {
        return Err(Fault::Malformed("block without compressed data"));
    }
    Ok((len, input))
}
