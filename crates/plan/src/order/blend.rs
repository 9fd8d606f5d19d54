//! The number of rows of each source in an epoch, and their distribution over it.
//!
//! Either the counts are fixed, and each part of an epoch gets its even share of them; or weights
//! depend on the number of the row, counted over all epochs. Weights that were set during a run
//! replace them from an epoch on. All arithmetic is exact on integers, so that every machine
//! computes the same result.

use std::borrow::Cow;
use std::cmp::Reverse;

/// The weights of a stage add up to this.
const SCALE: u64 = 1 << 40;

/// The proportions of the sources in an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blend {
    rows: u64,
    sources: usize,
    shape: Shape,
    /// By epoch.
    changes: Vec<Change>,
}

/// Fixed counts from an epoch on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    epoch: u64,
    counts: Vec<u64>,
    /// Rows of each source in all epochs before it.
    before: Vec<u128>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    /// Rows of each source, the same in every epoch.
    Fixed(Vec<u64>),
    Stages {
        stages: Vec<Stage>,
        /// Interpolate weights linearly between stages; otherwise they change abruptly.
        is_linear: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stage {
    start: u64,
    weights: Vec<u64>,
}

/// Rows of the global sequence, counted over all epochs: `len` of them, `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpacedRows {
    pub(super) first: u128,
    pub(super) step: u64,
    pub(super) len: u64,
}

impl Blend {
    /// Fixed counts for each source in every epoch.
    #[must_use]
    pub fn fixed(counts: Vec<u64>) -> Self {
        Self {
            rows: counts.iter().sum(),
            sources: counts.len(),
            shape: Shape::Fixed(counts),
            changes: Vec::new(),
        }
    }

    /// `rows` in every epoch, divided by weight.
    #[must_use]
    pub fn weighted(rows: u64, weights: &[u64]) -> Self {
        Self::fixed(apportioned(rows, weights))
    }

    /// `rows` in every epoch; the weights of a stage apply from its row on, or are reached there.
    /// Those of the first stage also apply before it.
    #[must_use]
    pub fn staged(rows: u64, stages: &[(u64, Vec<u64>)], is_linear: bool) -> Self {
        let sources = stages.first().map_or(0, |(_, weights)| weights.len());
        let stages = stages
            .iter()
            .map(|(start, weights)| Stage { start: *start, weights: apportioned(SCALE, weights) })
            .collect();
        Self { rows, sources, shape: Shape::Stages { stages, is_linear }, changes: Vec::new() }
    }

    /// As [`Self::staged`]. A single stage fixes the counts of every epoch: they are its weights,
    /// if these add up to `rows`.
    #[must_use]
    pub fn of_stages(rows: u64, stages: &[(u64, Vec<u64>)], is_linear: bool) -> Self {
        match stages {
            [(_, weights)] => Self::weighted(rows, weights),
            stages => Self::staged(rows, stages, is_linear),
        }
    }

    /// The same before `epoch`, and other weights from there on. `before` are the rows of each
    /// source in all epochs before it, unless they follow from this blend.
    #[must_use]
    pub fn reweighted(mut self, epoch: u64, weights: &[u64], before: Option<Vec<u128>>) -> Self {
        let before = before.unwrap_or_else(|| self.counts_before(epoch));
        self.changes.retain(|change| change.epoch < epoch);
        self.changes.push(Change { epoch, counts: apportioned(self.rows, weights), before });
        self
    }

    /// Number of rows of one epoch.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    #[must_use]
    pub fn num_sources(&self) -> usize {
        self.sources
    }

    /// Rows of each source in an epoch.
    #[must_use]
    pub fn counts(&self, epoch: u64) -> Vec<u64> {
        if let Some(change) = self.change(epoch) {
            return change.counts.clone();
        }
        match &self.shape {
            Shape::Fixed(counts) => counts.clone(),
            Shape::Stages { .. } => {
                let rows = SpacedRows {
                    first: u128::from(epoch) * u128::from(self.rows),
                    step: 1,
                    len: self.rows,
                };
                rounded(&self.quotas(rows), self.scale(), self.rows)
            }
        }
    }

    /// Rows of each source in all epochs before this one.
    #[must_use]
    pub fn counts_before(&self, epoch: u64) -> Vec<u128> {
        let times = |counts: Vec<u64>, epochs: u64| -> Vec<u128> {
            counts.into_iter().map(|count| u128::from(count) * u128::from(epochs)).collect()
        };
        if let Some(Change { epoch: start, counts, before }) = self.change(epoch) {
            let since = times(counts.clone(), epoch - start);
            return before.iter().zip(since).map(|(before, since)| before + since).collect();
        }
        let stages = match &self.shape {
            Shape::Fixed(counts) => return times(counts.clone(), epoch),
            Shape::Stages { stages, .. } => stages,
        };
        // After the last stage all epochs are alike.
        let settled = stages.last().map_or(0, |last| last.start.div_ceil(self.rows.max(1)));
        let mut before = match epoch.checked_sub(settled) {
            Some(epochs) if epochs > 0 => times(self.counts(settled), epochs),
            _ => vec![0; self.sources],
        };
        for earlier in 0..epoch.min(settled) {
            before
                .iter_mut()
                .zip(self.counts(earlier))
                .for_each(|(sum, count)| *sum += u128::from(count));
        }
        before
    }

    /// The proportions in an epoch.
    pub(super) fn of_epoch(&self, epoch: u64) -> Cow<'_, Self> {
        self.change(epoch)
            .map_or(Cow::Borrowed(self), |change| Cow::Owned(Self::fixed(change.counts.clone())))
    }

    fn change(&self, epoch: u64) -> Option<&Change> {
        self.changes.iter().rev().find(|change| change.epoch <= epoch)
    }

    /// The largest share of each source at any time, over [`Blend::scale`], unless weights were set
    /// during the run.
    pub(super) fn largest_parts(&self) -> Vec<u64> {
        match &self.shape {
            Shape::Fixed(counts) => counts.clone(),
            Shape::Stages { stages, .. } => {
                let weight = |source: usize, stage: &Stage| {
                    stage.weights.get(source).copied().unwrap_or_default()
                };
                (0..self.sources)
                    .map(|source| {
                        stages.iter().map(|stage| weight(source, stage)).max().unwrap_or_default()
                    })
                    .collect()
            }
        }
    }

    /// The unit of quotas: this much is one row.
    pub(super) fn scale(&self) -> u64 {
        match &self.shape {
            Shape::Fixed(_) => self.rows.max(1),
            Shape::Stages { .. } => SCALE,
        }
    }

    /// Runs with equal length and key have equal quotas; `None` guarantees nothing.
    pub(super) fn key(&self, rows: SpacedRows) -> Option<usize> {
        let Shape::Stages { stages, is_linear } = &self.shape else { return Some(0) };
        let last = rows.first + u128::from(rows.step) * u128::from(rows.len.saturating_sub(1));
        let stage_of =
            |row: u128| stages.partition_point(|stage| u128::from(stage.start) <= row).max(1);
        let (first, last) = (stage_of(rows.first), stage_of(last));
        (first == last && (!is_linear || last >= stages.len())).then_some(last)
    }

    /// The quota of each source of these rows, over [`Blend::scale`];
    /// the sum is exactly their number.
    pub(super) fn quotas(&self, rows: SpacedRows) -> Vec<u128> {
        match &self.shape {
            Shape::Fixed(counts) => {
                counts.iter().map(|count| u128::from(*count) * u128::from(rows.len)).collect()
            }
            Shape::Stages { stages, is_linear } => {
                let mut quotas = vec![0; self.sources];
                for (number, stage) in stages.iter().enumerate() {
                    let start = if number == 0 { 0 } else { stage.start };
                    let next = stages.get(number + 1);
                    let (from, to) =
                        (rows.before(start), next.map_or(rows.len, |next| rows.before(next.start)));
                    let toward = next.filter(|next| *is_linear && next.start > start);
                    stage.add_quotas(&mut quotas, rows.part(from, to), start, toward);
                }
                quotas
            }
        }
    }
}

impl Stage {
    fn add_quotas(&self, quotas: &mut [u128], rows: SpacedRows, start: u64, toward: Option<&Self>) {
        if rows.len == 0 {
            return;
        }
        let Some(next) = toward else {
            quotas
                .iter_mut()
                .zip(&self.weights)
                .for_each(|(quota, weight)| *quota += u128::from(*weight) * u128::from(rows.len));
            return;
        };
        // The summed distances of the rows from the start.
        let first = rows.first.saturating_sub(u128::from(start));
        let len = u128::from(rows.len);
        let offsets = first
            .saturating_mul(len)
            .saturating_add((len * (len - 1) / 2).saturating_mul(u128::from(rows.step)));
        let width = u128::from(next.start - start);
        let mut left = len * u128::from(SCALE);
        for ((quota, from), to) in quotas.iter_mut().zip(&self.weights).zip(&next.weights) {
            let moved = offsets.saturating_mul(u128::from(from.abs_diff(*to)));
            let flat = len * u128::from(*from);
            // Always rounded down, so that the sum never exceeds the total.
            let part = if to >= from {
                flat + moved / width
            } else {
                flat.saturating_sub(moved.div_ceil(width))
            }
            .min(left);
            *quota += part;
            left -= part;
        }
        // The rounding remainder goes to the largest source, so a source
        // with weight zero gets nothing.
        let heaviest = (0..quotas.len()).max_by_key(|source| {
            self.weights.get(*source).copied().unwrap_or(0)
                + next.weights.get(*source).copied().unwrap_or(0)
        });
        if let Some(quota) = heaviest.and_then(|source| quotas.get_mut(source)) {
            *quota += left;
        }
    }
}

impl SpacedRows {
    /// The number of rows before row `bound`.
    fn before(self, bound: u64) -> u64 {
        let places =
            u128::from(bound).saturating_sub(self.first).div_ceil(u128::from(self.step.max(1)));
        u64::try_from(places).unwrap_or(u64::MAX).min(self.len)
    }

    fn part(self, from: u64, to: u64) -> Self {
        Self {
            first: self.first + u128::from(self.step) * u128::from(from),
            step: self.step,
            len: to.saturating_sub(from),
        }
    }
}

/// Divides `total` by weight: integer parts first, then the rest by the largest remainders, the
/// earlier first.
fn apportioned(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum = weights.iter().map(|weight| u128::from(*weight)).sum::<u128>().max(1);
    let scaled: Vec<u128> =
        weights.iter().map(|weight| u128::from(*weight) * u128::from(total)).collect();
    parts(&scaled, sum, total)
}

fn rounded(quotas: &[u128], scale: u64, total: u64) -> Vec<u64> {
    parts(quotas, u128::from(scale), total)
}

fn parts(quotas: &[u128], scale: u128, total: u64) -> Vec<u64> {
    let mut parts: Vec<u64> =
        quotas.iter().map(|quota| u64::try_from(quota / scale).unwrap_or(u64::MAX)).collect();
    let mut by_rest: Vec<usize> = (0..quotas.len()).collect();
    by_rest.sort_by_key(|source| {
        (Reverse(quotas.get(*source).map_or(0, |quota| quota % scale)), *source)
    });
    let left = total.saturating_sub(parts.iter().sum());
    for source in by_rest.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        if let Some(part) = parts.get_mut(source) {
            *part += 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_weights_leave_goes_to_the_largest_remainders() {
        assert_eq!(Blend::weighted(10, &[1, 1, 1]).counts(3), [4, 3, 3]);
        assert_eq!(Blend::weighted(1000, &[7, 3, 0]).counts(0), [700, 300, 0]);
        assert_eq!(Blend::weighted(u64::MAX >> 1, &[1, 0]).counts(0), [u64::MAX >> 1, 0]);
    }

    #[test]
    fn stages_change_the_counts_of_the_epochs_that_they_fall_into() {
        let blend =
            Blend::staged(100, &[(0, vec![1, 0]), (150, vec![1, 1]), (200, vec![0, 1])], false);
        assert_eq!(
            [0, 1, 2, 9].map(|epoch| blend.counts(epoch)),
            [[100, 0], [75, 25], [0, 100], [0, 100]]
        );
        assert_eq!(blend.counts_before(5), [175, 325]);
    }

    #[test]
    fn weights_that_are_set_replace_those_of_later_epochs() {
        let given = Blend::staged(100, &[(0, vec![1, 0]), (250, vec![1, 1])], false);
        let blend = given.clone().reweighted(2, &[0, 7], None).reweighted(4, &[1, 3], None);
        assert_eq!(
            [0, 1, 2, 3, 4, 9].map(|epoch| blend.counts(epoch)),
            [[100, 0], [100, 0], [0, 100], [0, 100], [25, 75], [25, 75]]
        );
        assert_eq!(blend.counts_before(1), [100, 0]);
        assert_eq!(blend.counts_before(6), [250, 350]);
        let known = given.clone().reweighted(4, &[1, 3], Some(vec![200, 200]));
        assert_eq!(known.counts_before(6), blend.counts_before(6));
        assert_eq!(
            blend.reweighted(2, &[1, 1], None),
            given.reweighted(2, &[1, 1], None),
            "earlier calls for the same epoch and later ones do not count"
        );
    }

    #[test]
    fn weights_that_move_evenly_are_halfway_in_the_middle() {
        let blend = Blend::staged(1000, &[(0, vec![1, 0]), (1000, vec![0, 1])], true);
        assert_eq!(blend.counts(0), [501, 499], "the first row is still of the first source alone");
        let half = blend.quotas(SpacedRows { first: 0, step: 1, len: 500 });
        assert_eq!(half.iter().map(|quota| quota >> 40).collect::<Vec<_>>(), [375, 124]);
        assert_eq!(blend.counts(1), [0, 1000]);
    }

    proptest! {
        #[test]
        fn quotas_are_those_of_the_rows_one_by_one(
            starts in prop::collection::btree_set(1u64..300, 0..4),
            weights in prop::collection::vec(prop::collection::vec(0u64..9, 3), 5),
            is_linear: bool,
            first in 0u64..300,
            step in 1u64..5,
            len in 0u64..60,
        ) {
            let starts: Vec<u64> = std::iter::once(0).chain(starts).collect();
            let stages: Vec<(u64, Vec<u64>)> = starts
                .iter()
                .copied()
                .zip(weights.into_iter().map(|mut weights| {
                    weights[0] += 1;
                    weights
                }))
                .collect();
            let blend = Blend::staged(1000, &stages, is_linear);
            let quotas = blend.quotas(SpacedRows { first: u128::from(first), step, len });
            prop_assert_eq!(quotas.iter().sum::<u128>(), u128::from(len) * u128::from(SCALE));
            for (source, quota) in quotas.iter().enumerate() {
                let mut expected = 0.0;
                for row in (0..len).map(|place| first + place * step) {
                    let number = starts.iter().rposition(|start| *start <= row).unwrap();
                    let part = |number: usize| {
                        stages[number].1[source] as f64
                            / stages[number].1.iter().sum::<u64>() as f64
                    };
                    expected += match (is_linear, starts.get(number + 1)) {
                        (true, Some(next)) => {
                            let way =
                                (row - starts[number]) as f64 / (next - starts[number]) as f64;
                            part(number) * (1.0 - way) + part(number + 1) * way
                        }
                        _ => part(number),
                    };
                }
                prop_assert!((*quota as f64 / SCALE as f64 - expected).abs() < 1e-6);
            }
        }
    }
}
