//! All packs of one epoch, and their distribution.

use super::balance::{Balance, Ordering, PackOrder};
use super::batches::{Batched, Batching};
use super::fit::Fitting;
use super::lane::{Consecutive, LanePacks, Packs};
use super::totals::Totals;
use super::{Packing, Piece, Refused, Row, Strategy};
use crate::order::Lanes;
use std::ops::Range;

/// The packs of one epoch, numbered lane after lane.
#[derive(Debug)]
pub struct PackPlan {
    packing: Packing,
    /// Lanes of the packed rows.
    row_lanes: Lanes,
    lanes: Lanes,
    /// Of each lane, with the order in which they come.
    packs: Vec<(LanePacks, PackOrder)>,
    totals: Totals,
}

impl PackPlan {
    /// Packs the rows of each lane. `amounts_of` is called with the plan positions of a lane, and
    /// calls back with what each of its rows takes, in order: a [`Row`], an amount, or tokens.
    ///
    /// # Errors
    /// For a row that is longer than a pack, if the packing rejects it, and for a lane of 2³² rows.
    pub fn build<'a, R: Into<Row<'a>>>(
        packing: Packing,
        rows: &Lanes,
        mut amounts_of: impl FnMut(Range<u64>, &mut dyn FnMut(R)),
    ) -> Result<Self, Refused> {
        let packing = packing.possible();
        let mut totals = Totals::default();
        let mut packs = Vec::new();
        for lane in 0..rows.num_lanes() {
            packs.push(pack_lane(packing, rows.positions(lane), &mut amounts_of, &mut totals)?);
        }
        let lengths: Vec<u64> = packs.iter().map(|(packs, _)| packs.len()).collect();
        Ok(Self {
            packing,
            row_lanes: rows.clone(),
            lanes: Lanes::of_lengths(&lengths),
            packs,
            totals,
        })
    }

    /// Number of tokens that fit into a pack.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.packing.length
    }

    #[must_use]
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// In what order packs come, if it is not that in which they are packed.
    #[must_use]
    pub fn balance(&self) -> Option<Balance> {
        self.packing.balance
    }

    /// Lanes of the rows that were packed.
    #[must_use]
    pub fn row_lanes(&self) -> &Lanes {
        &self.row_lanes
    }

    /// Lanes of packs.
    #[must_use]
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    #[must_use]
    pub fn num_packs(&self) -> u64 {
        self.lanes.num_rows()
    }

    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Plan positions of the rows in the packs `runs`: ascending, non-adjacent runs.
    #[must_use]
    pub fn positions(&self, runs: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut positions: Vec<Range<u64>> =
            runs.iter().flat_map(|run| self.positions_of(run.clone())).collect();
        positions.sort_unstable_by_key(|run| run.start);
        positions.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
        positions
    }

    /// Calls `piece` with the pieces of a pack in order. `row_of` returns what the row at a plan
    /// position takes.
    pub fn for_each_piece<'a, R: Into<Row<'a>>>(
        &self,
        pack: u64,
        row_of: impl Fn(u64) -> R,
        piece: impl FnMut(Piece),
    ) {
        if let Some(((lane, order), place)) = self.found(pack) {
            lane.for_each_piece(order.pack(place), &row_of, piece);
        }
    }

    /// Tokens of a batch of rows.
    #[must_use]
    pub fn tokens(&self, pack: u64) -> f64 {
        self.found(pack).map_or(0.0, |((lane, order), place)| lane.tokens(order.pack(place)))
    }

    /// Patches of the images of a pack.
    #[must_use]
    pub fn patches(&self, pack: u64) -> u64 {
        self.found(pack).map_or(0, |((lane, order), place)| lane.patches(order.pack(place)))
    }

    /// Plan positions of the rows of a pack.
    pub fn for_each_row(&self, pack: u64, mut row: impl FnMut(u64)) {
        self.for_each_piece(pack, |_| 0u32, |piece| row(piece.position));
    }

    /// The number that a pack would have without a balance.
    #[must_use]
    pub fn packed_as(&self, pack: u64) -> u64 {
        let packed = self.found(pack).map(|((_, order), place)| (order.pack(place), place));
        packed.map_or(pack, |(packed, place)| pack - place as u64 + packed as u64)
    }

    /// The first plan position that a lane needs when it continues with the pack `cursor`; the end
    /// of its rows if that is past its last pack.
    #[must_use]
    pub fn needed_from(&self, lane: u64, cursor: u64) -> u64 {
        let packs = usize::try_from(lane).ok().and_then(|lane| self.packs.get(lane));
        let pack = usize::try_from(cursor.saturating_sub(self.lanes.positions(lane).start))
            .unwrap_or(usize::MAX);
        packs.map_or(u64::MAX, |(packs, order)| match order.rest_of_window(pack) {
            None => packs.needed_from(pack),
            Some((rest, end)) => {
                rest.map(|pack| packs.first_position(pack)).fold(packs.needed_from(end), u64::min)
            }
        })
    }

    fn positions_of(&self, mut run: Range<u64>) -> Vec<Range<u64>> {
        let mut positions = Vec::new();
        while run.start < run.end {
            let Some(((lane, order), first)) = self.found(run.start) else { break };
            let count =
                self.lanes.positions(self.lanes.lane_of(run.start)).end.min(run.end) - run.start;
            let end = first.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
            positions
                .extend(order.runs(first..end).into_iter().flat_map(|packs| lane.positions(packs)));
            run.start += count.max(1);
        }
        positions
    }

    /// The lane that has a pack, and the place of the pack in it.
    fn found(&self, pack: u64) -> Option<(&(LanePacks, PackOrder), usize)> {
        let lane = self.lanes.lane_of(pack);
        let packs = self.packs.get(usize::try_from(lane).ok()?)?;
        Some((packs, usize::try_from(pack.checked_sub(self.lanes.positions(lane).start)?).ok()?))
    }
}

fn pack_lane<'a, R: Into<Row<'a>>>(
    packing: Packing,
    positions: Range<u64>,
    amounts_of: &mut impl FnMut(Range<u64>, &mut dyn FnMut(R)),
    totals: &mut Totals,
) -> Result<(LanePacks, PackOrder), Refused> {
    let (start, rows) = (positions.start, positions.end - positions.start);
    // The end of a lane is a number too, so the maximum is excluded.
    let rows = u32::try_from(rows)
        .ok()
        .filter(|rows| *rows < u32::MAX)
        .ok_or(Refused::LongLane { rows })?;
    let order = packing.balance.map(Ordering::new);
    match packing.strategy {
        Strategy::Concat => {
            let mut packs = Consecutive::new(packing, order);
            let mut refused = None;
            amounts_of(positions, &mut |row| {
                let row = row.into();
                match packs.push(row) {
                    _ if refused.is_some() => {}
                    Ok(padding) => {
                        totals.tokens += u64::from(row.amount.tokens);
                        totals.padded_tokens += u64::from(padding);
                    }
                    Err(reason) => refused = Some(reason),
                }
            });
            if let Some(refused) = refused {
                return Err(refused.in_lane(start));
            }
            let (packs, order) = packs.finish(start, rows);
            if packing.overlaps {
                totals.tokens += packs.len().saturating_sub(1);
            }
            Ok((packs, order))
        }
        Strategy::Fit { choice, open_packs, long } => {
            let mut packs = Fitting::new(packing, choice, open_packs, long).ordered(order);
            let mut refused = None;
            amounts_of(positions, &mut |row| {
                let row = row.into();
                match packs.push(row) {
                    _ if refused.is_some() => {}
                    Ok(packed) => {
                        let tokens = row.amount.tokens;
                        totals.tokens += u64::from(packed);
                        let lost = u64::from(tokens - packed);
                        let is_dropped = packed == 0 && tokens > 0;
                        totals.dropped_rows += u64::from(is_dropped);
                        *(if is_dropped {
                            &mut totals.dropped_tokens
                        } else {
                            &mut totals.truncated_tokens
                        }) += lost;
                    }
                    Err(reason) => refused = Some(reason),
                }
            });
            match refused {
                Some(refused) => Err(refused.in_lane(start)),
                None => {
                    totals.padded_tokens += packs.padding;
                    let (packs, order) = packs.finish();
                    Ok((LanePacks::new(start, rows, packing, Packs::Fitted(packs)), order))
                }
            }
        }
        Strategy::Batches(rules) => {
            let mut batches = Batching::new(packing, rules, order);
            let mut refused = None;
            amounts_of(positions, &mut |row| {
                if refused.is_none() {
                    refused = batches.push(row.into().amount.tokens).err();
                }
            });
            if let Some(refused) = refused {
                return Err(refused.in_lane(start));
            }
            let Batched { rows: of_batches, tokens, order, totals: of_lane } = batches.finish();
            totals.add(of_lane);
            let packs = LanePacks::new(start, rows, packing, Packs::Fitted(of_batches));
            Ok((packs.with_tokens(tokens), order))
        }
    }
}
