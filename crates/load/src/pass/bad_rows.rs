//! Finds rows that cannot be decoded within a bad block, and skips or replaces them.
//!
//! Which rows are bad follows from the data, and their replacements from the data, the seed and the
//! epoch. The invariant: neither depends on ranks, threads or batches, so all runs agree on both.

use crate::row_set::RowBlock;
use crate::{Dataset, Error, Result, RowSet, UnderivableRow};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::interleave::interleave;
use shardmill_engine::Cancel;
use shardmill_plan::order::{Permutation, Purpose};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A block that cannot be decoded is bisected; after this many reads without a good row, the rest
/// counts as bad.
const MAX_READS: usize = 256;

/// Number of blocks that are tried for replacement rows if a block has no good one.
const MAX_DONORS: u64 = 16;

/// How rows that cannot be decoded are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBadRows {
    #[default]
    Raise,
    /// Shorten the batch.
    Skip,
    /// Deliver another row in its place.
    Replace,
}

/// The policy of a pass; seed and epoch determine the replacements.
#[derive(Debug, Clone, Copy, Default)]
pub struct BadRowPolicy {
    pub on_bad_rows: OnBadRows,
    pub seed: i64,
    pub epoch: u64,
}

/// A row that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    pub path: String,
    /// Row in its file.
    pub row: u64,
    pub cause: Arc<str>,
}

/// Rows, and those of them whose images are filled, each with the number of its batch.
pub(super) struct Assembled {
    pub(super) rows: RecordBatch,
    pub(super) filled: Vec<(usize, BadRow)>,
}

impl From<RecordBatch> for Assembled {
    fn from(rows: RecordBatch) -> Self {
        Self { rows, filled: Vec::new() }
    }
}

/// The bad rows of the blocks that a pass has decoded so far.
#[derive(Debug, Default)]
pub(super) struct BadRows {
    by_scheduled_block: Mutex<HashMap<usize, Arc<BadParts>>>,
    /// Rows that were tried in place of others and are bad themselves, so that the rows of a bad
    /// block are read once and not for each of its rows.
    bad_donors: Mutex<HashSet<Donor>>,
}

/// Block, row of the block, and round of the draw: an image may be bad for some draws only.
pub(super) type Donor = (usize, u64, u64);

/// Ranges of rows of a block, ascending.
pub(super) type BadParts = Vec<(Range<u64>, Arc<str>)>;

impl BadRows {
    /// The bad rows of the given scheduled blocks; empty for nearly every superbatch.
    pub(super) fn of(&self, scheduled_blocks: &[usize]) -> HashMap<usize, Arc<BadParts>> {
        let known = self.lock();
        if known.is_empty() {
            return HashMap::new();
        }
        scheduled_blocks
            .iter()
            .filter_map(|scheduled| Some((*scheduled, Arc::clone(known.get(scheduled)?))))
            .collect()
    }

    pub(super) fn add(&self, scheduled: usize, parts: BadParts) {
        self.lock().insert(scheduled, Arc::new(parts));
    }

    pub(super) fn is_bad_donor(&self, donor: &Donor) -> bool {
        self.bad_donors.lock().unwrap_or_else(PoisonError::into_inner).contains(donor)
    }

    pub(super) fn add_bad_donor(&self, donor: Donor) {
        self.bad_donors.lock().unwrap_or_else(PoisonError::into_inner).insert(donor);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Arc<BadParts>>> {
        self.by_scheduled_block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a row is bad, if it is.
pub(super) fn cause_of(parts: &BadParts, row: u64) -> Option<&Arc<str>> {
    let next = parts.partition_point(|(range, _)| range.end <= row);
    parts.get(next).filter(|(range, _)| range.contains(&row)).map(|(_, cause)| cause)
}

/// Whether the data is the cause. A disk failure or a cancelled pass says nothing about a row.
pub(super) fn is_of_data(error: &Error) -> bool {
    use Error::{Assemble, BadImage, Cast, Inexact, Storage, Table, Underivable};
    matches!(
        error,
        BadImage { .. }
            | Storage(_)
            | Table(_)
            | Cast { .. }
            | Inexact { .. }
            | Assemble { .. }
            | Underivable { .. }
    ) && error.of_store().is_none()
}

/// `schema` with nullable fields, for bad rows.
pub(super) fn nullable(schema: &SchemaRef) -> SchemaRef {
    Arc::new(Schema::new(
        schema
            .fields()
            .iter()
            .map(|field| Field::clone(field).with_nullable(true))
            .collect::<Vec<_>>(),
    ))
}

/// Batches of good rows; for each row of the block, its batch and its row there; the bad rows.
type Salvaged = (Vec<RecordBatch>, Vec<(usize, usize)>, BadParts);

/// The place of a bad row.
const BAD: (usize, usize) = (usize::MAX, 0);

/// Reads the readable rows of blocks that cannot be decoded as a whole.
pub(super) struct Salvage<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) rows: &'a RowSet,
    pub(super) columns: &'a [usize],
    pub(super) policy: BadRowPolicy,
    /// Many bad rows take many reads.
    pub(super) cancel: &'a Cancel,
}

impl Salvage<'_> {
    /// A block with all of its rows, with nulls or replacements in place of bad ones,
    /// and the bad rows.
    pub(super) fn block(&self, number: usize, failure: Error) -> Result<(RecordBatch, BadParts)> {
        let Some(block) = self.rows.blocks().get(number) else { return Err(failure) };
        let (mut sources, mut places, bad) = match self.without_named(number, block, &failure)? {
            Some(found) => found,
            None => self.bisected(block, failure)?,
        };
        match self.policy.on_bad_rows {
            OnBadRows::Replace => self.replace(number, &mut sources, &mut places)?,
            OnBadRows::Raise | OnBadRows::Skip => {
                let blank = self
                    .dataset
                    .view_schema(self.columns)
                    .fields()
                    .iter()
                    .map(|field| new_null_array(field.data_type(), 1))
                    .collect();
                places
                    .iter_mut()
                    .filter(|place| **place == BAD)
                    .for_each(|place| *place = (sources.len(), 0));
                sources.push(self.batch(blank, 1)?);
            }
        }
        let columns = (0..self.columns.len()).map(|column| {
            let arrays: Vec<_> =
                sources.iter().map(|source| source.column(column).as_ref()).collect();
            interleave(&arrays, &places).map_err(Error::assemble)
        });
        Ok((self.batch(columns.collect::<Result<_>>()?, places.len())?, bad))
    }

    /// For a failure that names the bad rows: the other ones, read at once. `None` if they cannot
    /// be read either.
    fn without_named(
        &self,
        number: usize,
        block: &RowBlock,
        failure: &Error,
    ) -> Result<Option<Salvaged>> {
        let (mut good, mut bad): (Vec<u64>, BTreeMap<u64, String>) =
            ((0..block.rows).collect(), BTreeMap::new());
        let mut failure = failure.clone();
        for _ in 0..MAX_READS {
            // The failed read was of the rows that are still thought to be good.
            let Error::Underivable { rows, .. } = &failure else { return Ok(None) };
            let named = rows.iter().filter_map(|failed| {
                good.get(failed.row).map(|row| (*row, self.cause(number, *row, failed)))
            });
            bad.extend(named);
            let before = good.len();
            good.retain(|row| !bad.contains_key(row));
            if good.len() == before {
                return Ok(None);
            }
            match self.read(block, good.iter().copied()) {
                Ok(rows) => {
                    let mut next = 0..rows.num_rows();
                    let place = |row: u64| {
                        if bad.contains_key(&row) {
                            BAD
                        } else {
                            next.next().map_or(BAD, |row| (0, row))
                        }
                    };
                    let places = (0..block.rows).map(place).collect();
                    return Ok(Some((
                        vec![rows],
                        places,
                        bad.into_iter().map(|(row, cause)| (row..row + 1, cause.into())).collect(),
                    )));
                }
                Err(error) if is_of_data(&error) => failure = error,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn cause(&self, number: usize, row: u64, failed: &UnderivableRow) -> String {
        let (path, row) = self.rows.path_and_row(self.dataset, number, row).unwrap_or_default();
        let UnderivableRow { column, reason, hint, .. } = failed.clone();
        Error::Underivable {
            path,
            row,
            column,
            reason: reason.into(),
            hint: hint.map(Into::into),
            rows: Arc::default(),
        }
        .to_string()
    }

    fn bisected(&self, block: &RowBlock, failure: Error) -> Result<Salvaged> {
        let (mut sources, mut places, mut bad): Salvaged = (Vec::new(), Vec::new(), Vec::new());
        for (range, part) in parts(block.rows, failure, |range| self.read(block, range))? {
            match part {
                Ok(part) => {
                    places.extend((0..part.num_rows()).map(|row| (sources.len(), row)));
                    sources.push(part);
                }
                Err(error) => {
                    places.extend(range.clone().map(|_| BAD));
                    bad.push((range, error.to_string().into()));
                }
            }
        }
        Ok((sources, places, bad))
    }

    /// Redirects bad rows to good ones: of the same block, otherwise of another block
    /// that can be decoded.
    fn replace(
        &self,
        number: usize,
        sources: &mut Vec<RecordBatch>,
        places: &mut [(usize, usize)],
    ) -> Result<()> {
        let mut good: Vec<(usize, usize)> =
            places.iter().copied().filter(|place| *place != BAD).collect();
        if good.is_empty() {
            let donor = self.donor(number)?;
            good = (0..donor.num_rows()).map(|row| (sources.len(), row)).collect();
            sources.push(donor);
        }
        let count = good.len() as u64;
        let choice =
            Permutation::new(count, self.policy.seed, self.policy.epoch, Purpose::Replacement);
        for (row, place) in places.iter_mut().enumerate().filter(|(_, place)| **place == BAD) {
            let chosen = choice
                .at((number as u64).wrapping_add(row as u64) % count.max(1))
                .and_then(|chosen| usize::try_from(chosen).ok());
            *place = chosen.and_then(|chosen| good.get(chosen)).copied().unwrap_or((0, 0));
        }
        Ok(())
    }

    fn donor(&self, number: usize) -> Result<RecordBatch> {
        let blocks = self.rows.blocks();
        let count = blocks.len() as u64;
        let choice =
            Permutation::new(count, self.policy.seed, self.policy.epoch, Purpose::Replacement);
        let mut failure = None;
        for step in 1..count.min(MAX_DONORS + 1) {
            let other = choice
                .at((number as u64 + step) % count)
                .and_then(|other| usize::try_from(other).ok())
                .unwrap_or_default();
            let Some(block) = blocks.get(other).filter(|block| other != number && block.rows > 0)
            else {
                continue;
            };
            match self.read(block, 0..block.rows) {
                Ok(rows) => return Ok(rows),
                Err(error) if is_of_data(&error) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(Error::NoReplacement { cause: failure.map(|error| Arc::new(error) as _) })
    }

    /// Reads rows of a block; `wanted` are ascending numbers among the selected rows.
    fn read(&self, block: &RowBlock, wanted: impl Iterator<Item = u64>) -> Result<RecordBatch> {
        self.cancel.check()?;
        let whole = usize::try_from(block.whole_rows()).unwrap_or(usize::MAX);
        let mut mask = BooleanBufferBuilder::new(whole);
        mask.append_n(whole, false);
        let mut wanted =
            wanted.filter_map(|row| usize::try_from(row).ok()).filter(|row| *row < whole);
        match &block.selection {
            None => wanted.for_each(|row| mask.set_bit(row, true)),
            Some(selection) => {
                let mut next = wanted.next();
                for (number, row) in selection.set_indices().enumerate() {
                    if next == Some(number) {
                        mask.set_bit(row, true);
                        next = wanted.next();
                    }
                }
            }
        }
        let mask: BooleanBuffer = mask.finish();
        self.dataset.read(block.place, self.columns, Some(&mask))
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(
            nullable(&self.dataset.view_schema(self.columns)),
            columns,
            &options,
        )
        .map_err(Error::assemble)
    }
}

type Part<T> = (Range<u64>, Result<T>);

/// Bisects a block that failed as a whole; returns its parts in order, each with its rows or the
/// reason of its failure.
fn parts<T>(
    rows: u64,
    failure: Error,
    read: impl Fn(Range<u64>) -> Result<T>,
) -> Result<Vec<Part<T>>> {
    let (mut left, mut reads, mut parts) = (vec![(0..rows, Some(failure))], 0, Vec::new());
    let mut read_before_good = 0;
    while let Some((range, failure)) = left.pop() {
        let failure = match failure {
            Some(failure) => failure,
            None => {
                reads += 1;
                match read(range.clone()) {
                    Err(error) if is_of_data(&error) => error,
                    Err(error) => return Err(error),
                    good => {
                        parts.push((range, good));
                        read_before_good = reads;
                        continue;
                    }
                }
            }
        };
        let len = range.end - range.start;
        if len <= 1 || reads - read_before_good >= MAX_READS {
            parts.push((range, Err(failure)));
            continue;
        }
        let middle = range.start + len / 2;
        left.push((middle..range.end, None));
        left.push((range.start..middle, None));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shardmill_storage::Error as StorageError;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    fn damaged() -> Error {
        Error::Storage(Arc::new(StorageError::ShortRead {
            path: "x".to_owned(),
            offset: 0,
            len: 1,
            end: 0,
        }))
    }

    proptest! {
        #[test]
        fn single_bad_rows_are_found_and_no_other(
            rows in 1u64..300,
            bad in prop::collection::btree_set(0u64..300, 1..8),
        ) {
            let bad: BTreeSet<u64> = bad.into_iter().filter(|row| *row < rows).collect();
            let reads = Cell::new(0);
            let read = |range: Range<u64>| {
                reads.set(reads.get() + 1);
                if bad.range(range.clone()).next().is_some() { Err(damaged()) } else { Ok(range) }
            };
            let parts = parts(rows, damaged(), read).unwrap();
            // A single row that fails as a whole is not read again.
            let bad = if rows == 1 { BTreeSet::from([0]) } else { bad.clone() };
            let mut end = 0;
            for (range, _) in &parts {
                prop_assert_eq!(range.start, end);
                end = range.end;
            }
            prop_assert_eq!(end, rows);
            let found: BTreeSet<u64> = parts
                .iter()
                .filter(|(_, part)| part.is_err())
                .flat_map(|(range, _)| range.clone())
                .collect();
            // If a block fails as a whole without a bad row, none fails on its own.
            prop_assert_eq!(found, bad);
        }
    }

    #[test]
    fn block_that_is_bad_throughout_is_not_read_row_by_row() {
        let reads = Cell::new(0);
        let found = parts::<()>(1_000_000, damaged(), |_| {
            reads.set(reads.get() + 1);
            Err(damaged())
        });
        let found = found.unwrap();
        assert!(reads.get() <= MAX_READS + 64, "{} reads", reads.get());
        assert!(found.iter().all(|(_, part)| part.is_err()));
    }

    #[test]
    fn scattered_bad_rows_are_found_and_no_other() {
        let read = |range: Range<u64>| {
            if range.clone().any(|row| row % 7 == 0) { Err(damaged()) } else { Ok(range) }
        };
        let parts = parts(2_000, damaged(), read).unwrap();
        let bad: Vec<u64> = parts
            .iter()
            .filter(|(_, part)| part.is_err())
            .flat_map(|(range, _)| range.clone())
            .collect();
        assert_eq!(bad, (0..2_000).step_by(7).collect::<Vec<_>>());
    }

    #[test]
    fn disk_that_fails_makes_no_row_bad() {
        let gone = || Error::Storage(Arc::new(StorageError::Changed { path: "x".to_owned() }));
        assert!(parts::<()>(10, damaged(), |_| Err(gone())).is_err());
        assert!(!is_of_data(&gone()));
    }

    #[test]
    fn cause_is_that_of_the_range() {
        let parts: BadParts = vec![(2..4, "a".into()), (7..8, "b".into())];
        let causes: Vec<Option<&str>> =
            (0..9).map(|row| cause_of(&parts, row).map(AsRef::as_ref)).collect();
        assert_eq!(causes, [None, None, Some("a"), Some("a"), None, None, None, Some("b"), None]);
    }
}
