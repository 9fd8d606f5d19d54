//! Decides which tokens of which rows are packed together: rows in plan order → packs of at most
//! `length` tokens.
//!
//! A [`PackPlan`] of one epoch is computed from the token counts of rows in plan order; used by the
//! pass, by `explain` and by `len`. Each lane of rows is packed separately, so its packs form a
//! lane again, and packs are dealt out like rows. The invariant: the packs depend only on the token
//! counts, the order of the rows, the lanes and the [`Packing`]; each token of a row is in at most
//! one pack; and the tokens of a [`Block`] are in one piece.
//!
//! | strategy | a row | packs |
//! |---|---|---|
//! | [`Strategy::Concat`] | is split where a pack is full | full, but before a block and at the end |
//! | [`Strategy::Fit`] | stays whole, if not longer than a pack | as full as the open packs allow |
//! | [`Strategy::Batches`] | stays a row | rows of about equal length, padded to the longest |
//!
//! [`Strategy::Concat`] needs no memory per row, other strategies need four bytes.
//!
//! A [`LaneCursor`] needs no count of a whole epoch: its lane never ends, and it computes one pack
//! after another. A [`Balance`] changes the order of packs, and no pack.

mod ahead;
mod amount;
mod balance;
mod balanced;
mod batches;
#[cfg(test)]
mod block_tests;
mod blocks;
#[cfg(test)]
mod budget_tests;
mod fit;
#[cfg(test)]
mod inside_tests;
mod lane;
mod plan;
#[cfg(test)]
mod tests;
mod totals;

pub use ahead::{LaneCursor, LanePiece, LaneRows, Mark, NoPack};
pub use amount::Amount;
pub use balance::{Balance, Cost, CostTerms, MOST_WINDOW_PACKS, Within};
pub use balanced::BalancedCursor;
pub use batches::{BatchRules, Unit};
pub use blocks::{Block, Blocks, Counts, Row};
pub use plan::PackPlan;
pub use totals::Totals;

/// How rows are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Tokens of a pack, in a batch of rows with their padding; at least one.
    pub length: u32,
    pub strategy: Strategy,
    /// Each piece of a row is padded to a multiple of this in its pack; at least one, and a divisor
    /// of the length. A row counts as its tokens rounded up.
    pub multiple_of: u32,
    /// Whether a pack begins with the last token of the one before; only for [`Strategy::Concat`],
    /// without multiples.
    pub overlaps: bool,
    /// Whether a pack ends with the place of the token that follows it in the lane; only for
    /// [`Strategy::Concat`].
    pub looks_ahead: bool,
    /// Images of a pack, and their patches; not for [`Strategy::Batches`].
    pub max_images: u32,
    pub max_patches: u32,
    /// In what order packs come; as they are packed by default.
    pub balance: Option<Balance>,
}

impl Packing {
    #[must_use]
    pub fn new(length: u32, strategy: Strategy) -> Self {
        Self {
            length: length.max(1),
            strategy,
            multiple_of: 1,
            overlaps: false,
            looks_ahead: false,
            max_images: u32::MAX,
            max_patches: u32::MAX,
            balance: None,
        }
    }

    /// What an empty pack has room for.
    fn room(&self) -> Amount {
        Amount { tokens: self.length, images: self.max_images, patches: self.max_patches }
    }

    /// Tokens with their padding.
    #[must_use]
    pub fn padded(&self, tokens: u32) -> u32 {
        let most = u32::MAX - u32::MAX % self.multiple_of.max(1);
        tokens.checked_next_multiple_of(self.multiple_of).unwrap_or(most)
    }

    /// Tokens from the start of a pack to that of the next one.
    fn stride(&self) -> u32 {
        self.length - u32::from(self.overlaps)
    }

    /// What the lengths of rows are.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self.strategy {
            Strategy::Batches(rules) => rules.unit,
            _ => Unit::Tokens,
        }
    }

    /// Whether rows stay rows.
    #[must_use]
    pub fn keeps_rows(&self) -> bool {
        matches!(self.strategy, Strategy::Batches(_))
    }

    /// The longest row that a pack can hold.
    #[must_use]
    pub fn most_of_row(&self) -> u32 {
        self.unit().of_tokens(self.length - self.length % self.multiple_of.max(1))
    }

    /// The cost of a pack with these pieces; of each, tokens, and tokens with their padding.
    #[must_use]
    pub fn cost_of(&self, cost: &Cost, pieces: impl Iterator<Item = (u32, u32)> + Clone) -> u64 {
        if !self.keeps_rows() {
            return cost.of_pack(self.length, pieces.map(|(_, padded)| padded));
        }
        let longest = pieces.clone().map(|(_, padded)| padded).max().unwrap_or_default();
        let value = |(tokens, _)| self.unit().value(tokens);
        cost.of_rows(pieces.map(value), self.unit().value(longest))
    }

    /// A part of the row at a position, from the token `first` on.
    fn piece(&self, position: u64, first: u32, part: Amount) -> Piece {
        let Amount { tokens: count, images, patches } = part;
        Piece { position, first, count, padded: self.padded(count), images, patches }
    }

    /// A part with its padding.
    fn padded_part(&self, part: Amount) -> Amount {
        Amount { tokens: self.padded(part.tokens), ..part }
    }

    /// A row of a batch, cut to the longest that it can hold: its length, and that with padding.
    fn row_of_batch(&self, length: u32) -> (u32, u32) {
        let padded = self.padded(length).min(self.most_of_row());
        (length.min(padded), padded)
    }

    /// Options that packs can be made of.
    fn possible(self) -> Self {
        let length = self.length.max(1);
        Self {
            length,
            multiple_of: self.multiple_of.max(1),
            overlaps: self.overlaps && length > 1 && self.multiple_of <= 1,
            ..self
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The tokens of all rows are concatenated, and cut every `length` tokens.
    Concat,
    /// A row is added to an open pack with room for it.
    Fit { choice: Choice, open_packs: usize, long: Long },
    /// Rows stay rows, and those of about equal length are in one pack.
    Batches(BatchRules),
}

/// Which open pack is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The fullest one.
    Best,
    /// The one that was opened first.
    First,
}

/// How a row that is longer than a pack, or has too many images for one, is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Long {
    /// It is cut to parts as long as a pack has room for, and these are packed like rows.
    Split,
    /// Its first tokens are packed, as many as a pack has room for.
    Truncate,
    Drop,
    Error,
}

/// Tokens of one row in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Plan position of the row.
    pub position: u64,
    /// Index of the first token in the row.
    pub first: u32,
    /// Zero at the end of a pack that looks ahead: the next token of the lane is in this place.
    pub count: u32,
    /// The same with the padding inside of the pack; of all rows of a batch, the same.
    pub padded: u32,
    /// Images whose tokens these are, and their patches.
    pub images: u32,
    pub patches: u32,
}

/// Why rows cannot be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// With [`Long::Error`].
    LongRow { position: u64, tokens: u32 },
    /// A row has more images or patches than a pack and is not cut or dropped, or has a block that
    /// no pack has room for.
    ManyImages { position: u64, row: Amount },
    /// Rows of a lane are counted in 32 bits.
    LongLane { rows: u64 },
}

impl Refused {
    /// With a position that was counted from the start of a lane.
    fn in_lane(self, start: u64) -> Self {
        match self {
            Self::LongRow { position, tokens } => {
                Self::LongRow { position: start + position, tokens }
            }
            Self::ManyImages { position, row } => {
                Self::ManyImages { position: start + position, row }
            }
            other => other,
        }
    }
}
