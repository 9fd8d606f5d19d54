//! Which tokens of rows stay together: those that stand for an image.

use super::{Amount, Packing};

/// The tokens of an image in its row, which are never cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub start: u32,
    pub end: u32,
    pub patches: u32,
}

/// What a row takes, with its blocks in order. A row whose blocks are not known is not cut.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row<'a> {
    pub amount: Amount,
    pub blocks: &'a [Block],
}

impl From<Amount> for Row<'_> {
    fn from(amount: Amount) -> Self {
        Self { amount, blocks: &[] }
    }
}

impl From<u32> for Row<'_> {
    /// Tokens without images.
    fn from(tokens: u32) -> Self {
        Amount::from(tokens).into()
    }
}

/// The blocks of consecutive rows.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    /// Number of blocks before each row up to the last one that has blocks.
    starts: Vec<usize>,
    blocks: Vec<Block>,
}

impl Blocks {
    /// Adds the blocks of `row`, which is after all rows that have blocks.
    pub fn add(&mut self, row: usize, blocks: impl IntoIterator<Item = Block>) {
        let before = self.blocks.len();
        self.blocks.extend(blocks);
        if self.blocks.len() > before {
            self.starts.resize(row + 1, before);
        }
    }

    /// Of all rows.
    pub fn iter(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    #[must_use]
    pub fn of(&self, row: usize) -> &[Block] {
        let Some(start) = self.starts.get(row) else { return &[] };
        let end = self.starts.get(row + 1).copied().unwrap_or(self.blocks.len());
        self.blocks.get(*start..end).unwrap_or_default()
    }
}

/// What consecutive rows take.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub amounts: Vec<Amount>,
    pub blocks: Blocks,
}

impl FromIterator<Amount> for Counts {
    /// Of rows without blocks.
    fn from_iter<I: IntoIterator<Item = Amount>>(amounts: I) -> Self {
        Self { amounts: amounts.into_iter().collect(), blocks: Blocks::default() }
    }
}

impl Counts {
    /// Nothing, if there is no such row.
    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let amount = self.amounts.get(row).copied().unwrap_or_default();
        Row { amount, blocks: self.blocks.of(row) }
    }
}

impl Packing {
    /// The longest part of a row from the token `first` on that fits into `room` and ends outside
    /// of blocks. `first` is not inside of a block.
    pub(super) fn cut(&self, row: Row<'_>, first: u32, room: &Amount) -> Amount {
        let Row { amount, blocks } = row;
        if first == 0 && amount.fits(room) {
            return amount;
        }
        let end = amount.tokens.min(first.saturating_add(room.tokens));
        let mut part = Amount::from(end.saturating_sub(first));
        let passed = blocks.partition_point(|block| block.start < first);
        for block in blocks.get(passed..).unwrap_or_default() {
            if block.start >= end {
                break;
            }
            let images = part.images.saturating_add(1);
            let with =
                Amount { images, patches: part.patches.saturating_add(block.patches), ..part };
            if block.end > end || !with.has_room_for_images(room) {
                part.tokens = block.start - first;
                break;
            }
            part = with;
        }
        part
    }
}
