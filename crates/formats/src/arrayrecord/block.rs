//! Positions of chunk bytes in a file that has a 24-byte header at the start of every 64 KiB block.
//!
//! All functions are checked, because positions come from untrusted files.

use super::Fault;
use super::hash::hash;

pub(super) const BLOCK: u64 = 1 << 16;
pub(super) const BLOCK_HEADER: u64 = 24;
const USABLE: u64 = BLOCK - BLOCK_HEADER;
pub(super) const CHUNK_HEADER: u64 = 40;

/// Position after `len` bytes of a chunk that begins at `begin`, including block headers.
pub(super) fn data_end(begin: u64, len: u64) -> Option<u64> {
    let into_block = begin.checked_add(USABLE - 1)? % BLOCK;
    let headers = len.checked_add(into_block)? / USABLE;
    begin.checked_add(len)?.checked_add(headers.checked_mul(BLOCK_HEADER)?)
}

/// A chunk may not begin inside of a block header, nor directly after one.
fn next_legal(position: u64) -> Option<u64> {
    match position % BLOCK {
        0 => Some(position),
        into_block if into_block > BLOCK_HEADER => Some(position),
        into_block => position.checked_add(BLOCK_HEADER + 1 - into_block),
    }
}

/// Whether a chunk may begin here.
pub(super) fn is_legal(position: u64) -> bool {
    next_legal(position) == Some(position)
}

/// Position after a chunk. Each record has its own position, so a chunk is at least as long as its
/// number of records.
pub(super) fn chunk_end(begin: u64, data_len: u64, num_records: u64) -> Option<u64> {
    let data_end = data_end(begin, data_len.checked_add(CHUNK_HEADER)?)?;
    Some(data_end.max(next_legal(begin.checked_add(num_records)?)?))
}

/// The header of the block at `block` inside of a chunk from `begin` to `end`.
pub(super) fn block_header(block: u64, begin: u64, end: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    let (hash_bytes, content) = bytes.split_at_mut(8);
    let (previous, next) = content.split_at_mut(8);
    previous.copy_from_slice(&block.saturating_sub(begin).to_le_bytes());
    next.copy_from_slice(&end.saturating_sub(block).to_le_bytes());
    hash_bytes.copy_from_slice(&hash(content).to_le_bytes());
    bytes
}

/// Whether any block begins in `begin..end`, so that its header interrupts the bytes of the chunk.
pub(super) fn has_boundary(begin: u64, end: u64) -> bool {
    begin.is_multiple_of(BLOCK) || begin / BLOCK != end.saturating_sub(1) / BLOCK
}

/// Removes block headers from `raw`, the bytes of a chunk from `begin` on, and passes the rest to
/// `put`. Headers are checked against the chunk's begin. Returns the end that they state, if there
/// is any header, for the caller to check once the end is known.
pub(super) fn take_out_headers(
    begin: u64,
    raw: &[u8],
    check: bool,
    mut put: impl FnMut(&[u8]),
) -> Result<Option<u64>, Fault> {
    let mut stated_end = None;
    let (mut position, mut rest) = (begin, raw);
    while !rest.is_empty() {
        if position.is_multiple_of(BLOCK) {
            let truncated = Fault::Truncated {
                what: "block header",
                needed: BLOCK_HEADER,
                found: rest.len() as u64,
            };
            let (header, behind) = rest.split_first_chunk::<24>().ok_or(truncated)?;
            if check {
                let end = read_block_header(header, position, begin)?;
                if stated_end.is_some_and(|stated| stated != end) {
                    return Err(Fault::Malformed(
                        "headers of blocks disagree about the end of the chunk",
                    ));
                }
                stated_end = Some(end);
            }
            rest = behind;
            position += BLOCK_HEADER;
        }
        let to_boundary = usize::try_from(BLOCK - position % BLOCK).unwrap_or(usize::MAX);
        let (part, behind) = rest.split_at(to_boundary.min(rest.len()));
        put(part);
        rest = behind;
        position += part.len() as u64;
    }
    Ok(stated_end)
}

/// The end of the chunk that the header states.
fn read_block_header(header: &[u8; 24], block: u64, begin: u64) -> Result<u64, Fault> {
    let (stated_hash, content) =
        header.split_first_chunk::<8>().ok_or(Fault::Malformed("block header"))?;
    if u64::from_le_bytes(*stated_hash) != hash(content) {
        return Err(Fault::Hash("block header"));
    }
    let (previous, next) =
        content.split_first_chunk::<8>().ok_or(Fault::Malformed("block header"))?;
    let next = next.first_chunk::<8>().ok_or(Fault::Malformed("block header"))?;
    let stated = u64::from_le_bytes(*previous);
    if stated != block - begin {
        return Err(Fault::Mismatch {
            what: "distance of a block header from the chunk's begin",
            value: stated,
            expected: block - begin,
        });
    }
    block
        .checked_add(u64::from_le_bytes(*next))
        .ok_or(Fault::Malformed("block header points beyond any file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_of_empty_records_is_as_long_as_it_has_records() {
        assert_eq!(chunk_end(64, 33, 256), Some(320));
        assert_eq!(chunk_end(64, 33, 1), Some(137));
    }

    #[test]
    fn chunk_never_ends_where_none_may_begin() {
        for records in BLOCK - 100..BLOCK + 100 {
            assert!(is_legal(chunk_end(64, 1, records).unwrap()));
        }
        assert!(!is_legal(1) && !is_legal(BLOCK + 24) && is_legal(BLOCK) && is_legal(BLOCK + 25));
    }

    #[test]
    fn end_of_hostile_lengths_is_none() {
        assert_eq!(chunk_end(64, u64::MAX, 1), None);
        assert_eq!(chunk_end(64, 1, u64::MAX), None);
        assert_eq!(chunk_end(u64::MAX - 5, 1, 1), None);
    }

    #[test]
    fn data_that_just_fills_a_block_takes_no_header_of_the_next() {
        assert_eq!(data_end(64, BLOCK - 64), Some(BLOCK));
        assert_eq!(data_end(64, BLOCK - 63), Some(BLOCK + 25));
        assert_eq!(data_end(BLOCK, 1), Some(BLOCK + 25));
    }
}
