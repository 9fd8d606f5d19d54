//! The packs of one lane, in a compact form.

use super::Piece;
use super::fit::Fitted;
use std::ops::Range;

/// Rows are counted from the start of the lane.
#[derive(Debug)]
pub(super) struct LanePacks {
    pub(super) start: u64,
    rows: u32,
    length: u32,
    packs: Packs,
}

#[derive(Debug)]
pub(super) enum Packs {
    /// First row and first token of each pack. Its other pieces follow consecutively.
    Consecutive(Vec<(u32, u32)>),
    Fitted(Fitted),
}

impl LanePacks {
    pub(super) fn new(start: u64, rows: u32, length: u32, packs: Packs) -> Self {
        Self { start, rows, length, packs }
    }

    pub(super) fn len(&self) -> u64 {
        match &self.packs {
            Packs::Consecutive(starts) => starts.len() as u64,
            Packs::Fitted(fitted) => fitted.len() as u64,
        }
    }

    /// Plan positions of the rows in these packs: ascending, non-adjacent runs.
    pub(super) fn positions(&self, packs: Range<usize>) -> Vec<Range<u64>> {
        match &self.packs {
            Packs::Consecutive(starts) => {
                let first = starts.get(packs.start).map(|(row, _)| *row);
                // A row that continues in the next pack belongs to both.
                let end = starts
                    .get(packs.end)
                    .map_or(self.rows, |(row, token)| row + u32::from(*token > 0));
                first
                    .filter(|_| !packs.is_empty())
                    .map(|first| self.at(first)..self.at(end))
                    .into_iter()
                    .collect()
            }
            Packs::Fitted(fitted) => {
                let mut rows: Vec<u32> = fitted.rows(packs).to_vec();
                rows.sort_unstable();
                let mut runs: Vec<Range<u64>> = Vec::new();
                for position in rows.into_iter().map(|row| self.at(row)) {
                    match runs.last_mut() {
                        Some(last) if last.end > position => {}
                        Some(last) if last.end == position => last.end += 1,
                        _ => runs.push(position..position + 1),
                    }
                }
                runs
            }
        }
    }

    /// Calls `piece` with the pieces of a pack in order. `tokens_of` returns the number of tokens
    /// of the row at a plan position.
    pub(super) fn for_each_piece(
        &self,
        pack: usize,
        tokens_of: &impl Fn(u64) -> u32,
        mut piece: impl FnMut(Piece),
    ) {
        match &self.packs {
            Packs::Consecutive(starts) => {
                let Some((mut row, mut first)) = starts.get(pack).copied() else { return };
                let mut room = self.length;
                while room > 0 && row < self.rows {
                    let position = self.at(row);
                    let count = tokens_of(position).saturating_sub(first).min(room);
                    if count > 0 {
                        piece(Piece { position, first, count });
                    }
                    room -= count;
                    (row, first) = (row + 1, 0);
                }
            }
            Packs::Fitted(fitted) => fitted.for_each(pack, |row, first| {
                let position = self.at(row);
                piece(Piece {
                    position,
                    first,
                    count: tokens_of(position).saturating_sub(first).min(self.length),
                });
            }),
        }
    }

    /// The first plan position that `pack` or a later one needs.
    pub(super) fn needed_from(&self, pack: usize) -> u64 {
        let row = match &self.packs {
            Packs::Consecutive(starts) => starts.get(pack).map(|(row, _)| *row),
            Packs::Fitted(fitted) => fitted.lowest(pack),
        };
        self.at(row.unwrap_or(self.rows))
    }

    fn at(&self, row: u32) -> u64 {
        self.start + u64::from(row)
    }
}

/// The packs of consecutive tokens.
pub(super) struct Consecutive {
    length: u32,
    row: u32,
    filled: u32,
    starts: Vec<(u32, u32)>,
}

impl Consecutive {
    pub(super) fn new(length: u32) -> Self {
        Self { length, row: 0, filled: 0, starts: Vec::new() }
    }

    pub(super) fn push(&mut self, tokens: u32) {
        let mut first = 0;
        while first < tokens {
            if self.filled == 0 {
                self.starts.push((self.row, first));
            }
            let count = (tokens - first).min(self.length - self.filled);
            first += count;
            self.filled = if self.filled + count == self.length { 0 } else { self.filled + count };
        }
        self.row += 1;
    }

    pub(super) fn finish(mut self, start: u64, rows: u32) -> LanePacks {
        self.starts.shrink_to_fit();
        LanePacks::new(start, rows, self.length, Packs::Consecutive(self.starts))
    }
}
