//! Batches of whole rows, in place of packs: which rows, and what a batch says about their lengths.

use super::columns::{LENGTHS, RowColumns};
use super::lists::TokenLists;
use super::{Contents, PackSource, Packs};
use crate::{Dataset, Result, RowSet};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{ArrayRef, Float32Array, Int32Array, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use shardmill_plan::order::RowOrder;
use shardmill_plan::packing::{CostTerms, PackPlan, Unit};
use std::ops::Range;
use std::sync::Arc;

/// The rows of a superbatch.
pub(crate) struct RowParts<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) rows: &'a RowSet,
    pub(crate) order: &'a RowOrder,
    /// Plan positions, in delivery order.
    pub(crate) positions: &'a [Range<u64>],
    /// Indices of the columns of `gathered`.
    pub(crate) columns: &'a [usize],
    pub(crate) gathered: RecordBatch,
}

impl Packs {
    /// The plan of batches whose rows stay rows.
    pub(crate) fn plan_of_rows(&self) -> Option<&PackPlan> {
        match &self.source {
            PackSource::Epoch { plan, .. } => {
                Some(&**plan).filter(|plan| plan.packing().keeps_rows())
            }
            PackSource::Ahead(_) => None,
        }
    }

    /// The gathered rows, with their lengths.
    pub(crate) fn with_lengths(&self, parts: RowParts<'_>) -> Result<RecordBatch> {
        let RowParts { positions, gathered, .. } = &parts;
        let PackSource::Epoch { plan, lengths, .. } = &self.source else {
            return Ok(parts.gathered);
        };
        let mut planned: Vec<u32> = Vec::with_capacity(gathered.num_rows());
        for run in positions.iter().cloned() {
            parts.order.for_each(run, |scheduled, row| {
                planned.push(lengths.of(parts.rows.id_at(parts.order, scheduled, row)));
            });
        }
        self.check_lengths(&parts, &planned)?;
        let (most, unit) = (plan.packing().most_of_row(), plan.packing().unit());
        let cut = planned.into_iter().map(|length| length.min(most));
        let lengths: ArrayRef = match unit {
            Unit::Tokens => {
                let whole = cut.map(|length| i32::try_from(length).unwrap_or(i32::MAX));
                Arc::new(whole.collect::<Int32Array>())
            }
            Unit::Float => Arc::new(cut.map(f32::from_bits).collect::<Float32Array>()),
        };
        let (schema, mut arrays, count) = parts.gathered.into_parts();
        arrays.push(lengths);
        let fields = schema.fields().iter().cloned().chain([RowColumns::lengths(unit)]);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(crate::Error::assemble)
    }

    /// Checks that lists have the planned lengths.
    fn check_lengths(&self, parts: &RowParts<'_>, planned: &[u32]) -> Result<()> {
        let Contents::Rows(RowColumns { counted }) = &self.contents else { return Ok(()) };
        for column in counted {
            let place = parts.columns.iter().position(|delivered| delivered == column);
            let array = place.and_then(|place| parts.gathered.columns().get(place));
            let Some(lists) = array.and_then(TokenLists::of) else { continue };
            let found = |row: usize| lists.range(row).len() as u64;
            let wrong =
                (0..).zip(planned).find(|(row, planned)| found(*row) != u64::from(**planned));
            let Some((row, planned)) = wrong else { continue };
            let position = parts.positions.iter().cloned().flatten().nth(row).unwrap_or_default();
            let place = parts.order.at(position);
            let place =
                place.and_then(|(block, row)| parts.rows.row_of_file(parts.dataset, block, row));
            let first = counted.first().copied();
            return Err(self.source.miscounted(
                parts.dataset,
                (*column, first.filter(|first| first == column)),
                place.unwrap_or_default(),
                (u64::from(*planned), found(row)),
            ));
        }
        Ok(())
    }

    /// The terms of the cost of batches of rows, given their numbers of rows.
    pub(super) fn terms_of_rows(
        &self,
        rows: &RecordBatch,
        batches: impl Iterator<Item = usize>,
    ) -> Vec<CostTerms> {
        let Some((balance, plan)) = self.source.balance().zip(self.plan_of_rows()) else {
            return Vec::new();
        };
        let lengths = rows.column_by_name(LENGTHS).map(whole).unwrap_or_default();
        let mut start = 0;
        let of_batch = |rows: usize| {
            let own = lengths.get(start..start + rows).unwrap_or_default();
            start += rows;
            let longest = own.iter().copied().max().unwrap_or_default();
            let mut sums = CostTerms::default();
            balance.cost.add_terms_of_rows(&mut sums, own, plan.packing().padded(longest));
            sums
        };
        batches.map(of_batch).collect()
    }
}

/// Lengths as the numbers of tokens that are nearest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(lengths: &ArrayRef) -> Vec<u32> {
    match lengths.as_primitive_opt::<Float32Type>() {
        Some(lengths) => lengths.values().iter().map(|length| length.round() as u32).collect(),
        None => lengths.as_primitive::<Int32Type>().values().iter().map(|n| *n as u32).collect(),
    }
}
