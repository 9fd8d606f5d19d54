//! The packs of an endless lane in the order of a [`Balance`], from any pack on.
//!
//! A window may span groups of rows and passes. It is drawn as a whole when its first pack is
//! needed. The invariant: the packs are those of the [`LaneCursor`], and each window has the same.

use super::{Balance, LaneCursor, LanePiece, LaneRows, Mark, NoPack, Packing};
use std::ops::Range;

/// Pass and row of a lane.
type Row = (u64, u64);

/// A [`LaneCursor`], or one that draws its packs window by window.
#[derive(Debug, Clone)]
pub struct BalancedCursor {
    /// At the end of the window that was drawn.
    cursor: LaneCursor,
    length: u32,
    balance: Option<Balance>,
    /// The packs of the window that are left, the next one last.
    left: Vec<Left>,
}

#[derive(Debug, Clone)]
struct Left {
    pieces: Vec<LanePiece>,
    /// The first row that this pack or a later one of the window needs.
    needed_from: Row,
}

impl BalancedCursor {
    /// As [`LaneCursor::at`]; with a balance, the mark is not after the start of the window of the
    /// packs that are drawn.
    #[must_use]
    pub fn at(packing: Packing, window_rows: u64, mark: Mark) -> Self {
        Self {
            cursor: LaneCursor::at(packing, window_rows, mark),
            length: packing.length.max(1),
            balance: packing.balance,
            left: Vec::new(),
        }
    }

    /// The number of the next pack.
    #[must_use]
    pub fn pack(&self) -> u64 {
        self.cursor.pack() - self.left.len() as u64
    }

    /// A position from which later packs can be computed; see [`LaneCursor::mark`].
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.cursor.mark()
    }

    /// Pass and row of the first row that the next packs need.
    #[must_use]
    pub fn needed_from(&self) -> Row {
        let from = self.cursor.needed_from();
        self.left.last().map_or(from, |next| next.needed_from.min(from))
    }

    /// Whether the packs before `end`, and those of their windows, consist of rows that are
    /// counted.
    #[must_use]
    pub fn is_counted_to(&self, end: u64) -> bool {
        end <= self.cursor.pack() || self.cursor.is_counted_to(self.window_end(end))
    }

    /// The counted rows that are not in a drawn window, and their pass.
    #[must_use]
    pub fn counted(&self) -> (u64, Range<u64>) {
        self.cursor.counted()
    }

    /// The rows in the packs of the window that are left.
    pub fn held(&self) -> impl Iterator<Item = Row> {
        self.left.iter().flat_map(|left| left.pieces.iter().map(|piece| (piece.pass, piece.row)))
    }

    /// Moves to a later pack.
    ///
    /// # Errors
    /// As [`BalancedCursor::draw`].
    pub fn seek<R: LaneRows>(&mut self, rows: &R, pack: u64) -> Result<(), NoPack<R::Error>> {
        let Some(balance) = self.balance else { return self.cursor.seek(rows, pack) };
        let start = balance.window_ahead(pack).1.start;
        if self.cursor.pack() <= start {
            self.left.clear();
            self.cursor.seek(rows, start)?;
        }
        while self.pack() < pack {
            self.next(balance, rows)?;
        }
        Ok(())
    }

    /// Adds the pieces of the next pack, and moves past it.
    ///
    /// # Errors
    /// As [`LaneCursor::draw`]; with a balance, for any pack of the window.
    pub fn draw<R: LaneRows>(
        &mut self,
        rows: &R,
        pieces: &mut Vec<LanePiece>,
    ) -> Result<(), NoPack<R::Error>> {
        let Some(balance) = self.balance else { return self.cursor.draw(rows, pieces) };
        pieces.extend(self.next(balance, rows)?);
        Ok(())
    }

    fn next<R: LaneRows>(
        &mut self,
        balance: Balance,
        rows: &R,
    ) -> Result<Vec<LanePiece>, NoPack<R::Error>> {
        if self.left.is_empty() {
            self.load(balance, rows)?;
        }
        Ok(self.left.pop().map(|next| next.pieces).unwrap_or_default())
    }

    fn load<R: LaneRows>(&mut self, balance: Balance, rows: &R) -> Result<(), NoPack<R::Error>> {
        let (window, packs) = balance.window_ahead(self.cursor.pack());
        let mut drawn = Vec::new();
        for _ in packs {
            let mut pieces = Vec::new();
            self.cursor.draw(rows, &mut pieces)?;
            drawn.push(pieces);
        }
        let cost_of = |pieces: &Vec<LanePiece>| {
            let tokens = balance.cost.of_pack(self.length, pieces.iter().map(|piece| piece.padded));
            let images = pieces.iter().map(|piece| (piece.images, piece.patches));
            let images = balance.cost.of_all_images(images);
            tokens.saturating_add(images)
        };
        let costs: Vec<u64> = drawn.iter().map(cost_of).collect();
        let mut needed_from = (u64::MAX, u64::MAX);
        for pack in balance.aligned(window, &costs).into_iter().rev() {
            let slot = usize::try_from(pack).ok().and_then(|pack| drawn.get_mut(pack));
            let pieces = slot.map(std::mem::take).unwrap_or_default();
            let first = pieces.iter().map(|piece| (piece.pass, piece.row)).min();
            needed_from = first.map_or(needed_from, |first| first.min(needed_from));
            self.left.push(Left { pieces, needed_from });
        }
        Ok(())
    }

    fn window_end(&self, end: u64) -> u64 {
        self.balance.map_or(end, |balance| balance.window_ahead(end.saturating_sub(1)).1.end)
    }
}

#[cfg(test)]
mod tests;
