//! How equal the work of ranks is over steps whose packs are known.

use shardmill_plan::order::{StepRows, Steps, Tail};
use shardmill_storage::Remembered;
use std::iter::{repeat, repeat_n};
use std::ops::Range;
use std::sync::OnceLock;

/// Batch size, number of ranks and tail.
type Shape = (u64, u64, Tail);

/// The work of the packs of an epoch, once it is asked for.
#[derive(Debug, Default)]
pub struct KnownWork {
    /// In the order in which they were packed.
    pub(super) packs: OnceLock<Vec<PackWork>>,
    /// Of the last shape that was asked for.
    pub(super) figures: Remembered<Option<(Shape, Figures)>>,
}

/// One pack.
#[derive(Debug, Clone, Default)]
pub struct PackWork {
    pub(super) cost: u64,
    pub(super) documents: u64,
    /// Tokens of each source of a mixture.
    pub(super) tokens_of_sources: Vec<u64>,
}

/// How equal the work of ranks is in steps.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Imbalance {
    /// The sum of the largest costs, relative to that of the mean costs: what ranks wait for.
    pub mean: f64,
    /// Of the step with the largest ratio.
    pub worst: f64,
}

/// Bounds of what optimizer steps consist of.
#[derive(Debug, Clone, Default)]
pub struct StepMix {
    /// Per pack.
    pub documents: (f64, f64),
    /// The share of tokens of each source of a mixture.
    pub shares: Vec<(f64, f64)>,
}

/// The figures of one order of packs.
#[derive(Debug, Clone, Default)]
pub struct OrderReport {
    pub all_steps: Imbalance,
    pub before_first_end: Imbalance,
    pub mix: StepMix,
}

/// How equal steps are in both orders.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub balanced: OrderReport,
    /// Of the order in which they are packed.
    pub as_packed: OrderReport,
    /// Steps that are not before the end of the first lane.
    pub steps_after_first_end: u64,
}

/// Steps whose packs are known.
pub(super) struct Part<'a> {
    pub(super) steps: &'a Steps,
    pub(super) places: Range<u64>,
    /// Of an optimizer step.
    pub(super) packs: u64,
}

pub(super) type ByNumber<'a> = &'a dyn Fn(u64) -> Option<&'a PackWork>;

impl Part<'_> {
    pub(super) fn figures<'a>(&self, balanced: ByNumber<'a>, packed: ByNumber<'a>) -> Figures {
        let first_end = self.first_end();
        let later = self.steps().filter(|step| step.start + step.len > first_end);
        Figures {
            balanced: self.of_order(balanced),
            as_packed: self.of_order(packed),
            steps_after_first_end: later.count() as u64,
        }
    }

    /// The costs of all ranks; none after the last step.
    pub(super) fn costs_at(&self, step: u64, work: ByNumber<'_>) -> Vec<u64> {
        let step = self.steps.step(step.saturating_mul(self.steps.global_batch()));
        step.map_or_else(Vec::new, |step| self.rank_costs(step, work))
    }

    fn steps(&self) -> impl Iterator<Item = StepRows> {
        let batch = self.steps.global_batch();
        let first = self.places.start.div_ceil(batch);
        (first..)
            .map_while(move |step| self.steps.step(step.saturating_mul(batch)))
            .take_while(|step| step.start + step.len <= self.places.end)
    }

    /// The place at which the first lane has ended.
    fn first_end(&self) -> u64 {
        let lanes = &self.steps.lanes;
        let lengths = (0..lanes.num_lanes()).map(|lane| lanes.positions(lane));
        let shortest = lengths.map(|packs| packs.end - packs.start).min().unwrap_or_default();
        shortest.saturating_mul(lanes.num_lanes())
    }

    fn rank_costs(&self, step: StepRows, work: ByNumber<'_>) -> Vec<u64> {
        let cost = |number: u64| work(number).map_or(0, |work| work.cost);
        let sum = |costs: &mut dyn Iterator<Item = u64>| costs.fold(0, u64::saturating_add);
        if step.len < self.steps.global_batch() {
            let of_rank = |rank| {
                let rows = self.steps.slice(step, rank).rows;
                sum(&mut rows.into_iter().flatten().map(cost))
            };
            return (0..self.steps.world_size).map(of_rank).collect();
        }
        let runs = self.steps.lanes.runs(step.start..step.start + step.len);
        let costs: Vec<u64> = runs.into_iter().flatten().map(cost).collect();
        let of_ranks = costs.chunks(small(self.steps.batch_size.max(1)));
        of_ranks.map(|costs| sum(&mut costs.iter().copied())).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn of_order(&self, work: ByNumber<'_>) -> OrderReport {
        let first_end = self.first_end();
        let (mut all, mut before) = (Sums::default(), Sums::default());
        for step in self.steps() {
            let costs = self.rank_costs(step, work);
            let largest = costs.iter().copied().max().unwrap_or_default() as f64;
            let sum: f64 = costs.iter().map(|cost| *cost as f64).sum();
            let mean = sum / costs.len().max(1) as f64;
            all.add(largest, mean);
            if step.start + step.len <= first_end {
                before.add(largest, mean);
            }
        }
        OrderReport {
            all_steps: all.ratios(),
            before_first_end: before.ratios(),
            mix: self.mix(work, first_end),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn mix(&self, work: ByNumber<'_>, first_end: u64) -> StepMix {
        let mut mix: Option<StepMix> = None;
        let mut start = self.places.start.div_ceil(self.packs) * self.packs;
        while start + self.packs <= self.places.end.min(first_end) {
            let (mut documents, mut tokens) = (0, Vec::<u64>::new());
            for number in self.steps.lanes.runs(start..start + self.packs).into_iter().flatten() {
                let Some(work) = work(number) else { continue };
                documents += work.documents;
                let missing = work.tokens_of_sources.len().saturating_sub(tokens.len());
                tokens.extend(repeat_n(0, missing));
                let sums = tokens.iter_mut().zip(&work.tokens_of_sources);
                sums.for_each(|(sum, more)| *sum += more);
            }
            let documents = documents as f64 / self.packs as f64;
            let all = tokens.iter().sum::<u64>().max(1) as f64;
            let shares: Vec<f64> = tokens.iter().map(|tokens| *tokens as f64 / all).collect();
            mix.get_or_insert_with(|| StepMix {
                documents: (documents, documents),
                shares: shares.iter().map(|share| (*share, *share)).collect(),
            })
            .add(documents, &shares);
            start += self.packs;
        }
        mix.unwrap_or_default()
    }
}

impl StepMix {
    fn add(&mut self, documents: f64, shares: &[f64]) {
        // A source without tokens so far has the share 0.
        let missing = shares.len().saturating_sub(self.shares.len());
        self.shares.extend(repeat_n((0.0, 0.0), missing));
        widen(&mut self.documents, documents);
        let later = shares.iter().copied().chain(repeat(0.0));
        self.shares.iter_mut().zip(later).for_each(|(bounds, share)| widen(bounds, share));
    }
}

fn widen(bounds: &mut (f64, f64), value: f64) {
    *bounds = (bounds.0.min(value), bounds.1.max(value));
}

#[derive(Debug, Default)]
struct Sums {
    largest: f64,
    mean: f64,
    worst: f64,
}

impl Sums {
    fn add(&mut self, largest: f64, mean: f64) {
        self.largest += largest;
        self.mean += mean;
        if mean > 0.0 {
            self.worst = self.worst.max(largest / mean);
        }
    }

    /// Without any work, it is equal.
    fn ratios(&self) -> Imbalance {
        let mean = if self.mean > 0.0 { self.largest / self.mean } else { 1.0 };
        Imbalance { mean, worst: self.worst.max(1.0) }
    }
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
