//! The rows of a data set: every block with its rows, after the filter.
//!
//! The filter runs once over the columns that it names, and its result is kept as one bit per row.
//! So the number of rows, the order and the state are exact with a filter too. Blocks without
//! rows are left out whether pruning detected them or not: the row set does not depend on what
//! could be pruned.

use crate::Result;
use crate::dataset::{BlockOf, Dataset};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_plan::order::{Block, RowOrder};
use shardmill_plan::prune::{prune, prune_by_members, prune_pages};
use shardmill_plan::{Expression, Predicate};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The rows of one epoch.
#[derive(Debug, Default)]
pub struct RowSet {
    blocks: Vec<RowBlock>,
    /// First id of each block.
    starts: Vec<u64>,
    num_rows: u64,
}

/// Adjacent blocks of a file are decoded together up to this size.
const MERGED_BYTES: u64 = 16 << 20;

/// And up to this fraction of a lane.
const MERGED_SHARE: u64 = 32;

/// Rows of one block, or of several adjacent blocks of a file.
#[derive(Debug, Clone)]
pub struct RowBlock {
    /// The first one.
    pub place: BlockOf,
    pub count: usize,
    pub rows: u64,
    /// Estimated size in memory of all columns.
    pub decoded_bytes: u64,
    /// One bit for each row of the block; `None` selects all.
    pub selection: Option<BooleanBuffer>,
}

impl RowSet {
    /// # Errors
    /// When the columns of the filter cannot be read, or do not match it.
    pub fn build(
        dataset: &Arc<Dataset>,
        filter: Option<&Expression>,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Self> {
        let all: Vec<RowBlock> =
            dataset.blocks().filter_map(|place| whole(dataset, place)).collect();
        let blocks = match filter {
            None => all,
            // Without files there are no columns for the filter.
            Some(_) if dataset.files().is_empty() => all,
            Some(filter) => filtered(dataset, filter, all, threads, cancel)?,
        };
        Ok(Self::of(blocks))
    }

    /// The rows of several sets, one set after another. Each comes with the index of its first file
    /// among all files.
    #[must_use]
    pub fn joined<'a>(sets: impl Iterator<Item = (usize, &'a Self)>) -> Self {
        let moved = |first_file: usize, block: &RowBlock| {
            let place = BlockOf { file: block.place.file + first_file, ..block.place };
            RowBlock { place, ..block.clone() }
        };
        Self::of(
            sets.flat_map(|(first_file, set)| {
                set.blocks.iter().map(move |block| moved(first_file, block))
            })
            .collect(),
        )
    }

    fn of(blocks: Vec<RowBlock>) -> Self {
        let mut num_rows = 0;
        let mut starts = Vec::with_capacity(blocks.len());
        for block in &blocks {
            starts.push(num_rows);
            num_rows += block.rows;
        }
        Self { blocks, starts, num_rows }
    }

    /// The same rows in the same order, with small blocks merged. Only for reading in file order:
    /// otherwise blocks determine the order. With more lanes blocks stay smaller, because blocks at
    /// the border of two lanes are read twice.
    #[must_use]
    pub fn merged(&self, lanes: u64) -> Self {
        let all: u64 =
            self.blocks.iter().map(|block| block.decoded_bytes).fold(0, u64::saturating_add);
        let limit = MERGED_BYTES.min(all / lanes.max(1) / MERGED_SHARE);
        let mut merged: Vec<RowBlock> = Vec::new();
        for block in &self.blocks {
            match merged.last_mut() {
                Some(last) if last.takes(block, limit) => {
                    last.count += 1;
                    last.rows += block.rows;
                    last.decoded_bytes += block.decoded_bytes;
                }
                _ => merged.push(block.clone()),
            }
        }
        Self::of(merged)
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    #[must_use]
    pub fn blocks(&self) -> &[RowBlock] {
        &self.blocks
    }

    /// The block of a row, and its index among all rows of that block.
    #[must_use]
    pub fn locate(&self, id: u64) -> Option<(usize, usize)> {
        let number = self.starts.partition_point(|start| *start <= id).checked_sub(1)?;
        let (block, start) = (self.blocks.get(number)?, *self.starts.get(number)?);
        let place = usize::try_from(id - start).ok().filter(|_| id - start < block.rows)?;
        Some((number, block.row(place)?))
    }

    /// The file of the selected row `row` of a block, and the index of that row in the file.
    #[must_use]
    pub fn row_of_file(&self, dataset: &Dataset, block: usize, row: u64) -> Option<(usize, u64)> {
        let selected = self.blocks.get(block)?.row(usize::try_from(row).ok()?)?;
        self.whole_row_of_file(dataset, block, selected as u64)
    }

    /// The file of row `row` among all rows of a block, and the index of that row in the file.
    pub(crate) fn whole_row_of_file(
        &self,
        dataset: &Dataset,
        block: usize,
        row: u64,
    ) -> Option<(usize, u64)> {
        let place = self.blocks.get(block)?.place;
        let before: u64 = dataset
            .files()
            .get(place.file)?
            .table
            .blocks()
            .iter()
            .take(place.block)
            .map(|block| block.rows)
            .sum();
        Some((place.file, before + row))
    }

    /// The path of the file of a row, and its number there.
    pub(crate) fn path_and_row(
        &self,
        dataset: &Dataset,
        block: usize,
        row: u64,
    ) -> Option<(String, u64)> {
        let (file, row) = self.row_of_file(dataset, block, row)?;
        Some((dataset.files().get(file)?.path.clone(), row))
    }

    /// The id of the first row of a block.
    #[must_use]
    pub fn first_id(&self, block: usize) -> Option<u64> {
        self.starts.get(block).copied()
    }

    /// The id of a row of a scheduled block; no row has it if there is no such block.
    pub(crate) fn id_at(&self, order: &RowOrder, scheduled: usize, row: u64) -> u64 {
        let first = order.block(scheduled).and_then(|block| self.first_id(block));
        first.map_or(u64::MAX, |first| first.saturating_add(row))
    }

    /// In the form that the order needs.
    #[must_use]
    pub fn order_blocks(&self) -> Vec<Block> {
        self.blocks.iter().map(RowBlock::for_order).collect()
    }

    /// In the form that the order of several sources needs; `first_files` are the indices of the
    /// first file of each.
    #[must_use]
    pub fn order_blocks_by_source(&self, first_files: &[usize]) -> Vec<Vec<Block>> {
        let mut sources = vec![Vec::new(); first_files.len()];
        for block in &self.blocks {
            let source =
                first_files.partition_point(|first| *first <= block.place.file).saturating_sub(1);
            if let Some(blocks) = sources.get_mut(source) {
                blocks.push(block.for_order());
            }
        }
        sources
    }
}

impl RowBlock {
    fn for_order(&self) -> Block {
        Block { rows: self.rows, decoded_bytes: self.decoded_bytes }
    }

    /// Estimated size in memory of `columns`, for the rows left by the filter.
    #[must_use]
    pub fn delivered_bytes(&self, dataset: &Dataset, columns: &[usize]) -> u64 {
        share(self.whole_bytes(dataset, columns), self.rows, self.whole_rows())
    }

    /// Estimated size in memory of `columns`, for all rows.
    pub(crate) fn whole_bytes(&self, dataset: &Dataset, columns: &[usize]) -> u64 {
        let places = (0..self.count)
            .map(|offset| BlockOf { block: self.place.block + offset, ..self.place });
        places.map(|place| dataset.decoded_bytes(place, columns)).sum()
    }

    /// Before the filter.
    pub(crate) fn whole_rows(&self) -> u64 {
        self.selection.as_ref().map_or(self.rows, |selection| selection.len() as u64)
    }

    fn takes(&self, next: &Self, limit: u64) -> bool {
        let follows =
            self.place.file == next.place.file && self.place.block + self.count == next.place.block;
        follows
            && self.selection.is_none()
            && next.selection.is_none()
            && self.decoded_bytes + next.decoded_bytes <= limit
    }

    /// The index of the selected row number `place` among all rows of the block.
    fn row(&self, place: usize) -> Option<usize> {
        match &self.selection {
            None => Some(place),
            Some(selection) => selection.set_indices().nth(place),
        }
    }
}

fn whole(dataset: &Dataset, place: BlockOf) -> Option<RowBlock> {
    let file = dataset.files().get(place.file)?;
    let block = file.table.blocks().get(place.block)?;
    match file.live_rows(place.block) {
        Some(live) => selected(dataset, place, live),
        None => (block.rows > 0).then_some(RowBlock {
            place,
            count: 1,
            rows: block.rows,
            decoded_bytes: block.decoded_bytes,
            selection: None,
        }),
    }
}

fn filtered(
    dataset: &Arc<Dataset>,
    filter: &Expression,
    all: Vec<RowBlock>,
    threads: usize,
    cancel: &Cancel,
) -> Result<Vec<RowBlock>> {
    dataset.check_filter(filter)?;
    let predicate = Arc::new(filter.bind(dataset.schema())?);
    let names: Vec<String> = predicate.columns().into_iter().map(str::to_owned).collect();
    let columns = dataset.columns(&names)?;
    let kept = Arc::new(possible(dataset, &predicate, &names, all)?);
    let threads = dataset.reading_threads(threads.max(1));
    let (count, blocks, dataset) = (kept.len(), Arc::clone(&kept), Arc::clone(dataset));
    let work = move |number: usize| {
        let selected =
            blocks.get(number).map(|block| select(&dataset, &predicate, &columns, block));
        ControlFlow::Continue(selected.unwrap_or(Ok(None)))
    };
    let mut selected = Vec::new();
    for block in run_in_order(count, threads, cancel, work)? {
        selected.extend(block??);
    }
    Ok(selected)
}

/// The blocks that statistics and bloom filters do not exclude.
fn possible(
    dataset: &Dataset,
    predicate: &Predicate,
    names: &[String],
    all: Vec<RowBlock>,
) -> Result<Vec<RowBlock>> {
    let mut kept = Vec::with_capacity(all.len());
    let mut all = all.into_iter().peekable();
    for (number, file) in dataset.files().iter().enumerate() {
        let rows: Vec<u64> = file.table.blocks().iter().map(|block| block.rows).collect();
        let column = |name: &str| {
            names
                .iter()
                .find(|known| *known == name)
                .and_then(|name| dataset.schema().index_of(name).ok())
        };
        let mut keep =
            prune(predicate, &rows, &|name: &str| file.statistics(column(name)?, dataset.schema()));
        prune_by_members(predicate, &mut keep, |block, name, values| {
            column(name).map_or(Ok(true), |column| file.may_contain(block, column, values))
        })?;
        while let Some(block) = all.next_if(|block| block.place.file == number) {
            if keep.get(block.place.block) != Some(&false) {
                kept.push(block);
            }
        }
    }
    Ok(kept)
}

fn select(
    dataset: &Dataset,
    predicate: &Predicate,
    columns: &[usize],
    block: &RowBlock,
) -> Result<Option<RowBlock>> {
    let Some(file) = dataset.files().get(block.place.file) else { return Ok(None) };
    let rows = file.table.blocks().get(block.place.block).map_or(0, |block| block.rows);
    let column = |name: &str| dataset.schema().index_of(name).ok();
    let ranges = prune_pages(predicate, rows, |name| {
        column(name).map_or(Ok(None), |column| {
            file.page_statistics(block.place.block, column, dataset.schema())
        })
    })?;
    let kept: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let selection = match kept {
        0 => return Ok(None),
        all if all == rows => predicate.selection(&dataset.read(block.place, columns, None)?)?,
        _ => {
            let possible = mask(&ranges, rows);
            let found =
                predicate.selection(&dataset.read(block.place, columns, Some(&possible))?)?;
            // The bits of `found` belong to the rows that were read.
            let mut selection = BooleanBufferBuilder::new(possible.len());
            selection.append_n(possible.len(), false);
            possible
                .set_indices()
                .zip(found.iter())
                .filter(|(_, is_found)| *is_found)
                .for_each(|(row, _)| selection.set_bit(row, true));
            selection.finish()
        }
    };
    let selection =
        block.selection.as_ref().map_or_else(|| selection.clone(), |live| &selection & live);
    Ok(selected(dataset, block.place, selection))
}

fn mask(ranges: &[Range<u64>], rows: u64) -> BooleanBuffer {
    let mut mask = BooleanBufferBuilder::new(usize::try_from(rows).unwrap_or_default());
    let mut end = 0;
    for range in ranges {
        mask.append_n(usize::try_from(range.start - end).unwrap_or_default(), false);
        mask.append_n(usize::try_from(range.end - range.start).unwrap_or_default(), true);
        end = range.end;
    }
    mask.append_n(usize::try_from(rows - end).unwrap_or_default(), false);
    mask.finish()
}

/// The selected rows of a block; `None` if there are none.
fn selected(dataset: &Dataset, place: BlockOf, selection: BooleanBuffer) -> Option<RowBlock> {
    let block = dataset.files().get(place.file)?.table.blocks().get(place.block)?;
    let rows = selection.count_set_bits() as u64;
    if rows == 0 {
        return None;
    }
    let decoded_bytes = share(block.decoded_bytes, rows, block.rows);
    let selection = (rows < block.rows).then_some(selection);
    Some(RowBlock { place, count: 1, rows, decoded_bytes, selection })
}

/// The share of `bytes` for `rows` of `all` rows.
fn share(bytes: u64, rows: u64, all: u64) -> u64 {
    u64::try_from(u128::from(bytes) * u128::from(rows) / u128::from(all.max(1))).unwrap_or(u64::MAX)
}
