//! Orders the packs of each lane so that all lanes have equally dear packs at the same place.
//!
//! The packs of a lane are cut into windows by their number, and those of a window are ranked by
//! their [`Cost`]. Which rank comes at which place depends on the options and the number of the
//! window, and not on the lane. The invariant: a window has the same packs in any order.

use super::Amount;
use crate::order::{Permutation, Purpose};
use std::ops::Range;

/// Largest window. The ranks of a window are known at once.
pub const MOST_WINDOW_PACKS: u32 = 1 << 20;

/// A power of four, so that the keys need no walk along a cycle.
const KEYS: u64 = 1 << 62;

/// The keys of places inside of groups are those from here on.
const PLACES: u64 = 1 << 32;

/// The first windows of endless lanes are these parts of the others.
const FIRST_WINDOWS: [u64; 3] = [16, 4, 2];

/// The work of a pack, from the lengths of its documents with their padding, and from their images.
/// Sums and products saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Of a token.
    pub token: u64,
    /// Of a pair of tokens of a document.
    pub pair: u64,
    /// Of a pair of tokens of a document that are not further apart than `window`.
    pub window_pair: u64,
    /// `None` is longer than any document.
    pub window: Option<u32>,
    /// Of a patch of an image.
    pub patch: u64,
    /// Of a pair of patches of one image.
    pub patch_pair: u64,
    /// Of an image, whatever its size.
    pub image: u64,
    /// Whether the room after the last document is one more.
    pub counts_padding: bool,
}

impl Cost {
    /// Of a document with this number of tokens in a pack.
    #[must_use]
    pub fn of_document(&self, tokens: u32) -> u64 {
        let CostTerms { token, pair, window_pair, .. } = self.terms(tokens);
        self.token
            .saturating_mul(token)
            .saturating_add(self.pair.saturating_mul(pair))
            .saturating_add(self.window_pair.saturating_mul(window_pair))
    }

    /// Of rows of these lengths that are padded to the longest. Without padding, as of documents.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "saturates, and all machines round alike"
    )]
    pub fn of_rows(&self, lengths: impl Iterator<Item = f64>, longest: f64) -> u64 {
        let window = self.window.map_or(f64::INFINITY, f64::from);
        let cost = |length: f64| {
            self.token as f64 * length
                + self.pair as f64 * length * length
                + self.window_pair as f64 * length * length.min(window)
        };
        if self.counts_padding {
            (lengths.count() as f64 * cost(longest)) as u64
        } else {
            lengths.map(cost).sum::<f64>() as u64
        }
    }

    /// Adds the terms of rows that are padded to the longest.
    pub fn add_terms_of_rows(&self, sums: &mut CostTerms, lengths: &[u32], longest: u32) {
        let padded = |length: u32| if self.counts_padding { longest } else { length };
        let rows = lengths.iter().map(|length| padded(*length));
        Self { counts_padding: false, ..*self }.add_terms(sums, 0, rows);
    }

    fn terms(&self, tokens: u32) -> CostTerms {
        let all = u64::from(tokens);
        let near = u64::from(self.window.unwrap_or(u32::MAX).min(tokens));
        CostTerms { token: all, pair: all * all, window_pair: all * near, ..CostTerms::default() }
    }

    /// Adds the terms of a pack with these documents, which has room for `length` tokens.
    pub fn add_terms(
        &self,
        sums: &mut CostTerms,
        length: u32,
        documents: impl Iterator<Item = u32>,
    ) {
        let mut room = length;
        let mut add = |tokens: u32| {
            let CostTerms { token, pair, window_pair, .. } = self.terms(tokens);
            sums.token += token;
            sums.pair = sums.pair.saturating_add(pair);
            sums.window_pair = sums.window_pair.saturating_add(window_pair);
        };
        for tokens in documents {
            add(tokens);
            room = room.saturating_sub(tokens);
        }
        if self.counts_padding {
            add(room);
        }
    }

    /// The cost of the images and patches of all of these pieces.
    pub fn of_all_images(&self, pieces: impl Iterator<Item = (u32, u32)>) -> u64 {
        let cost = |(images, patches)| self.of_images(images, patches);
        pieces.map(cost).fold(0, u64::saturating_add)
    }

    /// Of the images of a piece of a document, which count as equally large.
    fn of_images(&self, images: u32, patches: u32) -> u64 {
        let (images, patches) = (u64::from(images), u64::from(patches));
        let pairs = patches * patches / images.max(1);
        self.image
            .saturating_mul(images)
            .saturating_add(self.patch.saturating_mul(patches))
            .saturating_add(self.patch_pair.saturating_mul(pairs))
    }

    /// Of the room after the last document.
    #[must_use]
    pub fn of_padding(&self, room: u32) -> u64 {
        if self.counts_padding { self.of_document(room) } else { 0 }
    }

    /// Of a pack with these documents, which has room for `length` tokens.
    #[must_use]
    pub fn of_pack(&self, length: u32, documents: impl Iterator<Item = u32>) -> u64 {
        let (mut cost, mut room) = (0u64, length);
        for tokens in documents {
            cost = cost.saturating_add(self.of_document(tokens));
            room = room.saturating_sub(tokens);
        }
        cost.saturating_add(self.of_padding(room))
    }
}

/// The sums over packs that a [`Cost`] multiplies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostTerms {
    pub token: u64,
    pub pair: u64,
    pub window_pair: u64,
    pub patch: u64,
    pub patch_pair: u64,
    pub image: u64,
}

/// Which packs come together in a step of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// Of all costs.
    Mixed,
    /// Of neighbouring ranks.
    Alike,
}

/// In what order packs come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    pub cost: Cost,
    /// Packs of a lane in an optimizer step.
    pub per_step: u32,
    /// At most [`MOST_WINDOW_PACKS`].
    pub window_packs: u32,
    pub within: Within,
    pub seed: i64,
    /// 0 for endless lanes.
    pub epoch: u64,
}

impl Balance {
    /// The number of the window of an endless lane that has a pack, and its packs.
    #[must_use]
    pub fn window_ahead(&self, pack: u64) -> (u64, Range<u64>) {
        let (all, step) = (u64::from(self.window_packs.max(1)), u64::from(self.per_step.max(1)));
        let mut start = 0;
        for (number, part) in (0..).zip(FIRST_WINDOWS) {
            let end = start + (all / part).div_ceil(step).max(1) * step;
            if pack < end {
                return (number, start..end);
            }
            start = end;
        }
        let full = (pack - start) / all;
        let start = start + full * all;
        (FIRST_WINDOWS.len() as u64 + full, start..start.saturating_add(all))
    }

    /// The order of the packs of a window, whose costs are given in the order of their numbers.
    #[must_use]
    pub fn aligned(&self, window: u64, costs: &[u64]) -> Vec<u32> {
        let dearest = from_dearest(costs);
        let at = |rank: u32| dearest.get(index(rank)).copied().unwrap_or(rank);
        self.ranks(window, costs.len()).into_iter().map(at).collect()
    }

    /// The rank of the pack at each place of a window; 0 is the dearest.
    fn ranks(&self, window: u64, packs: usize) -> Vec<u32> {
        let per_step = index(self.per_step.max(1));
        let groups = packs / per_step;
        let mut ranks = Vec::with_capacity(packs);
        for place in keyed_order(self.seed, self.epoch, window, groups) {
            ranks.extend((0..per_step).map(|band| match self.within {
                Within::Alike => place * per_step + band,
                Within::Mixed if band % 2 == 0 => band * groups + place,
                Within::Mixed => (band + 1) * groups - 1 - place,
            }));
        }
        // The cheapest of an incomplete group.
        ranks.extend(groups * per_step..packs);
        if per_step > 1 {
            let mut of_places = vec![0; packs];
            keys_of(self.seed, self.epoch, window).fill(PLACES, &mut of_places);
            let mut keyed: Vec<(u64, usize)> = of_places.into_iter().zip(ranks).collect();
            keyed.chunks_mut(per_step).for_each(<[_]>::sort_unstable);
            ranks = keyed.into_iter().map(|(_, rank)| rank).collect();
        }
        ranks.into_iter().map(|rank| u32::try_from(rank).unwrap_or(u32::MAX)).collect()
    }
}

/// The numbers of packs by falling cost, and by number where costs are equal.
fn from_dearest(costs: &[u64]) -> Vec<u32> {
    let number_bits = usize::BITS - costs.len().leading_zeros();
    let number = |key: u64| u32::try_from(key & ((1 << number_bits) - 1)).unwrap_or(u32::MAX);
    if costs.iter().all(|cost| cost.leading_zeros() >= number_bits) {
        // Cost and number in one word are sorted in half of the time.
        let mut keys: Vec<u64> =
            costs.iter().zip(0..).map(|(cost, pack)| !cost << number_bits | pack).collect();
        keys.sort_unstable();
        return keys.into_iter().map(number).collect();
    }
    let mut keys: Vec<(u64, u32)> = costs.iter().map(|cost| !cost).zip(0..).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, pack)| pack).collect()
}

/// The numbers below `len` in the order of the keys of a window.
pub(super) fn keyed_order(seed: i64, epoch: u64, window: u64, len: usize) -> Vec<usize> {
    let mut keys = vec![0; len];
    keys_of(seed, epoch, window).fill(0, &mut keys);
    let mut sorted: Vec<(u64, usize)> = keys.into_iter().zip(0..).collect();
    sorted.sort_unstable();
    let mut order = vec![0; len];
    for (place, (_, number)) in sorted.into_iter().enumerate() {
        order.get_mut(number).into_iter().for_each(|slot| *slot = place);
    }
    order
}

fn keys_of(seed: i64, epoch: u64, window: u64) -> Permutation {
    Permutation::new(KEYS, seed, epoch, Purpose::Balance { window })
}

/// Which pack of a lane comes at which place; the packs in their order by default.
#[derive(Debug, Default)]
pub(super) struct PackOrder {
    window: usize,
    /// Counted from the start of the window.
    packs: Vec<u32>,
}

impl PackOrder {
    pub(super) fn pack(&self, place: usize) -> usize {
        self.packs.get(place).map_or(place, |pack| place - place % self.window + index(*pack))
    }

    /// The packs from a place on up to the end of its window, in any order, and that end; `None`
    /// if packs come in their order.
    pub(super) fn rest_of_window(
        &self,
        place: usize,
    ) -> Option<(impl Iterator<Item = usize>, usize)> {
        self.packs.get(place)?;
        let start = place - place % self.window;
        let end = (start + self.window).min(self.packs.len());
        let rest = self.packs.get(place..end).unwrap_or_default();
        Some((rest.iter().map(move |pack| start + index(*pack)), end))
    }

    /// The packs at these places as ascending runs.
    pub(super) fn runs(&self, places: Range<usize>) -> Vec<Range<usize>> {
        if self.packs.is_empty() {
            return vec![places];
        }
        let mut packs: Vec<usize> = places.map(|place| self.pack(place)).collect();
        packs.sort_unstable();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for pack in packs {
            match runs.last_mut() {
                Some(last) if last.end == pack => last.end += 1,
                _ => runs.push(pack..pack + 1),
            }
        }
        runs
    }
}

/// Finds the order of the packs of a lane from their costs, window by window.
#[derive(Debug)]
pub(super) struct Ordering {
    balance: Balance,
    windows: u64,
    costs: Vec<u64>,
    packs: Vec<u32>,
}

impl Ordering {
    pub(super) fn new(balance: Balance) -> Self {
        Self { balance, windows: 0, costs: Vec::new(), packs: Vec::new() }
    }

    /// Of a piece of a row with its images.
    pub(super) fn of_row(&self, row: &Amount) -> u64 {
        let images = self.balance.cost.of_images(row.images, row.patches);
        self.balance.cost.of_document(row.tokens).saturating_add(images)
    }

    pub(super) fn of_rows(&self, lengths: impl Iterator<Item = f64>, longest: f64) -> u64 {
        self.balance.cost.of_rows(lengths, longest)
    }

    /// Adds the next pack, given the costs of its documents and its room.
    pub(super) fn push(&mut self, cost: u64, room: u32) {
        self.costs.push(cost.saturating_add(self.balance.cost.of_padding(room)));
        if self.costs.len() >= self.window() {
            self.end_window();
        }
    }

    pub(super) fn finish(mut self) -> PackOrder {
        self.end_window();
        self.packs.shrink_to_fit();
        PackOrder { window: self.window(), packs: self.packs }
    }

    fn end_window(&mut self) {
        self.packs.extend(self.balance.aligned(self.windows, &self.costs));
        self.costs.clear();
        self.windows += 1;
    }

    fn window(&self) -> usize {
        index(self.balance.window_packs.max(1))
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
