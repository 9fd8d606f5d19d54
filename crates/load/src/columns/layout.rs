//! Where the items of lists are, and where they go when their rows are padded.
//!
//! A superbatch holds several batches, and each is padded on its own: what a batch looks like
//! follows from its rows alone.

use arrow_buffer::NullBuffer;
use std::ops::Range;

/// Where the padding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// How long padded rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowLength {
    /// By default that of the longest row.
    pub(super) fixed: Option<usize>,
    pub(super) multiple_of: usize,
    /// Longer rows are cut.
    pub(super) most: usize,
}

impl RowLength {
    /// Any length of lists.
    pub(super) const LONGEST: Self = Self { fixed: None, multiple_of: 1, most: usize::MAX };

    fn of(self, longest: usize) -> usize {
        let cut = longest.min(self.most);
        self.fixed.unwrap_or(cut.checked_next_multiple_of(self.multiple_of).unwrap_or(cut))
    }
}

/// The lists of one level of nesting.
#[derive(Debug)]
pub(super) struct Level {
    /// One more than lists, starting at 0.
    pub(super) offsets: Vec<i64>,
    pub(super) nulls: Option<NullBuffer>,
}

impl Level {
    pub(super) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The items of a list.
    pub(super) fn range(&self, list: usize) -> Range<usize> {
        self.bound(list)..self.bound(list + 1)
    }

    /// The items of consecutive lists.
    pub(super) fn items(&self, lists: &Range<usize>) -> Range<usize> {
        self.bound(lists.start)..self.bound(lists.end)
    }

    fn bound(&self, list: usize) -> usize {
        self.offsets.get(list).and_then(|bound| usize::try_from(*bound).ok()).unwrap_or_default()
    }

    /// The list of an item is the last one that starts at or before it: preceding empty lists start
    /// there as well.
    fn list_of(&self, item: usize) -> usize {
        self.offsets
            .partition_point(|start| usize::try_from(*start).is_ok_and(|start| start <= item))
            .saturating_sub(1)
    }
}

/// The row of an item of the innermost of `levels`.
pub(super) fn row_of(levels: &[Level], item: usize) -> usize {
    levels.iter().rev().fold(item, |item, level| level.list_of(item))
}

/// Consecutive values with their place in the padded array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) count: usize,
}

/// Where the values of a superbatch go.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// By ascending place.
    pub(super) runs: Vec<Run>,
    pub(super) len: usize,
    /// Shape of each batch.
    pub(super) shapes: Vec<Vec<usize>>,
}

impl Layout {
    /// `batches` are numbers of rows, and `widths` the shape of what the innermost lists hold.
    pub(super) fn new(
        levels: &[Level],
        batches: &[usize],
        length: RowLength,
        widths: &[usize],
        side: Side,
    ) -> Option<Self> {
        let mut layout = Self::default();
        let mut start = 0;
        for rows in batches {
            let range = start..start + rows;
            start = range.end;
            let mut shape = vec![*rows];
            let mut lists = range.clone();
            for (number, level) in levels.iter().enumerate() {
                let longest =
                    lists.clone().map(|list| level.range(list).len()).max().unwrap_or_default();
                shape.push(if number == 0 { length.of(longest) } else { longest });
                lists = level.items(&lists);
            }
            shape.extend(widths);
            let first = layout.len;
            layout.len = first.checked_add(product(&shape)?)?;
            let (_, lengths) = shape.split_first()?;
            let (lengths, _) = lengths.split_at_checked(levels.len())?;
            layout.place(levels, lengths, range, (first, product(widths)?, side));
            layout.shapes.push(shape);
        }
        Some(layout)
    }

    fn place(
        &mut self,
        levels: &[Level],
        lengths: &[usize],
        lists: Range<usize>,
        (mut to, cell, side): (usize, usize, Side),
    ) {
        let (Some((level, levels)), Some((length, lengths))) =
            (levels.split_first(), lengths.split_first())
        else {
            return;
        };
        let size = lengths.iter().product::<usize>() * cell;
        for list in lists {
            let items = level.range(list);
            let items = items.start..items.end.min(items.start.saturating_add(*length));
            let padding = length.saturating_sub(items.len());
            let start = if side == Side::Left { to + padding * size } else { to };
            to += length * size;
            if levels.is_empty() {
                self.runs.push(Run {
                    from: items.start * cell,
                    to: start,
                    count: items.len() * cell,
                });
            } else {
                self.place(levels, lengths, items, (start, cell, side));
            }
        }
    }
}

fn product(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |product, length| product.checked_mul(*length))
}
