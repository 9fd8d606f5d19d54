//! The number of tokens of rows, found block by block when it is needed.
//!
//! The sums of all blocks are kept, and the counts of the rows of the last ones. What is kept in
//! files ([`TokenCounts`]) is not counted again.

use super::LengthsSource;
use super::amounts::Amounts;
use super::decoded::{DecodedBlocks, decoded};
use super::lengths::{check_type, of_block_kept};
use crate::tokenize::{TokenCounts, totals_of};
use crate::{Dataset, Result, RowSet};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_plan::packing::{Amount, Packing, Strategy};
use shardmill_storage::Remembered;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The counts of more rows are not kept in memory.
const KEPT_ROWS: usize = 16 << 20;

/// Token counts of the rows of a row set.
#[derive(Debug)]
pub struct RowCounts {
    dataset: Arc<Dataset>,
    rows: Arc<RowSet>,
    source: LengthsSource,
    /// Those that a pass delivers, the counted one first.
    columns: Vec<usize>,
    threads: usize,
    packing: Packing,
    decoded: Arc<DecodedBlocks>,
    /// By file.
    stores: Arc<Vec<Option<Arc<TokenCounts>>>>,
    warnings: Vec<String>,
    known: Remembered<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// With the padding of each row.
    totals: HashMap<usize, u64>,
    counts: HashMap<usize, Amounts>,
    /// Blocks with counts, the oldest first, and the number of their rows.
    oldest: VecDeque<usize>,
    rows: usize,
}

impl RowCounts {
    /// With zero `threads`, the calling thread counts.
    ///
    /// # Errors
    /// When lengths are not whole numbers, or files of counts disagree.
    pub fn open(
        dataset: &Arc<Dataset>,
        rows: &Arc<RowSet>,
        source: LengthsSource,
        columns: &[usize],
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Self> {
        check_type(dataset, source)?;
        let stores = match source {
            LengthsSource::Lists { column, .. } => dataset
                .files()
                .iter()
                .map(|file| file.counts(column, cancel))
                .collect::<Result<Vec<_>>>()?,
            LengthsSource::Stated { .. } | LengthsSource::Numbers { .. } => Vec::new(),
        };
        let warnings = stores.iter().flatten().flat_map(|counts| counts.take_warnings()).collect();
        let (dataset, rows, columns) = (Arc::clone(dataset), Arc::clone(rows), columns.to_vec());
        let (decoded, stores, known) = (Arc::default(), Arc::new(stores), Remembered::default());
        let packing = Packing::new(1, Strategy::Concat);
        Ok(Self {
            dataset,
            rows,
            source,
            columns,
            threads,
            packing,
            decoded,
            stores,
            warnings,
            known,
        })
    }

    /// The same with the totals of a packing.
    pub(super) fn padded(mut self, packing: Packing) -> Self {
        self.packing = packing;
        self
    }

    /// What went wrong when counts that are kept in files were read.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether a column says them.
    pub(super) fn is_stated(&self) -> bool {
        self.source.is_stated()
    }

    /// Whether rows with images may be cut.
    pub(super) fn has_blocks(&self) -> bool {
        self.source.has_blocks()
    }

    /// Of a block, if they are at hand.
    pub(super) fn known(&self, block: usize) -> Option<Amounts> {
        self.known.lock().counts.get(&block).cloned()
    }

    /// What is delivered next.
    pub(crate) fn decoded(&self) -> &DecodedBlocks {
        &self.decoded
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// Keeps what was counted in files.
    pub fn publish(&self) {
        for counts in self.stores.iter().flatten() {
            counts.publish();
            counts
                .take_warnings()
                .into_iter()
                .for_each(|warning| tracing::warn!(target: "shardmill.tokens", "{warning}"));
        }
    }

    /// Token counts of the rows of each of these blocks. Those that are not known are counted, on
    /// all threads, and stay decoded if they are delivered next.
    pub(super) fn of(
        &self,
        blocks: &[usize],
        is_next: bool,
        cancel: &Cancel,
    ) -> Result<HashMap<usize, Amounts>> {
        let mut found: HashMap<usize, Amounts> = {
            let known = self.known.lock();
            blocks
                .iter()
                .filter_map(|block| Some((*block, known.counts.get(block)?.clone())))
                .collect()
        };
        let mut missing: Vec<usize> =
            blocks.iter().copied().filter(|block| !found.contains_key(block)).collect();
        missing.sort_unstable();
        missing.dedup();
        for (block, counts) in missing.iter().zip(self.counted(&missing, is_next, cancel)?) {
            self.known.lock().add(*block, &counts, self.sum(&counts));
            found.insert(*block, counts);
        }
        Ok(found)
    }

    /// The sum of the token counts of all rows of these blocks, with the padding of each row.
    pub(super) fn total(&self, blocks: &[usize], cancel: &Cancel) -> Result<u64> {
        let known = |blocks: &[usize]| -> Option<u64> {
            let known = self.known.lock();
            blocks.iter().map(|block| known.totals.get(block).copied()).sum()
        };
        if let Some(total) = known(blocks) {
            return Ok(total);
        }
        let counts = self.of(blocks, false, cancel)?;
        Ok(blocks.iter().filter_map(|block| counts.get(block)).map(|counts| self.sum(counts)).sum())
    }

    fn sum(&self, counts: &Amounts) -> u64 {
        let padded = |Amount { tokens, .. }| u64::from(self.packing.padded(tokens));
        counts.iter().map(padded).sum()
    }

    fn counted(&self, blocks: &[usize], is_next: bool, cancel: &Cancel) -> Result<Vec<Amounts>> {
        let (dataset, rows, stores, source) = (
            Arc::clone(&self.dataset),
            Arc::clone(&self.rows),
            Arc::clone(&self.stores),
            self.source,
        );
        let (columns, next) = (self.columns.clone(), Arc::clone(&self.decoded));
        let count = move |number: usize| -> Result<Amounts> {
            let Some(block) = rows.blocks().get(number) else { return Ok(Amounts::new([], 1)) };
            let store = stores.get(block.place.file).and_then(Option::as_deref);
            if is_next {
                let (decoded, totals) =
                    totals_of(|| decoded(&dataset, block, &columns, source, store));
                if let Some((counts, rows)) = decoded {
                    next.add(number, rows, totals);
                    return Ok(counts);
                }
            }
            of_block_kept(&dataset, &rows, number, block, source, store)
        };
        if self.threads == 0 || blocks.len() < 2 {
            return blocks
                .iter()
                .map(|block| {
                    cancel.check().map_err(crate::Error::from).and_then(|()| count(*block))
                })
                .collect();
        }
        let (numbers, len) = (blocks.to_vec(), blocks.len());
        let work = move |place: usize| {
            ControlFlow::Continue(
                numbers.get(place).map_or_else(|| Ok(Amounts::new([], 1)), |block| count(*block)),
            )
        };
        // A run cancels what it was given when it is dropped.
        let own = Cancel::default();
        let mut found = Vec::with_capacity(len);
        for counts in run_in_order(len, self.dataset.reading_threads(self.threads), &own, work)? {
            cancel.check()?;
            found.push(counts??);
        }
        Ok(found)
    }
}

impl Drop for RowCounts {
    fn drop(&mut self) {
        self.publish();
    }
}

impl Known {
    fn add(&mut self, block: usize, counts: &Amounts, total: u64) {
        self.totals.insert(block, total);
        if self.counts.insert(block, counts.clone()).is_none() {
            self.oldest.push_back(block);
            self.rows += counts.len();
        }
        while self.rows > KEPT_ROWS
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.rows -= self.counts.remove(&oldest).map_or(0, |counts| counts.len());
        }
    }
}
