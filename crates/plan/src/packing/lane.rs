//! The packs of one lane, in a compact form.

use super::balance::{Ordering, PackOrder};
use super::fit::Fitted;
use super::{Packing, Piece};
use std::ops::Range;

/// Rows are counted from the start of the lane.
#[derive(Debug)]
pub(super) struct LanePacks {
    pub(super) start: u64,
    rows: u32,
    packing: Packing,
    packs: Packs,
    /// In each batch of rows.
    tokens: Vec<f64>,
}

#[derive(Debug)]
pub(super) enum Packs {
    /// First row and first token of each pack. Its other pieces follow consecutively.
    Consecutive(Vec<(u32, u32)>),
    Fitted(Fitted),
}

impl LanePacks {
    pub(super) fn new(start: u64, rows: u32, packing: Packing, packs: Packs) -> Self {
        Self { start, rows, packing, packs, tokens: Vec::new() }
    }

    pub(super) fn with_tokens(self, tokens: Vec<f64>) -> Self {
        Self { tokens, ..self }
    }

    /// In a batch of rows.
    pub(super) fn tokens(&self, pack: usize) -> f64 {
        self.tokens.get(pack).copied().unwrap_or_default()
    }

    /// Of the images of a pack.
    pub(super) fn patches(&self, pack: usize) -> u64 {
        match &self.packs {
            Packs::Consecutive(_) => 0,
            Packs::Fitted(fitted) => fitted.patches(pack),
        }
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
                let is_shared = self.packing.overlaps || self.packing.looks_ahead;
                let end = starts
                    .get(packs.end)
                    .map_or(self.rows, |(row, token)| row + u32::from(*token > 0 || is_shared));
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
                let mut room = self.packing.length;
                while room > 0 && row < self.rows {
                    let position = self.at(row);
                    let (count, padded) = self.packing.piece(tokens_of(position), first, room);
                    if count > 0 {
                        piece(Piece { position, first, count, padded });
                    }
                    room -= padded;
                    (row, first) = (row + 1, 0);
                }
                if let Some((row, first)) =
                    starts.get(pack + 1).filter(|_| self.packing.looks_ahead)
                {
                    piece(Piece { position: self.at(*row), first: *first, count: 0, padded: 0 });
                }
            }
            Packs::Fitted(fitted) => {
                let most = self.packing.most_of_row();
                let of_row = |row, first| self.packing.piece(tokens_of(self.at(row)), first, most);
                let padded = |row: &u32| of_row(*row, 0).1;
                let rows = fitted.rows(pack..pack + 1).iter().filter(|_| self.packing.keeps_rows());
                let longest = rows.map(padded).max();
                fitted.for_each(pack, |row, first| {
                    let (count, padded) = of_row(row, first);
                    let (position, padded) = (self.at(row), longest.unwrap_or(padded));
                    piece(Piece { position, first, count, padded });
                });
            }
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

    /// The first plan position that `pack` needs.
    pub(super) fn first_position(&self, pack: usize) -> u64 {
        match &self.packs {
            Packs::Consecutive(_) => self.needed_from(pack),
            Packs::Fitted(fitted) => {
                // Rows ascend.
                let lowest = fitted.rows(pack..pack + 1).first();
                self.at(lowest.copied().unwrap_or(self.rows))
            }
        }
    }

    fn at(&self, row: u32) -> u64 {
        self.start + u64::from(row)
    }
}

/// The packs of consecutive tokens.
pub(super) struct Consecutive {
    packing: Packing,
    row: u32,
    filled: u32,
    starts: Vec<(u32, u32)>,
    /// Row and index of the last token.
    last: Option<(u32, u32)>,
    /// Of the documents of the open pack, if costs are needed.
    cost: u64,
    order: Option<Ordering>,
}

impl Consecutive {
    pub(super) fn new(packing: Packing, order: Option<Ordering>) -> Self {
        Self { packing, row: 0, filled: 0, starts: Vec::new(), last: None, cost: 0, order }
    }

    pub(super) fn push(&mut self, tokens: u32) {
        let (tokens, length) = (self.packing.padded(tokens), self.packing.length);
        let mut first = 0;
        while first < tokens {
            let mut document = 0;
            if self.filled == 0 {
                let repeated = self.last.filter(|_| self.packing.overlaps);
                self.starts.push(repeated.unwrap_or((self.row, first)));
                self.filled = u32::from(repeated.is_some());
                match repeated {
                    Some((row, _)) if row < self.row => self.add_document(1),
                    repeated => document = u32::from(repeated.is_some()),
                }
            }
            let count = (tokens - first).min(length - self.filled);
            first += count;
            self.last = Some((self.row, first - 1));
            self.filled += count;
            self.add_document(document + count);
            if self.filled == length {
                self.close();
            }
        }
        self.row += 1;
    }

    pub(super) fn finish(mut self, start: u64, rows: u32) -> (LanePacks, PackOrder) {
        if self.filled > 0 {
            self.close();
        }
        self.starts.shrink_to_fit();
        let packs = LanePacks::new(start, rows, self.packing, Packs::Consecutive(self.starts));
        (packs, self.order.map(Ordering::finish).unwrap_or_default())
    }

    fn add_document(&mut self, tokens: u32) {
        if let Some(order) = &self.order {
            self.cost = self.cost.saturating_add(order.of_document(tokens));
        }
    }

    fn close(&mut self) {
        if let Some(order) = &mut self.order {
            order.push(self.cost, self.packing.length - self.filled);
        }
        (self.filled, self.cost) = (0, 0);
    }
}
