//! The blocks of an object, and the table that records which blocks are present.

use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The files of an object in the cache.
pub(super) const BYTES: &str = "bytes";
pub(super) const TABLE: &str = "blocks";
pub(super) const NAME: &str = "name";

/// Small compared to a request, large compared to its entry.
pub(super) const BLOCK: u64 = 64 << 10;
/// Blocks that are locked together.
const BLOCKS_OF_A_REGION: u64 = 64;
pub(super) const ENTRY: usize = 16;
/// Distinguishes an entry from zeros, and the entry of one block from that of another.
const MARK: u64 = 0x5368_4d43_6163_6831;

/// The blocks that hold `range`.
pub(super) fn blocks_of(range: &Range<u64>) -> Range<u64> {
    range.start / BLOCK..range.end.div_ceil(BLOCK)
}

/// The byte range covered by `blocks` in an object of `size` bytes.
pub(super) fn bytes_of(blocks: &Range<u64>, size: u64) -> Range<u64> {
    (blocks.start * BLOCK).min(size)..(blocks.end * BLOCK).min(size)
}

/// The regions that contain the blocks.
pub(super) fn regions_of(blocks: &Range<u64>) -> Range<u64> {
    blocks.start / BLOCKS_OF_A_REGION..blocks.end.div_ceil(BLOCKS_OF_A_REGION)
}

pub(super) fn entry(block: u64, bytes: &[u8]) -> [u8; ENTRY] {
    let (mark, sum) = ((MARK ^ block).to_le_bytes(), xxh3_64(bytes).to_le_bytes());
    let mut entry = [0; ENTRY];
    let (first, second) = entry.split_at_mut(8);
    first.copy_from_slice(&mark);
    second.copy_from_slice(&sum);
    entry
}

/// Whether `entry` marks the block as present.
pub(super) fn is_there(block: u64, entry: &[u8]) -> bool {
    entry.get(..8).is_some_and(|mark| mark == (MARK ^ block).to_le_bytes())
}

/// Runs of blocks for which `is_there` returns false.
pub(super) fn missing(blocks: Range<u64>, is_there: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in blocks.filter(|block| !is_there(*block)) {
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}
