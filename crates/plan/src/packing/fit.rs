//! Packs whole rows, or parts of long ones, with a bounded number of open packs.
//!
//! A pack is closed when it is full, when a new one has to be opened and too many are open (the
//! fullest is closed), and when it has been open for too long. The last rule bounds the distance
//! between the rows of a pack, and with it the blocks that have to stay in memory for an open one.
//! At the end of a lane, open packs are closed in the order in which they were opened.

use super::balance::{Ordering, PackOrder};
use super::{Amount, Choice, Long, Packing, Refused, Row};
use std::ops::Range;

/// A pack is closed after this many times the number of open packs were opened after it.
const MOST_OPENED_SINCE: u64 = 4;

/// The packs in the order in which they were closed.
#[derive(Debug, Clone, Default)]
pub(super) struct Fitted {
    /// Number of pieces before each pack.
    starts: Vec<u64>,
    /// The row of each piece.
    rows: Vec<u32>,
    /// First tokens of pieces that do not start with their row, by the index
    /// of the piece; ascending.
    later: Vec<(u64, u32)>,
    /// The lowest row needed by each pack or a later one.
    lowest: Vec<u32>,
    /// Of the images of each pack up to the last one that has images.
    patches: Vec<u32>,
}

impl Fitted {
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn rows(&self, packs: Range<usize>) -> &[u32] {
        let bound = |pack: usize| {
            self.starts
                .get(pack)
                .and_then(|start| usize::try_from(*start).ok())
                .unwrap_or(self.rows.len())
        };
        self.rows.get(bound(packs.start)..bound(packs.end)).unwrap_or_default()
    }

    /// Row and first token of each piece of a pack.
    pub(super) fn for_each(&self, pack: usize, mut piece: impl FnMut(u32, u32)) {
        let Some(start) = self.starts.get(pack) else { return };
        for (number, row) in (*start..).zip(self.rows(pack..pack + 1)) {
            let later = if self.later.is_empty() {
                None
            } else {
                self.later.binary_search_by_key(&number, |(number, _)| *number).ok()
            };
            piece(
                *row,
                later.and_then(|later| self.later.get(later)).map_or(0, |(_, first)| *first),
            );
        }
    }

    pub(super) fn lowest(&self, pack: usize) -> Option<u32> {
        self.lowest.get(pack).copied()
    }

    pub(super) fn patches(&self, pack: usize) -> u64 {
        self.patches.get(pack).copied().map_or(0, u64::from)
    }

    /// Adds a pack of rows without images.
    pub(super) fn push(&mut self, pieces: &[(u32, u32)]) {
        self.push_with(pieces, 0);
    }

    fn push_with(&mut self, pieces: &[(u32, u32)], patches: u32) {
        if patches > 0 {
            self.patches.resize(self.starts.len(), 0);
            self.patches.push(patches);
        }
        self.starts.push(self.rows.len() as u64);
        for (row, first) in pieces {
            if *first > 0 {
                self.later.push((self.rows.len() as u64, *first));
            }
            self.rows.push(*row);
        }
    }

    pub(super) fn finish(mut self) -> Self {
        let mut lowest = u32::MAX;
        self.lowest = vec![0; self.len()];
        for pack in (0..self.len()).rev() {
            lowest = self.rows(pack..pack + 1).iter().copied().fold(lowest, u32::min);
            if let Some(slot) = self.lowest.get_mut(pack) {
                *slot = lowest;
            }
        }
        self.starts.shrink_to_fit();
        self.rows.shrink_to_fit();
        self.patches.shrink_to_fit();
        self
    }
}

/// The open packs of a lane.
pub(super) struct Fitting {
    packing: Packing,
    choice: Choice,
    open_packs: usize,
    long: Long,
    row: u32,
    /// Tokens of the padding of all pieces.
    pub(super) padding: u64,
    /// In the order in which they are tried.
    open: Vec<OpenPack>,
    /// Row and first token of each piece, by the slot of an open pack.
    pieces: Vec<Vec<(u32, u32)>>,
    /// Unused slots.
    free: Vec<u32>,
    opened: u32,
    closed: Fitted,
    order: Option<Ordering>,
}

#[derive(Debug, Clone, Copy)]
struct OpenPack {
    /// What still fits.
    room: Amount,
    /// Number of packs opened before it.
    number: u32,
    slot: u32,
    /// Of its documents, if costs are needed.
    cost: u64,
}

impl OpenPack {
    /// Less for a fuller one, and for the older of equally full ones.
    fn fullness(&self) -> (u32, u32) {
        (self.room.tokens, self.number)
    }
}

impl Fitting {
    pub(super) fn new(packing: Packing, choice: Choice, open_packs: usize, long: Long) -> Self {
        let open_packs = open_packs.max(1);
        let (open, pieces, free) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            packing,
            choice,
            open_packs,
            long,
            row: 0,
            padding: 0,
            open,
            pieces,
            free,
            opened: 0,
            closed: Fitted::default(),
            order: None,
        }
    }

    pub(super) fn ordered(self, order: Option<Ordering>) -> Self {
        Self { order, ..self }
    }

    /// Packs the next row. Returns how many of its tokens are packed.
    pub(super) fn push(&mut self, row: Row<'_>) -> Result<u32, Refused> {
        let (amount, room, position) = (row.amount, self.packing.room(), u64::from(self.row));
        let tokens = amount.tokens;
        let many_images = Refused::ManyImages { position, row: amount };
        let packed = match self.long {
            _ if amount.fits(&room) => self.place_part(row, 0),
            Long::Truncate => self.place_part(row, 0),
            Long::Drop => 0,
            Long::Error if amount.has_room_for_images(&room) => {
                return Err(Refused::LongRow { position, tokens });
            }
            Long::Error => return Err(many_images),
            Long::Split => {
                let mut packed = 0;
                while packed < tokens {
                    match self.place_part(row, packed) {
                        0 => return Err(many_images),
                        part => packed += part,
                    }
                }
                packed
            }
        };
        self.row += 1;
        Ok(packed)
    }

    pub(super) fn finish(mut self) -> (Fitted, PackOrder) {
        self.open.sort_unstable_by_key(|pack| pack.number);
        while !self.open.is_empty() {
            self.close(0);
        }
        (self.closed.finish(), self.order.map(Ordering::finish).unwrap_or_default())
    }

    /// Packs a row from the token `first` on, as many of its tokens as a pack has room for. Returns
    /// that number.
    fn place_part(&mut self, row: Row<'_>, first: u32) -> u32 {
        let part = self.packing.cut(row, first, &self.packing.room());
        let padded = self.packing.padded_part(part);
        self.padding += u64::from(padded.tokens - part.tokens);
        self.place(self.row, first, padded);
        part.tokens
    }

    fn push_full(&mut self, row: u32, first: u32, amount: &Amount) {
        self.closed.push_with(&[(row, first)], amount.patches);
        self.order.iter_mut().for_each(|order| order.push(order.of_row(amount), 0));
    }

    fn place(&mut self, row: u32, first: u32, amount: Amount) {
        match amount.tokens {
            0 => return,
            all if all == self.packing.length => return self.push_full(row, first, &amount),
            _ => {}
        }
        let place = self.with_room(&amount).unwrap_or_else(|| self.open());
        let Some(pack) = self.open.get_mut(place) else { return };
        pack.room = pack.room.without(&amount);
        if let Some(order) = &self.order {
            pack.cost = pack.cost.saturating_add(order.of_row(&amount));
        }
        let (is_full, slot) = (pack.room.tokens == 0, pack.slot);
        if let Some(pieces) = self.slot(slot) {
            pieces.push((row, first));
        }
        if is_full {
            self.close(place);
        } else if self.choice == Choice::Best {
            self.move_forward(place);
        }
    }

    /// The first open pack with room for a row, in the order in which they are tried.
    fn with_room(&self, row: &Amount) -> Option<usize> {
        let first = match self.choice {
            Choice::Best => self.open.partition_point(|pack| pack.room.tokens < row.tokens),
            Choice::First => 0,
        };
        let mut rest = self.open.get(first..).unwrap_or_default().iter();
        rest.position(|pack| row.fits(&pack.room)).map(|place| first + place)
    }

    /// The fullest pack is tried first, of equally full ones the older. Moves a pack that became
    /// fuller to its new position.
    fn move_forward(&mut self, place: usize) {
        let Some(pack) = self.open.get(place).copied() else { return };
        let to = self
            .open
            .get(..place)
            .unwrap_or_default()
            .partition_point(|other| other.fullness() < pack.fullness());
        if let Some(between) = self.open.get_mut(to..=place) {
            between.rotate_right(1);
        }
    }

    fn open(&mut self) -> usize {
        let least = |packs: &[OpenPack], key: fn(&OpenPack) -> (u32, u32)| {
            packs.iter().enumerate().min_by_key(|(_, pack)| key(pack)).map(|(place, _)| place)
        };
        if self.open.len() >= self.open_packs {
            let fullest = if self.choice == Choice::Best {
                Some(0)
            } else {
                least(&self.open, OpenPack::fullness)
            };
            fullest.into_iter().for_each(|place| self.close(place));
        }
        let most = MOST_OPENED_SINCE.saturating_mul(self.open_packs as u64);
        if u64::from(self.opened) >= most {
            let oldest = if self.choice == Choice::First {
                Some(0)
            } else {
                least(&self.open, |pack| (pack.number, 0))
            };
            let is_due = |place: &usize| {
                self.open
                    .get(*place)
                    .is_some_and(|pack| u64::from(self.opened - pack.number) >= most)
            };
            if let Some(oldest) = oldest.filter(is_due) {
                self.close(oldest);
            }
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pieces.push(Vec::new());
            // At most the number of open packs.
            u32::try_from(self.pieces.len() - 1).unwrap_or(u32::MAX)
        });
        // The emptiest and youngest one is last in either order.
        let room = self.packing.room();
        self.open.push(OpenPack { room, number: self.opened, slot, cost: 0 });
        self.opened += 1;
        self.open.len() - 1
    }

    fn close(&mut self, place: usize) {
        let OpenPack { slot, cost, room, .. } = self.open.remove(place);
        let Some(pieces) = usize::try_from(slot).ok().and_then(|slot| self.pieces.get_mut(slot))
        else {
            return;
        };
        self.closed.push_with(pieces, self.packing.max_patches - room.patches);
        pieces.clear();
        self.order.iter_mut().for_each(|order| order.push(cost, room.tokens));
        self.free.push(slot);
    }

    fn slot(&mut self, slot: u32) -> Option<&mut Vec<(u32, u32)>> {
        self.pieces.get_mut(usize::try_from(slot).ok()?)
    }
}
