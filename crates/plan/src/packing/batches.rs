//! Batches of whole rows: rows of about equal length, as many as a number of tokens allows.
//!
//! The rows of a lane are cut into windows. Those of a window are sorted by their length, and cut
//! such that the rows of a batch, each padded to the longest, stay within the number of tokens. The
//! batches of a window are numbered in the order of random keys, which are equal in all lanes, so
//! their order says nothing about their length. The invariant: each row that is not dropped is in
//! one batch.

use super::balance::{Ordering, PackOrder, keyed_order};
use super::fit::Fitted;
use super::{Long, Packing, Refused, Totals};

/// The order of the batches of as many windows as have this number is drawn together.
const ORDERED_TOGETHER: usize = 256;

/// How rows are put together, besides the number of tokens and the multiple of the padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchRules {
    pub max_rows: u32,
    /// Rows of a lane that are sorted together.
    pub window_rows: u32,
    /// [`Long::Split`] raises too.
    pub long: Long,
    pub unit: Unit,
    /// Of the order of batches.
    pub seed: i64,
    pub epoch: u64,
}

/// What a length is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unit {
    #[default]
    Tokens,
    /// The bits of an `f32` that is not negative: they are sorted as the numbers are.
    Float,
}

impl Unit {
    #[must_use]
    pub fn value(self, length: u32) -> f64 {
        match self {
            Self::Tokens => f64::from(length),
            Self::Float => f64::from(f32::from_bits(length)),
        }
    }

    /// The length of a number, rounded up; `None` if it is negative or not finite.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest")]
    pub fn of_float(value: f64) -> Option<u32> {
        if !(0.0..f64::INFINITY).contains(&value) {
            return None;
        }
        let nearest = value.abs() as f32;
        let is_less = nearest.is_finite() && f64::from(nearest) < value;
        let rounded = if is_less { nearest.next_up() } else { nearest };
        Some(rounded.min(f32::MAX).to_bits())
    }

    /// For a message.
    #[must_use]
    pub fn shown(self, length: u32) -> String {
        match self {
            Self::Tokens => length.to_string(),
            Self::Float => f32::from_bits(length).to_string(),
        }
    }

    /// The nearest whole number.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    pub fn whole(self, length: u32) -> u32 {
        self.value(length).round() as u32
    }

    /// A length of this number of tokens.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most 2^30, of which few digits matter")]
    pub fn of_tokens(self, tokens: u32) -> u32 {
        match self {
            Self::Tokens => tokens,
            Self::Float => (tokens as f32).to_bits(),
        }
    }
}

/// Makes the batches of a lane.
pub(super) struct Batching {
    packing: Packing,
    rules: BatchRules,
    row: u32,
    /// Lengths and rows of the open window.
    window: Vec<(u32, u32)>,
    /// Batches that are not numbered yet.
    cut: Vec<Cut>,
    /// How many times batches were numbered.
    numbered: u64,
    rows: Fitted,
    /// In each batch.
    tokens: Vec<f64>,
    padded: f64,
    lost: Totals,
    order: Option<Ordering>,
}

struct Cut {
    rows: Vec<(u32, u32)>,
    tokens: f64,
    cost: u64,
}

/// The batches of a lane.
pub(super) struct Batched {
    pub(super) rows: Fitted,
    pub(super) tokens: Vec<f64>,
    pub(super) order: PackOrder,
    pub(super) totals: Totals,
}

impl Batching {
    pub(super) fn new(packing: Packing, rules: BatchRules, order: Option<Ordering>) -> Self {
        Self {
            packing,
            rules,
            row: 0,
            window: Vec::new(),
            cut: Vec::new(),
            numbered: 0,
            rows: Fitted::default(),
            tokens: Vec::new(),
            padded: 0.0,
            lost: Totals::default(),
            order,
        }
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, length: u32) -> Result<(), Refused> {
        let (row, most, unit) = (self.row, self.packing.most_of_row(), self.rules.unit);
        self.row += 1;
        let tokens = u64::from(unit.whole(length));
        match self.rules.long {
            _ if length <= most => self.window.push((length, row)),
            Long::Split | Long::Error => {
                return Err(Refused::LongRow { position: u64::from(row), tokens: length });
            }
            Long::Drop => {
                self.lost.dropped_rows += 1;
                self.lost.dropped_tokens += tokens;
            }
            Long::Truncate => {
                self.lost.truncated_tokens += tokens - u64::from(unit.whole(most));
                self.window.push((most, row));
            }
        }
        if self.row.is_multiple_of(self.rules.window_rows.max(1)) {
            self.end_window();
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Batched {
        self.end_window();
        self.number();
        let tokens = self.tokens.iter().sum();
        let totals =
            Totals { tokens: whole(tokens), padded_tokens: whole(self.padded), ..self.lost };
        let order = self.order.map(Ordering::finish).unwrap_or_default();
        Batched { rows: self.rows.finish(), tokens: self.tokens, order, totals }
    }

    #[expect(clippy::cast_precision_loss, reason = "a window has fewer than 2^32 rows")]
    fn end_window(&mut self) {
        let mut window = std::mem::take(&mut self.window);
        window.sort_unstable();
        let most_tokens = f64::from(self.packing.length);
        let most_rows = usize::try_from(self.rules.max_rows.max(1)).unwrap_or(usize::MAX);
        let mut start = 0;
        for (end, (length, _)) in window.iter().enumerate() {
            let (rows, width) = (end + 1 - start, self.width(*length));
            if rows > 1 && (rows > most_rows || rows as f64 * width > most_tokens) {
                self.cut(window.get(start..end).unwrap_or_default());
                start = end;
            }
        }
        self.cut(window.get(start..).unwrap_or_default());
        if self.cut.len() >= ORDERED_TOGETHER {
            self.number();
        }
        window.clear();
        self.window = window;
    }

    /// Makes a batch of rows that are sorted by length.
    #[expect(clippy::cast_precision_loss, reason = "a window has fewer than 2^32 rows")]
    fn cut(&mut self, sorted: &[(u32, u32)]) {
        let Some((longest, _)) = sorted.last() else { return };
        let width = self.width(*longest);
        let lengths = sorted.iter().map(|(length, _)| self.rules.unit.value(*length));
        let tokens: f64 = lengths.clone().sum();
        self.padded += sorted.len() as f64 * width - tokens;
        let cost = self.order.as_ref().map_or(0, |order| order.of_rows(lengths, width));
        let mut rows: Vec<(u32, u32)> = sorted.iter().map(|(_, row)| (*row, 0)).collect();
        rows.sort_unstable();
        self.cut.push(Cut { rows, tokens, cost });
    }

    fn number(&mut self) {
        let BatchRules { seed, epoch, .. } = self.rules;
        for place in keyed_order(seed, epoch, self.numbered, self.cut.len()) {
            let Some(cut) = self.cut.get(place) else { continue };
            self.rows.push(&cut.rows);
            self.tokens.push(cut.tokens);
            self.order.iter_mut().for_each(|order| order.push(cut.cost, 0));
        }
        self.cut.clear();
        self.numbered += 1;
    }

    fn width(&self, length: u32) -> f64 {
        self.rules.unit.value(self.packing.padded(length))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(tokens: f64) -> u64 {
    tokens.round() as u64
}

#[cfg(test)]
mod tests;
