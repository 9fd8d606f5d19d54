//! Rows that stay whole, in a bounded number of open packs.
//!
//! A pack is closed when it is full; when a new one has to be opened and too many are open, the fullest; and when it has been open for too long. The last
//! rule bounds how far apart the rows of a pack lie, and with it the blocks that have to stay in memory for an open one. At the end of a lane, open packs are
//! closed in the order in which they were opened.

use super::{Choice, Long, Refused};
use std::ops::Range;

/// A pack stays open while fewer than so many times the number of open packs were opened after it.
const MOST_OPENED_SINCE: u64 = 4;

/// What was packed, packs in the order in which they were closed.
#[derive(Debug, Default)]
pub(super) struct Fitted {
    /// Number of pieces before each pack.
    starts: Vec<u64>,
    /// The row of each piece.
    rows: Vec<u32>,
    /// First tokens of pieces that do not begin with their row, by the number of the piece; ascending.
    later: Vec<(u64, u32)>,
    /// The lowest row that each pack or a later one needs.
    lowest: Vec<u32>,
}

impl Fitted {
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn rows(&self, packs: Range<usize>) -> &[u32] {
        let bound = |pack: usize| self.starts.get(pack).and_then(|start| usize::try_from(*start).ok()).unwrap_or(self.rows.len());
        self.rows.get(bound(packs.start)..bound(packs.end)).unwrap_or_default()
    }

    /// Row and first token of each piece of a pack.
    pub(super) fn for_each(&self, pack: usize, mut piece: impl FnMut(u32, u32)) {
        let Some(start) = self.starts.get(pack) else { return };
        for (number, row) in (*start..).zip(self.rows(pack..pack + 1)) {
            let later = if self.later.is_empty() { None } else { self.later.binary_search_by_key(&number, |(number, _)| *number).ok() };
            piece(*row, later.and_then(|later| self.later.get(later)).map_or(0, |(_, first)| *first));
        }
    }

    pub(super) fn lowest(&self, pack: usize) -> Option<u32> {
        self.lowest.get(pack).copied()
    }

    fn push(&mut self, pieces: &[(u32, u32)]) {
        self.starts.push(self.rows.len() as u64);
        for (row, first) in pieces {
            if *first > 0 {
                self.later.push((self.rows.len() as u64, *first));
            }
            self.rows.push(*row);
        }
    }

    fn finish(mut self) -> Self {
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
        self
    }
}

/// The open packs of a lane.
pub(super) struct Fitting {
    length: u32,
    choice: Choice,
    open_packs: usize,
    long: Long,
    row: u32,
    /// Tokens that fit into each open pack, in the order of opening.
    rooms: Vec<u32>,
    packs: Vec<OpenPack>,
    opened: u64,
    /// Emptied, for the next that is opened.
    spare: Vec<Vec<(u32, u32)>>,
    closed: Fitted,
}

struct OpenPack {
    /// How many were opened before.
    number: u64,
    /// Row and first token of each piece.
    pieces: Vec<(u32, u32)>,
}

impl Fitting {
    pub(super) fn new(length: u32, choice: Choice, open_packs: usize, long: Long) -> Self {
        let open_packs = open_packs.max(1);
        Self {
            length,
            choice,
            open_packs,
            long,
            row: 0,
            rooms: Vec::new(),
            packs: Vec::new(),
            opened: 0,
            spare: Vec::new(),
            closed: Fitted::default(),
        }
    }

    /// The next row. Returns how many of its tokens are packed.
    pub(super) fn push(&mut self, tokens: u32) -> Result<u32, Refused> {
        let row = self.row;
        self.row += 1;
        if tokens <= self.length {
            self.place(row, 0, tokens);
            return Ok(tokens);
        }
        match self.long {
            Long::Error => Err(Refused::LongRow { position: u64::from(row), tokens }),
            Long::Drop => Ok(0),
            Long::Truncate => {
                self.closed.push(&[(row, 0)]);
                Ok(self.length)
            }
            Long::Split => {
                let mut first = 0;
                while tokens - first >= self.length {
                    self.closed.push(&[(row, first)]);
                    first += self.length;
                }
                self.place(row, first, tokens - first);
                Ok(tokens)
            }
        }
    }

    pub(super) fn finish(mut self) -> Fitted {
        while !self.packs.is_empty() {
            self.close(0);
        }
        self.closed.finish()
    }

    fn place(&mut self, row: u32, first: u32, tokens: u32) {
        match tokens {
            0 => return,
            all if all == self.length => return self.closed.push(&[(row, first)]),
            _ => {}
        }
        let chosen = match self.choice {
            Choice::Best => self.fullest(tokens),
            Choice::First => self.rooms.iter().position(|room| *room >= tokens),
        };
        let place = chosen.unwrap_or_else(|| self.open());
        if let (Some(pack), Some(room)) = (self.packs.get_mut(place), self.rooms.get_mut(place)) {
            pack.pieces.push((row, first));
            *room -= tokens;
            if *room == 0 {
                self.close(place);
            }
        }
    }

    /// The pack with the least room of those with room for `tokens`; the oldest of several.
    fn fullest(&self, tokens: u32) -> Option<usize> {
        // Two plain passes over few numbers are vectorised, one that keeps the place is not.
        let least = self.rooms.iter().map(|room| if *room >= tokens { *room } else { u32::MAX }).min()?;
        if least == u32::MAX { None } else { self.rooms.iter().position(|room| *room == least) }
    }

    fn open(&mut self) -> usize {
        if self.packs.len() >= self.open_packs {
            if let Some(fullest) = self.fullest(0) {
                self.close(fullest);
            }
        }
        let most = MOST_OPENED_SINCE.saturating_mul(self.open_packs as u64);
        if self.packs.first().is_some_and(|oldest| self.opened - oldest.number >= most) {
            self.close(0);
        }
        self.packs.push(OpenPack { number: self.opened, pieces: self.spare.pop().unwrap_or_default() });
        self.rooms.push(self.length);
        self.opened += 1;
        self.packs.len() - 1
    }

    fn close(&mut self, place: usize) {
        self.rooms.remove(place);
        let mut pieces = self.packs.remove(place).pieces;
        self.closed.push(&pieces);
        pieces.clear();
        self.spare.push(pieces);
    }
}
