//! The packs of one epoch, with the rows they consist of.

use super::figures::KnownWork;
use super::{AheadEpoch, Error, Lengths, PackColumns, RowColumns};
use crate::{Dataset, Result, RowSet};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_plan::order::{Lanes, RowOrder};
use shardmill_plan::packing::{Balance, PackPlan, Packing, Refused, Row};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Number of rows whose tokens a thread looks up together.
const ROWS_AT_ONCE: u64 = 1 << 18;

/// Needed by a pass to deliver packs instead of rows.
#[derive(Debug, Clone)]
pub struct Packs {
    pub source: PackSource,
    pub contents: Contents,
}

/// What is in a pack.
#[derive(Debug, Clone)]
pub enum Contents {
    /// The tokens of its rows, one after another.
    Tokens(Arc<PackColumns>),
    /// Its rows.
    Rows(RowColumns),
}

/// Where packs come from.
#[derive(Debug, Clone)]
pub enum PackSource {
    /// The plan of a whole epoch, made from the token counts of all rows.
    Epoch { plan: Arc<PackPlan>, lengths: Arc<Lengths>, work: Arc<KnownWork> },
    /// Endless lanes.
    Ahead(AheadEpoch),
}

impl PackSource {
    /// Lanes of packs.
    #[must_use]
    pub fn lanes(&self) -> &Lanes {
        match self {
            Self::Epoch { plan, .. } => plan.lanes(),
            Self::Ahead(epoch) => epoch.lanes(),
        }
    }

    /// Whether patches of packs are known. A column that states lengths does not tell them.
    pub(super) fn knows_images(&self) -> bool {
        match self {
            Self::Epoch { lengths, .. } => !lengths.is_stated(),
            Self::Ahead(epoch) => !epoch.packs.counts().is_stated(),
        }
    }

    /// In what order packs come, if it is not that in which they are packed.
    #[must_use]
    pub fn balance(&self) -> Option<Balance> {
        match self {
            Self::Epoch { plan, .. } => plan.balance(),
            Self::Ahead(epoch) => epoch.packs.balance(),
        }
    }
}

impl Packs {
    /// A pass over these lanes draws packs window by window: the rows of one, and of another while
    /// windows change.
    pub(crate) fn keep_windows(&self, lanes: Range<u64>) {
        if let PackSource::Ahead(epoch) = &self.source
            && let Some(balance) = epoch.packs.balance()
            && let Contents::Tokens(columns) = &self.contents
        {
            let packs = 2 * u64::from(balance.window_packs) * (lanes.end - lanes.start);
            epoch.packs.counts().decoded().keep(packs.saturating_mul(columns.row_bytes()));
        }
    }

    /// Size of the pixels of a patch; 0 if packs have none, or their number is not known.
    pub(crate) fn patch_bytes(&self) -> u64 {
        match &self.contents {
            Contents::Tokens(columns) if self.source.knows_images() => columns.patch_bytes(),
            _ => 0,
        }
    }

    /// Size of a pack without pixels of a known size, given that of a row, of which an epoch has
    /// `rows`.
    pub(crate) fn bytes_of_one(&self, row_bytes: impl FnOnce() -> u64, rows: u64) -> u64 {
        match &self.contents {
            Contents::Tokens(columns) => {
                let pixels =
                    if self.source.knows_images() { 0 } else { columns.most_pixel_bytes() };
                columns.pack_bytes().saturating_add(pixels)
            }
            Contents::Rows(_) => {
                let packs = self.source.lanes().num_rows().max(1);
                row_bytes().saturating_mul(rows).div_ceil(packs)
            }
        }
    }

    /// The packs of the rows in `order`.
    ///
    /// # Errors
    /// For rows that cannot be packed.
    pub fn plan(
        packing: Packing,
        rows: &PlannedRows,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<PackPlan> {
        let amounts = Arc::new(AmountsInOrder {
            ids: RowIds::new(&rows.rows, &rows.order),
            order: Arc::clone(&rows.order),
            lengths: Arc::clone(&rows.lengths),
        });
        let mut failure = None;
        let planned = PackPlan::build(packing, &rows.lanes, |positions, each| {
            if failure.is_none() {
                failure = amounts.for_each(positions, threads, cancel, each).err();
            }
        });
        let refused = |reason| match reason {
            Refused::LongRow { position, tokens } => {
                let (path, row) = row_at(&rows.dataset, &rows.rows, &rows.order, position);
                if packing.keeps_rows() {
                    let shown = |length| packing.unit().shown(length);
                    let (length, most) = (shown(tokens), shown(packing.most_of_row()));
                    return Error::LongBatchRow { path, row, length, most };
                }
                Error::LongRow { path, row, tokens, length: packing.length }
            }
            Refused::ManyImages { position, row } => {
                let place = row_at(&rows.dataset, &rows.rows, &rows.order, position);
                Error::many_images(place, row, &packing)
            }
            Refused::LongLane { rows } => Error::LongLane { rows },
        };
        match failure {
            Some(failure) => Err(failure),
            None => Ok(planned.map_err(refused)?),
        }
    }
}

/// The rows to pack.
#[derive(Debug, Clone)]
pub struct PlannedRows {
    pub dataset: Arc<Dataset>,
    pub rows: Arc<RowSet>,
    pub order: Arc<RowOrder>,
    pub lanes: Lanes,
    pub lengths: Arc<Lengths>,
}

/// What rows take, by plan position.
struct AmountsInOrder {
    ids: RowIds,
    order: Arc<RowOrder>,
    lengths: Arc<Lengths>,
}

impl AmountsInOrder {
    /// Calls `each` with what the rows at these plan positions take, in order.
    fn for_each<'a>(
        self: &'a Arc<Self>,
        positions: Range<u64>,
        threads: usize,
        cancel: &Cancel,
        each: &mut dyn FnMut(Row<'a>),
    ) -> Result<()> {
        let parts = usize::try_from((positions.end - positions.start).div_ceil(ROWS_AT_ONCE))
            .unwrap_or(usize::MAX);
        // Shuffling costs more than packing; without it, neighbours are found immediately.
        if parts < 2 || self.order.num_windows() == 0 {
            self.order.for_each(positions, |scheduled, row| {
                each(self.lengths.row(self.ids.id(scheduled, row)));
            });
            return Ok(());
        }
        let own = Arc::clone(self);
        let work = move |part: usize| {
            let start = positions.start + part as u64 * ROWS_AT_ONCE;
            let end = (start + ROWS_AT_ONCE).min(positions.end);
            let mut amounts = Vec::with_capacity(usize::try_from(end - start).unwrap_or_default());
            own.order.for_each(start..end, |scheduled, row| {
                let id = own.ids.id(scheduled, row);
                amounts.push((id, own.lengths.amount(id)));
            });
            ControlFlow::Continue(amounts)
        };
        for amounts in run_in_order(parts, threads.max(1), cancel, work)? {
            for (id, amount) in amounts? {
                // Few rows have images.
                each(if amount.images > 0 { self.lengths.row(id) } else { amount.into() });
            }
        }
        Ok(())
    }
}

/// Ids of rows by scheduled block, as used by lengths.
pub(super) struct RowIds {
    /// First id of each scheduled block.
    starts: Vec<u64>,
}

impl RowIds {
    pub(super) fn new(rows: &RowSet, order: &RowOrder) -> Self {
        let first = |scheduled: usize| {
            order.block(scheduled).and_then(|block| rows.first_id(block)).unwrap_or(u64::MAX)
        };
        Self { starts: (0..order.num_scheduled()).map(first).collect() }
    }

    pub(super) fn id(&self, scheduled: usize, row: u64) -> u64 {
        self.starts.get(scheduled).map_or(u64::MAX, |start| start.saturating_add(row))
    }
}

/// File and row at a plan position.
pub(super) fn row_at(
    dataset: &Dataset,
    rows: &RowSet,
    order: &RowOrder,
    position: u64,
) -> (String, u64) {
    order
        .at(position)
        .and_then(|(block, row)| rows.path_and_row(dataset, block, row))
        .unwrap_or_default()
}
