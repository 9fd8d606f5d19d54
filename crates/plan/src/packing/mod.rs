//! Which tokens of which rows stand together: rows in plan order → packs of at most `length` tokens.
//!
//! The token counts of rows in plan order enter, a [`PackPlan`] of one epoch leaves; asked by the pass, by `explain` and by `len`. Each lane of rows is
//! packed for itself, so its packs make a lane again, and packs are dealt out as rows are. The invariant: the packs follow from the token counts, the order
//! of the rows, the lanes and the [`Packing`], and from nothing else; and each token of a row is in at most one pack.
//!
//! | strategy | a row | packs |
//! |---|---|---|
//! | [`Strategy::Concat`] | goes on in the next pack where it does not fit | all full, but for the last of a lane |
//! | [`Strategy::Fit`] | stays whole, if it is no longer than a pack | as full as some open packs allow |
//!
//! Nothing is kept for each row where packs follow one another ([`Strategy::Concat`]), else four bytes.

mod fit;
mod lane;
mod plan;
#[cfg(test)]
mod tests;

pub use plan::{PackPlan, Totals};

/// How rows become packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Tokens of a pack; at least one.
    pub length: u32,
    pub strategy: Strategy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The tokens of all rows one after another, cut every `length` tokens.
    Concat,
    /// A row goes into one of the open packs that have room for it.
    Fit { choice: Choice, open_packs: usize, long: Long },
}

/// Into which open pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The fullest one.
    Best,
    /// The one that was opened first.
    First,
}

/// What becomes of a row that is longer than a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// It fills whole packs, and what is left of it is packed like a row.
    Split,
    /// Its first tokens fill a pack.
    Truncate,
    Drop,
    Error,
}

/// Tokens of one row in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Of the row, in plan order.
    pub position: u64,
    /// Token of the row.
    pub first: u32,
    /// At least one.
    pub count: u32,
}

/// Why rows cannot be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// With [`Long::Error`].
    LongRow { position: u64, tokens: u32 },
    /// Rows of a lane are counted in 32 bits.
    LongLane { rows: u64 },
}
