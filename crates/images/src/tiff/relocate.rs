//! Maps positions in the source to positions in the copy.
//!
//! The ranges to copy are merged to ascending pieces of the source. Invariant: no byte of the
//! source is copied twice, even if ranges are equal, overlap or touch, and the bytes of a range
//! stay contiguous.

use std::ops::Range;

/// Disjoint, concatenated pieces of the source.
#[derive(Debug, Default)]
pub(crate) struct Relocation {
    pieces: Vec<Piece>,
    /// Total size of the distinct ranges, counting overlaps repeatedly.
    pub(crate) distinct_bytes: u64,
}

#[derive(Debug)]
struct Piece {
    source: Range<u64>,
    /// Total size of the preceding pieces.
    place: u64,
}

impl Relocation {
    /// Merges `ranges` that overlap or touch; empty ranges are ignored.
    pub(crate) fn new(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup();
        let distinct_bytes =
            ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        let mut pieces: Vec<Piece> = Vec::new();
        for range in ranges {
            match pieces.last_mut() {
                Some(last) if range.start <= last.source.end => {
                    last.source.end = last.source.end.max(range.end);
                }
                last => {
                    let place =
                        last.map_or(0, |last| last.place + (last.source.end - last.source.start));
                    pieces.push(Piece { source: range, place });
                }
            }
        }
        Self { pieces, distinct_bytes }
    }

    /// The new position of a source offset, counted from the first piece;
    /// `None` if it is not copied.
    pub(crate) fn place(&self, offset: u64) -> Option<u64> {
        let after = self.pieces.partition_point(|piece| piece.source.start <= offset);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        piece.source.contains(&offset).then(|| piece.place + (offset - piece.source.start))
    }

    /// The pieces of the source.
    pub(crate) fn into_segments(self) -> Vec<Range<u64>> {
        self.pieces.into_iter().map(|piece| piece.source).collect()
    }
}
