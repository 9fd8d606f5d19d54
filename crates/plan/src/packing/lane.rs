//! The packs of one lane, in a compact form.

use super::balance::{Ordering, PackOrder};
use super::fit::Fitted;
use super::{Amount, Packing, Piece, Refused, Row};
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
    Consecutive(Starts),
    Fitted(Fitted),
}

#[derive(Debug, Default)]
pub(super) struct Starts {
    starts: Vec<(u32, u32)>,
    /// Of the images of each pack up to the last one that has images.
    patches: Vec<u32>,
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
            Packs::Consecutive(of) => of.patches.get(pack).copied().map_or(0, u64::from),
            Packs::Fitted(fitted) => fitted.patches(pack),
        }
    }

    pub(super) fn len(&self) -> u64 {
        match &self.packs {
            Packs::Consecutive(of) => of.starts.len() as u64,
            Packs::Fitted(fitted) => fitted.len() as u64,
        }
    }

    /// Plan positions of the rows in these packs: ascending, non-adjacent runs.
    pub(super) fn positions(&self, packs: Range<usize>) -> Vec<Range<u64>> {
        match &self.packs {
            Packs::Consecutive(of) => {
                let first = of.starts.get(packs.start).map(|(row, _)| *row);
                let is_shared = self.packing.overlaps || self.packing.looks_ahead;
                let end = self.end_of(of, packs.end, is_shared);
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

    /// Calls `piece` with the pieces of a pack in order. `row_of` returns what the row at a plan
    /// position takes.
    pub(super) fn for_each_piece<'a, R: Into<Row<'a>>>(
        &self,
        pack: usize,
        row_of: &impl Fn(u64) -> R,
        mut piece: impl FnMut(Piece),
    ) {
        let packing = &self.packing;
        match &self.packs {
            Packs::Consecutive(of) => {
                let starts = &of.starts;
                let Some((mut row, mut first)) = starts.get(pack).copied() else { return };
                // An image that does not fit leaves room that a later row, which belongs to
                // another pack, may have fitted into.
                let end = self.end_of(of, pack + 1, packing.overlaps);
                let mut room = packing.room();
                while room.tokens > 0 && row < end {
                    let position = self.at(row);
                    let own = row_of(position).into();
                    let part = packing.cut(own, first, &room);
                    if part.tokens > 0 {
                        piece(packing.piece(position, first, part));
                    }
                    if first + part.tokens < own.amount.tokens {
                        break;
                    }
                    room = room.without(&packing.padded_part(part));
                    (row, first) = (row + 1, 0);
                }
                if let Some((row, first)) = starts.get(pack + 1).filter(|_| packing.looks_ahead) {
                    piece(packing.piece(self.at(*row), *first, Amount::default()));
                }
            }
            Packs::Fitted(fitted) if packing.keeps_rows() => {
                let of_row =
                    |row: u32| packing.row_of_batch(row_of(self.at(row)).into().amount.tokens);
                let rows = fitted.rows(pack..pack + 1).iter();
                let padded = rows.map(|row| of_row(*row).1).max().unwrap_or_default();
                fitted.for_each(pack, |row, first| {
                    let (count, position) = (of_row(row).0, self.at(row));
                    piece(Piece { position, first, count, padded, images: 0, patches: 0 });
                });
            }
            Packs::Fitted(fitted) => fitted.for_each(pack, |row, first| {
                let position = self.at(row);
                let part = packing.cut(row_of(position).into(), first, &packing.room());
                piece(packing.piece(position, first, part));
            }),
        }
    }

    /// The end of the rows of the packs before `pack`. A row that continues in it belongs to both,
    /// as does its first row if that `is_shared`.
    fn end_of(&self, of: &Starts, pack: usize, is_shared: bool) -> u32 {
        let start = of.starts.get(pack);
        start.map_or(self.rows, |(row, token)| row + u32::from(*token > 0 || is_shared))
    }

    /// The first plan position that `pack` or a later one needs.
    pub(super) fn needed_from(&self, pack: usize) -> u64 {
        let row = match &self.packs {
            Packs::Consecutive(of) => of.starts.get(pack).map(|(row, _)| *row),
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
    /// What still fits into the open pack, if there is one.
    room: Option<Amount>,
    packs: Starts,
    /// Row and index of the last token.
    last: Option<(u32, u32)>,
    /// Of the documents of the open pack, if costs are needed.
    cost: u64,
    order: Option<Ordering>,
}

impl Consecutive {
    pub(super) fn new(packing: Packing, order: Option<Ordering>) -> Self {
        let packs = Starts::default();
        Self { packing, row: 0, room: None, packs, last: None, cost: 0, order }
    }

    /// Packs the next row. Returns the number of tokens of its padding.
    pub(super) fn push(&mut self, row: Row<'_>) -> Result<u32, Refused> {
        let (mut first, mut padding) = (0, 0);
        while first < row.amount.tokens {
            let (room, repeated) = match self.room {
                Some(room) => (room, 0),
                None => self.open(first),
            };
            let part = self.packing.cut(row, first, &room);
            if part.tokens == 0 {
                if self.room.is_none() {
                    let position = u64::from(self.row);
                    return Err(Refused::ManyImages { position, row: row.amount });
                }
                // A block that does not fit begins the next pack.
                self.close();
                continue;
            }
            let padded = self.packing.padded_part(part);
            padding += padded.tokens - part.tokens;
            first += part.tokens;
            self.last = Some((self.row, first - 1));
            self.add_document(&Amount { tokens: repeated + padded.tokens, ..part });
            let room = room.without(&padded);
            self.room = Some(room);
            if room.tokens == 0 {
                self.close();
            }
        }
        self.row += 1;
        Ok(padding)
    }

    pub(super) fn finish(mut self, start: u64, rows: u32) -> (LanePacks, PackOrder) {
        self.close();
        self.packs.starts.shrink_to_fit();
        self.packs.patches.shrink_to_fit();
        let packs = LanePacks::new(start, rows, self.packing, Packs::Consecutive(self.packs));
        (packs, self.order.map(Ordering::finish).unwrap_or_default())
    }

    /// Opens a pack for the row from `first` on. Returns its room, and how many tokens before
    /// `first` are in it too.
    fn open(&mut self, first: u32) -> (Amount, u32) {
        let room = self.packing.room();
        let Some(repeated) = self.last.filter(|_| self.packing.overlaps) else {
            self.packs.starts.push((self.row, first));
            return (room, 0);
        };
        self.packs.starts.push(repeated);
        let one = Amount::from(1);
        let is_own = repeated.0 == self.row;
        if !is_own {
            self.add_document(&one);
        }
        (room.without(&one), u32::from(is_own))
    }

    fn add_document(&mut self, amount: &Amount) {
        if let Some(order) = &self.order {
            self.cost = self.cost.saturating_add(order.of_row(amount));
        }
    }

    fn close(&mut self) {
        let Some(room) = self.room.take() else { return };
        if let Some(order) = &mut self.order {
            order.push(self.cost, room.tokens);
        }
        let patches = self.packing.max_patches - room.patches;
        if patches > 0 {
            self.packs.patches.resize(self.packs.starts.len() - 1, 0);
            self.packs.patches.push(patches);
        }
        self.cost = 0;
    }
}
