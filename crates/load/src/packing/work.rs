//! The work of packs by the cost of a balance, and how equal it is over ranks.

use super::amounts::{Shapes, patches};
use super::explain::is_shown;
use super::figures::{Figures, KnownWork, PackWork, Part};
use super::packs::RowIds;
use super::{AheadEpoch, Contents, DOCUMENT_LENGTHS, DrawnPacks, Lengths, PADDED_LENGTHS, Packs};
use crate::images::Shape;
use crate::sequences::IMAGE_INDEX;
use crate::{Result, RowSet};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use shardmill_engine::Cancel;
use shardmill_plan::order::{RowOrder, Steps};
use shardmill_plan::packing::{Amount, Balance, CostTerms, PackPlan, Packing, Piece, Row};
use std::collections::HashMap;

/// The effect of a balance, and the costs of a step. With endless lanes, the figures are those of
/// the windows of the step.
#[derive(Debug, Clone, Default)]
pub struct BalanceReport {
    /// Of each rank in the step; empty after the last one.
    pub rank_costs: Vec<u64>,
    pub figures: Figures,
}

/// What the work of packs is computed from.
#[derive(Debug, Clone, Copy)]
pub struct WorkOf<'a> {
    pub rows: &'a RowSet,
    pub order: &'a RowOrder,
    pub balance: Balance,
    pub packing: &'a Packing,
    /// The source of each block of a mixture.
    pub sources: &'a [usize],
}

/// A piece in a pack, and its source.
type Packed = (Piece, usize);

impl WorkOf<'_> {
    fn of(&self, pieces: &[Packed]) -> PackWork {
        // The token after a pack is in the next one.
        let documents = pieces.iter().filter(|(piece, _)| is_shown(*piece, self.packing));
        let lengths = documents.clone().map(|(piece, _)| (piece.count, piece.padded));
        let (packing, cost) = (self.packing, &self.balance.cost);
        let images = documents.clone().map(|(piece, _)| (piece.images, piece.patches));
        let images = cost.of_all_images(images);
        let mut work = PackWork {
            cost: packing.cost_of(cost, lengths).saturating_add(images),
            documents: documents.count() as u64,
            tokens_of_sources: Vec::new(),
        };
        for (piece, source) in pieces.iter().filter(|_| !self.sources.is_empty()) {
            if work.tokens_of_sources.len() <= *source {
                work.tokens_of_sources.resize(source + 1, 0);
            }
            let tokens = work.tokens_of_sources.get_mut(*source);
            let of_piece = u64::from(self.packing.unit().whole(piece.count));
            tokens.into_iter().for_each(|tokens| *tokens += of_piece);
        }
        work
    }

    fn source(&self, block: Option<usize>) -> usize {
        block.and_then(|block| self.sources.get(block)).copied().unwrap_or_default()
    }

    /// The work of all packs of an epoch, in the order in which they were packed.
    fn of_epoch(&self, plan: &PackPlan, lengths: &Lengths) -> Vec<PackWork> {
        let mut works = vec![PackWork::default(); small(plan.num_packs())];
        let ids = RowIds::new(self.rows, self.order);
        for lane in 0..plan.row_lanes().num_lanes() {
            let positions = plan.row_lanes().positions(lane);
            let start = positions.start;
            let mut of_rows: Vec<(Row<'_>, usize)> = Vec::new();
            self.order.for_each(positions, |scheduled, row| {
                let source = self.source(self.order.block(scheduled));
                of_rows.push((lengths.row(ids.id(scheduled, row)), source));
            });
            let row = |position: u64| of_rows.get(small(position - start)).copied();
            for pack in plan.lanes().positions(lane) {
                let mut pieces = Vec::new();
                plan.for_each_piece(
                    pack,
                    |position| row(position).unwrap_or_default().0,
                    |piece| pieces.push((piece, row(piece.position).unwrap_or_default().1)),
                );
                if let Some(work) = works.get_mut(small(plan.packed_as(pack))) {
                    *work = self.of(&pieces);
                }
            }
        }
        works
    }

    /// The report of an epoch.
    #[must_use]
    pub fn report(
        &self,
        (plan, lengths, known): (&PackPlan, &Lengths, &KnownWork),
        steps: &Steps,
        step: u64,
    ) -> BalanceReport {
        let works = known.packs.get_or_init(|| self.of_epoch(plan, lengths));
        let part = Part { steps, places: 0..steps.end(0), packs: self.per_step(steps) };
        let packed = |number: u64| works.get(small(number));
        let balanced = |number: u64| packed(plan.packed_as(number));
        let of = (steps.batch_size, steps.world_size, steps.tail);
        let mut kept = known.figures.lock();
        if kept.as_ref().is_none_or(|(known, _)| *known != of) {
            *kept = Some((of, part.figures(&balanced, &packed)));
        }
        let figures = kept.as_ref().map(|(_, figures)| figures.clone()).unwrap_or_default();
        BalanceReport { rank_costs: part.costs_at(step, &balanced), figures }
    }

    /// The report of the windows of a step of endless lanes.
    ///
    /// # Errors
    /// When tokens cannot be counted, or rows cannot be packed.
    pub fn report_ahead(
        &self,
        epoch: &AheadEpoch,
        steps: &Steps,
        step: u64,
        cancel: &Cancel,
    ) -> Result<BalanceReport> {
        let Some(own) = (step < steps.remaining(0))
            .then(|| steps.step(step.saturating_mul(steps.global_batch())))
            .flatten()
        else {
            return Ok(BalanceReport::default());
        };
        let places = epoch.windows_of(self.balance, own.start..own.start + own.len);
        let numbers: Vec<u64> = steps.lanes.runs(places.clone()).into_iter().flatten().collect();
        let work_of = |cursors: &mut HashMap<_, _>| -> Result<HashMap<u64, PackWork>> {
            let mut drawn = DrawnPacks::default();
            epoch.draw(cursors, numbers.iter().copied(), &mut drawn, cancel)?;
            let of_pack = |pieces: &[(Piece, Amount)]| {
                let source = |position| self.order.at(position).map(|(block, _)| block);
                let pieces: Vec<Packed> = pieces
                    .iter()
                    .map(|(piece, _)| (*piece, self.source(source(piece.position))))
                    .collect();
                self.of(&pieces)
            };
            Ok(numbers.iter().copied().zip(drawn.packs().map(of_pack)).collect())
        };
        let balanced = work_of(&mut HashMap::new())?;
        let packed = work_of(&mut epoch.unbalanced(&numbers)?)?;
        let part = Part { steps, places, packs: self.per_step(steps) };
        let balanced = |number: u64| balanced.get(&number);
        let packed = |number: u64| packed.get(&number);
        let figures = part.figures(&balanced, &packed);
        Ok(BalanceReport { rank_costs: part.costs_at(step, &balanced), figures })
    }

    /// Packs of an optimizer step.
    fn per_step(&self, steps: &Steps) -> u64 {
        steps.lanes.num_lanes().saturating_mul(u64::from(self.balance.per_step.max(1)))
    }
}

impl Packs {
    /// The terms of the cost of assembled packs, if they are balanced: sums for each batch, given
    /// the numbers of their packs.
    pub(crate) fn terms(
        &self,
        packs: &RecordBatch,
        batches: impl Iterator<Item = usize>,
    ) -> Vec<CostTerms> {
        let Contents::Tokens(columns) = &self.contents else {
            return self.terms_of_rows(packs, batches);
        };
        let has_padding = columns.has_padding;
        let documents = if has_padding { PADDED_LENGTHS } else { DOCUMENT_LENGTHS };
        let documents = packs.column_by_name(documents);
        let Some((balance, documents)) = self.source.balance().zip(documents) else {
            return Vec::new();
        };
        let mut lengths = documents.as_list::<i32>().iter();
        let index = packs.column_by_name(IMAGE_INDEX).and_then(|lists| lists.as_list_opt::<i32>());
        let shape = columns.images().and_then(|images| images.images.shape());
        let shapes =
            Shapes::of(shape, shape.map(Shape::name).and_then(|name| packs.column_by_name(name)));
        let mut numbers = 0..packs.num_rows();
        let of_batch = |packs: usize| {
            let mut sums = CostTerms::default();
            for documents in lengths.by_ref().take(packs).flatten() {
                let tokens = documents.as_primitive::<Int32Type>().values().iter();
                let tokens = tokens.map(|tokens| u32::try_from(*tokens).unwrap_or_default());
                balance.cost.add_terms(&mut sums, columns.length, tokens);
            }
            let patches =
                |pack| index.into_iter().flat_map(move |index| patches(index, shapes, pack));
            for patches in numbers.by_ref().take(packs).flat_map(patches) {
                sums.image += 1;
                sums.patch += patches;
                sums.patch_pair = sums.patch_pair.saturating_add(patches.saturating_mul(patches));
            }
            sums
        };
        batches.map(of_batch).collect()
    }
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
