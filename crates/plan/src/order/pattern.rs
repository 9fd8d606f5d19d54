//! Maps positions of an epoch to the sources of their rows.
//!
//! Each lane is divided into windows. A window contains each source according to its weight,
//! rounded up or down; the rounding error is carried over to the following windows, so an epoch
//! ends with exactly the counts of the [`Blend`]. Within a window a keyed permutation mixes the
//! sources. The invariant: the source of a position depends only on blend, seed, epoch and lanes,
//! and looking it up costs one window.

use super::blend::{Blend, SpacedRows};
use super::{Lanes, Permutation, Purpose};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Rows of a window. Must never change: another number gives another order.
pub(super) const WINDOW_ROWS: u64 = 1024;

/// The source of each position of one epoch.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    grid: Grid,
    sources: usize,
    seed: i64,
    epoch: u64,
    /// Rows of each source before each window, window after window, and after the last one.
    drawn: Vec<u64>,
}

impl Pattern {
    pub(super) fn new(blend: &Blend, seed: i64, epoch: u64, lanes: u64) -> Self {
        let grid = Grid { lanes: Lanes::new(blend.rows(), lanes) };
        let mut ledger = Ledger::new(blend, epoch, grid.clone());
        for window in 0..grid.num_windows() {
            ledger.add(window);
        }
        ledger.settle();
        Self { grid, sources: blend.num_sources(), seed, epoch, drawn: ledger.drawn }
    }

    pub(super) fn num_rows(&self) -> u64 {
        self.grid.lanes.num_rows()
    }

    pub(super) fn lanes(&self) -> &Lanes {
        &self.grid.lanes
    }

    /// The window that holds a plan position.
    pub(super) fn window_of(&self, position: u64) -> usize {
        self.grid.window_of(position)
    }

    /// The plan positions of a window.
    pub(super) fn positions(&self, window: usize) -> Range<u64> {
        self.grid.positions(window)
    }

    /// Rows of each source before a window.
    pub(super) fn drawn(&self, window: usize) -> &[u64] {
        self.drawn.get(window * self.sources..(window + 1) * self.sources).unwrap_or_default()
    }

    /// The source of each position of a window.
    pub(super) fn sources(&self, window: usize) -> Vec<usize> {
        let positions = self.positions(window);
        let len = positions.end - positions.start;
        let mut ends = Vec::with_capacity(self.sources);
        let mut sum = 0;
        for (before, after) in self.drawn(window).iter().zip(self.drawn(window + 1)) {
            sum += after - before;
            ends.push(sum);
        }
        let mut places = vec![0; usize::try_from(len).unwrap_or_default()];
        Permutation::new(len, self.seed, self.epoch, Purpose::Pattern { window: window as u64 })
            .fill(0, &mut places);
        places.into_iter().map(|place| ends.partition_point(|end| *end <= place)).collect()
    }

    /// The plan positions of the windows that draw these rows of a source,
    /// counted within the epoch.
    pub(super) fn span(&self, source: usize, draws: Range<u64>) -> Range<u64> {
        let end = self.num_rows();
        if draws.is_empty() {
            return end..end;
        }
        let (first, last) =
            (self.window_of_draw(source, draws.start), self.window_of_draw(source, draws.end - 1));
        self.positions(first).start..self.positions(last).end.max(self.positions(first).start)
    }

    fn window_of_draw(&self, source: usize, draw: u64) -> usize {
        let (mut low, mut high) = (0, self.grid.num_windows().saturating_sub(1));
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.drawn(middle + 1).get(source).is_some_and(|drawn| *drawn > draw) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// Windows of all lanes, numbered in plan order. They start again with each lane.
#[derive(Debug, Clone)]
struct Grid {
    lanes: Lanes,
}

impl Grid {
    /// Windows of a longer lane, of a shorter one, and how many lanes are longer.
    fn shape(&self) -> (u64, u64, u64) {
        let (each, longer) = (
            self.lanes.num_rows() / self.lanes.num_lanes(),
            self.lanes.num_rows() % self.lanes.num_lanes(),
        );
        ((each + 1).div_ceil(WINDOW_ROWS), each.div_ceil(WINDOW_ROWS), longer)
    }

    fn num_windows(&self) -> usize {
        small(self.first_window(self.lanes.num_lanes()))
    }

    fn first_window(&self, lane: u64) -> u64 {
        let (of_longer, of_shorter, longer) = self.shape();
        lane.min(longer) * of_longer + lane.saturating_sub(longer) * of_shorter
    }

    fn window_of(&self, position: u64) -> usize {
        let lane = self.lanes.lane_of(position);
        small(self.first_window(lane) + (position - self.lanes.positions(lane).start) / WINDOW_ROWS)
    }

    fn lane_of(&self, window: usize) -> u64 {
        let (of_longer, of_shorter, longer) = self.shape();
        let window = window as u64;
        if window < longer * of_longer {
            window / of_longer
        } else {
            longer + (window - longer * of_longer).checked_div(of_shorter).unwrap_or_default()
        }
    }

    fn positions(&self, window: usize) -> Range<u64> {
        let lane = self.lane_of(window);
        let positions = self.lanes.positions(lane);
        let start =
            positions.start + (window as u64).saturating_sub(self.first_window(lane)) * WINDOW_ROWS;
        start.min(positions.end)..(start + WINDOW_ROWS).min(positions.end)
    }
}

/// Assigns rows to each window, and tracks the rounding errors of the sources.
struct Ledger<'a> {
    blend: &'a Blend,
    epoch: u64,
    grid: Grid,
    drawn: Vec<u64>,
    /// For each source, over the scale of the blend: what it should have so far minus what it has.
    owed: Vec<i128>,
    /// Windows with equal length and key have the same shares.
    known: BTreeMap<(usize, u64), Parts>,
}

/// The shares of the sources in a window.
#[derive(Debug, Clone)]
struct Parts {
    whole: Vec<u64>,
    /// Fractional parts, over the scale of the blend.
    rest: Vec<u64>,
    /// Number of rows in the sum of the fractional parts.
    extra: usize,
}

impl<'a> Ledger<'a> {
    fn new(blend: &'a Blend, epoch: u64, grid: Grid) -> Self {
        let sources = blend.num_sources();
        Self {
            blend,
            epoch,
            grid,
            drawn: vec![0; sources],
            owed: vec![0; sources],
            known: BTreeMap::new(),
        }
    }

    fn parts(&mut self, window: usize) -> Parts {
        let (lanes, positions) = (&self.grid.lanes, self.grid.positions(window));
        let lane = self.grid.lane_of(window);
        let place = (positions.start - lanes.positions(lane).start) * lanes.num_lanes() + lane;
        let first = u128::from(self.epoch) * u128::from(self.blend.rows()) + u128::from(place);
        let rows =
            SpacedRows { first, step: lanes.num_lanes(), len: positions.end - positions.start };
        let key = self.blend.key(rows).map(|key| (key, rows.len));
        if let Some(known) = key.and_then(|key| self.known.get(&key)) {
            return known.clone();
        }
        let scale = u128::from(self.blend.scale());
        let quotas = self.blend.quotas(rows);
        let whole: Vec<u64> =
            quotas.iter().map(|quota| u64::try_from(quota / scale).unwrap_or(u64::MAX)).collect();
        let rest =
            quotas.iter().map(|quota| u64::try_from(quota % scale).unwrap_or_default()).collect();
        let parts =
            Parts { extra: small(rows.len.saturating_sub(whole.iter().sum())), whole, rest };
        if let Some(key) = key {
            self.known.insert(key, parts.clone());
        }
        parts
    }

    fn add(&mut self, window: usize) {
        let parts = self.parts(window);
        let scale = i128::from(self.blend.scale());
        self.owed.iter_mut().zip(&parts.rest).for_each(|(owed, rest)| *owed += i128::from(*rest));
        let mut waiting: Vec<usize> = (0..parts.rest.len())
            .filter(|source| parts.rest.get(*source).is_some_and(|rest| *rest > 0))
            .collect();
        waiting.sort_unstable_by_key(|source| {
            (Reverse(self.owed.get(*source).copied().unwrap_or_default()), *source)
        });
        waiting.truncate(parts.extra);
        let before = self.drawn.len() - parts.whole.len();
        for (source, whole) in parts.whole.iter().enumerate() {
            let drawn = self.drawn.get(before + source).copied().unwrap_or_default();
            self.drawn.push(drawn + whole);
        }
        for source in waiting {
            self.change(window + 1, source, 1);
            if let Some(owed) = self.owed.get_mut(source) {
                *owed -= scale;
            }
        }
    }

    /// Moves rows from sources that ended with too many to those with too few, in windows where one
    /// was rounded up and the other down.
    fn settle(&mut self) {
        let windows = self.grid.num_windows();
        let wanted = self.blend.counts(self.epoch);
        while let Some(rich) = (0..wanted.len()).find(|source| {
            self.count(0..windows, *source) > wanted.get(*source).copied().unwrap_or_default()
        }) {
            let is_poor = |source: usize| {
                self.count(0..windows, source) < wanted.get(source).copied().unwrap_or_default()
            };
            let poor: Vec<usize> = (0..wanted.len()).filter(|source| is_poor(*source)).collect();
            let Some(swaps) = self.way(rich, &poor).or_else(|| self.last_resort(rich, &poor))
            else {
                return;
            };
            for (window, from, to) in swaps {
                for later in window + 1..=windows {
                    self.change(later, from, -1);
                    self.change(later, to, 1);
                }
            }
        }
    }

    /// The shortest chain of row swaps, each within one window, that leads
    /// from a source to one of `goals`.
    fn way(&mut self, from: usize, goals: &[usize]) -> Option<Vec<(usize, usize, usize)>> {
        let mut reached: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        let mut waiting = VecDeque::from([from]);
        while let Some(source) = waiting.pop_front() {
            if goals.contains(&source) {
                let mut swaps = Vec::new();
                let mut to = source;
                while let Some((window, before)) = reached.get(&to).filter(|_| to != from) {
                    swaps.push((*window, *before, to));
                    to = *before;
                }
                return Some(swaps);
            }
            for next in 0..self.owed.len() {
                if next == from || reached.contains_key(&next) {
                    continue;
                }
                if let Some(window) = (0..self.grid.num_windows())
                    .rev()
                    .find(|window| self.can_swap(*window, source, next))
                {
                    reached.insert(next, (window, source));
                    waiting.push_back(next);
                }
            }
        }
        None
    }

    fn can_swap(&mut self, window: usize, from: usize, to: usize) -> bool {
        let parts = self.parts(window);
        let is_up = |source: usize| {
            self.count(window..window + 1, source)
                > parts.whole.get(source).copied().unwrap_or_default()
        };
        is_up(from) && !is_up(to) && parts.rest.get(to).is_some_and(|rest| *rest > 0)
    }

    /// Exact counts take precedence over evenness.
    fn last_resort(&self, from: usize, goals: &[usize]) -> Option<Vec<(usize, usize, usize)>> {
        let to = *goals.first()?;
        let window = (0..self.grid.num_windows())
            .rev()
            .find(|window| self.count(*window..window + 1, from) > 0)?;
        Some(vec![(window, from, to)])
    }

    fn count(&self, windows: Range<usize>, source: usize) -> u64 {
        let drawn = |window: usize| {
            self.drawn.get(window * self.owed.len() + source).copied().unwrap_or_default()
        };
        drawn(windows.end).saturating_sub(drawn(windows.start))
    }

    fn change(&mut self, window: usize, source: usize, by: i64) {
        if let Some(drawn) = self.drawn.get_mut(window * self.owed.len() + source) {
            *drawn = drawn.saturating_add_signed(by);
        }
    }
}

fn small(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(pattern: &Pattern, window: usize) -> Vec<u64> {
        pattern
            .drawn(window)
            .iter()
            .zip(pattern.drawn(window + 1))
            .map(|(before, after)| after - before)
            .collect()
    }

    fn windows(pattern: &Pattern) -> Range<usize> {
        0..pattern.grid.num_windows()
    }

    proptest! {
        #[test]
        fn windows_tile_the_plan_lane_by_lane(rows in 0u64..20_000, lanes in 1u64..9) {
            let pattern = Pattern::new(&Blend::fixed(vec![rows]), 0, 0, lanes);
            let mut end = 0;
            for window in windows(&pattern) {
                let positions = pattern.positions(window);
                prop_assert_eq!(positions.start, end);
                prop_assert!(!positions.is_empty());
                prop_assert!(
                    [positions.start, positions.end - 1]
                        .into_iter()
                        .all(|position| pattern.window_of(position) == window)
                );
                prop_assert_eq!(
                    pattern.lanes().lane_of(positions.start),
                    pattern.lanes().lane_of(positions.end - 1)
                );
                end = positions.end;
            }
            prop_assert_eq!(end, rows);
        }

        #[test]
        fn every_window_is_within_a_row_of_the_weights_and_the_epoch_is_exact(
            counts_wanted in prop::collection::vec(0u64..6_000, 1..9),
            lanes in 1u64..6,
            seed: i64,
        ) {
            let blend = Blend::fixed(counts_wanted.clone());
            let pattern = Pattern::new(&blend, seed, 1, lanes);
            prop_assert_eq!(pattern.drawn(pattern.grid.num_windows()), counts_wanted.as_slice());
            for window in windows(&pattern) {
                let positions = pattern.positions(window);
                let len = positions.end - positions.start;
                let found = counts(&pattern, window);
                prop_assert_eq!(found.iter().sum::<u64>(), len);
                for (count, wanted) in found.iter().zip(&counts_wanted) {
                    let (count, quota) = (
                        u128::from(*count) * u128::from(blend.rows()),
                        u128::from(*wanted) * u128::from(len),
                    );
                    prop_assert!(
                        count.abs_diff(quota) < u128::from(blend.rows()),
                        "{count} {quota}"
                    );
                }
                let mut placed = vec![0; found.len()];
                pattern.sources(window).into_iter().for_each(|source| placed[source] += 1);
                prop_assert_eq!(placed, found);
            }
        }

        #[test]
        fn stages_end_with_the_counts_of_their_epoch(
            weights in prop::collection::vec(prop::collection::vec(0u64..9, 3), 3),
            is_linear: bool,
            lanes in 1u64..5,
            epoch in 0u64..4,
            rows in 1u64..9_000,
        ) {
            let stages: Vec<(u64, Vec<u64>)> = (0..)
                .step_by(5_000)
                .zip(weights.into_iter().map(|mut weights| {
                    weights[1] += 1;
                    weights
                }))
                .collect();
            let blend = Blend::staged(rows, &stages, is_linear);
            let pattern = Pattern::new(&blend, 3, epoch, lanes);
            prop_assert_eq!(pattern.drawn(pattern.grid.num_windows()), blend.counts(epoch));
            prop_assert!(
                windows(&pattern)
                    .all(|window| pattern.sources(window).iter().all(|source| *source < 3))
            );
        }

        #[test]
        fn spans_hold_the_windows_that_draw_them(
            counts_wanted in prop::collection::vec(0u64..4_000, 2..4),
            lanes in 1u64..4,
            source in 0usize..2,
            start in 0u64..4_000,
            len in 1u64..900,
        ) {
            let pattern = Pattern::new(&Blend::fixed(counts_wanted.clone()), 1, 0, lanes);
            let draws = start.min(counts_wanted[source])..(start + len).min(counts_wanted[source]);
            let span = pattern.span(source, draws.clone());
            let mut drawn = 0;
            for position in 0..pattern.num_rows() {
                let window = pattern.window_of(position);
                let place = usize::try_from(position - pattern.positions(window).start).unwrap();
                if pattern.sources(window).get(place) == Some(&source) {
                    prop_assert!(!draws.contains(&drawn) || span.contains(&position));
                    drawn += 1;
                }
                if place > 40 {
                    break;
                }
            }
        }
    }

    #[test]
    fn rows_that_rounding_left_with_the_wrong_source_are_moved_within_the_bounds_of_their_windows()
    {
        let blend = Blend::fixed(vec![1_500, 1_501, 1_502, 800]);
        let grid = Grid { lanes: Lanes::new(blend.rows(), 1) };
        let mut ledger = Ledger::new(&blend, 0, grid.clone());
        (0..grid.num_windows()).for_each(|window| ledger.add(window));
        // As if the last windows had been rounded in favour of one source.
        let swap = (0..grid.num_windows()).find(|window| ledger.can_swap(*window, 0, 3)).unwrap();
        for later in swap + 1..=grid.num_windows() {
            ledger.change(later, 0, -1);
            ledger.change(later, 3, 1);
        }
        assert_eq!(ledger.count(0..grid.num_windows(), 3), 801);
        ledger.settle();
        assert_eq!(
            (0..4).map(|source| ledger.count(0..grid.num_windows(), source)).collect::<Vec<_>>(),
            blend.counts(0)
        );
        for window in 0..grid.num_windows() {
            let parts = ledger.parts(window);
            let over: Vec<u64> = (0..4)
                .map(|source| ledger.count(window..window + 1, source) - parts.whole[source])
                .collect();
            assert!(over.iter().all(|over| *over <= 1), "{over:?}");
        }
    }

    #[test]
    fn sources_are_mixed_within_a_window() {
        let pattern = Pattern::new(&Blend::fixed(vec![512, 512]), 7, 0, 1);
        let sources = pattern.sources(0);
        let changes = sources.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((420..600).contains(&changes), "{changes}");
    }
}
