//! Packs with the rows that they consist of, as a superbatch needs them.

use shardmill_plan::packing::{Amount, Piece};
use std::ops::Range;

/// Consecutive packs of a rank, piece by piece.
#[derive(Debug, Clone, Default)]
pub(crate) struct DrawnPacks {
    /// Number of pieces before each pack.
    starts: Vec<usize>,
    /// Each with what its row takes.
    pieces: Vec<(Piece, Amount)>,
}

impl DrawnPacks {
    pub(crate) fn num_packs(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn start_pack(&mut self) {
        self.starts.push(self.pieces.len());
    }

    pub(super) fn add_piece(&mut self, piece: Piece, row: Amount) {
        self.pieces.push((piece, row));
    }

    /// Patches of the images of these packs.
    pub(crate) fn patches(&self) -> u64 {
        self.pieces.iter().map(|(piece, _)| u64::from(piece.patches)).sum()
    }

    pub(crate) fn append(&mut self, next: Self) {
        let before = self.pieces.len();
        self.starts.extend(next.starts.into_iter().map(|start| before + start));
        self.pieces.extend(next.pieces);
    }

    /// Pieces of each pack.
    pub(crate) fn packs(&self) -> impl Iterator<Item = &[(Piece, Amount)]> {
        let ends = self.starts.iter().skip(1).copied().chain([self.pieces.len()]);
        self.starts
            .iter()
            .zip(ends)
            .map(|(start, end)| self.pieces.get(*start..end).unwrap_or_default())
    }

    /// Some of these packs, counted from the first one.
    pub(crate) fn part(&self, packs: Range<usize>) -> Self {
        let mut part = Self::default();
        for pieces in self.packs().skip(packs.start).take(packs.len()) {
            part.start_pack();
            part.pieces.extend(pieces);
        }
        part
    }

    /// Positions of the rows, each once, with what they take; ascending.
    pub(super) fn rows(&self) -> Vec<(u64, Amount)> {
        let mut rows: Vec<(u64, Amount)> =
            self.pieces.iter().map(|(piece, row)| (piece.position, *row)).collect();
        rows.sort_unstable_by_key(|(position, _)| *position);
        rows.dedup_by_key(|(position, _)| *position);
        rows
    }

    /// Positions of the rows: ascending, non-adjacent runs.
    pub(crate) fn positions(&self) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (position, _) in self.rows() {
            match runs.last_mut() {
                Some(last) if last.end == position => last.end += 1,
                _ => runs.push(position..position + 1),
            }
        }
        runs
    }
}
