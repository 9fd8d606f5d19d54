//! Blocks that were decoded to count their tokens, until a pass delivers them: so a text is
//! tokenized once.

use super::LengthsSource;
use super::amounts::{Amounts, counted_columns};
use crate::Dataset;
use crate::dataset::BlockOf;
use crate::row_set::RowBlock;
use crate::tokenize::{TokenCounts, TokenTotals, add_totals};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use shardmill_storage::Remembered;
use std::collections::{BTreeMap, HashMap};

/// With more, in addition to those of the windows of a balance, the oldest blocks are given up, and
/// decoded again when they are delivered. A block without tokens is never delivered.
const MOST_BYTES: usize = 256 << 20;

#[derive(Debug, Default)]
pub(crate) struct DecodedBlocks(Remembered<State>);

#[derive(Debug, Default)]
struct State {
    blocks: HashMap<usize, Decoded>,
    /// Blocks by their age.
    oldest: BTreeMap<u64, usize>,
    bytes: usize,
    /// Of windows of a balance.
    more_bytes: usize,
    next: u64,
}

#[derive(Debug)]
struct Decoded {
    number: u64,
    rows: RecordBatch,
    totals: TokenTotals,
}

impl DecodedBlocks {
    /// `totals` are those of the rows, which count once they are taken.
    pub(super) fn add(&self, block: usize, rows: RecordBatch, totals: TokenTotals) {
        let mut state = self.0.lock();
        state.remove(block);
        let number = state.next;
        state.next += 1;
        state.bytes = state.bytes.saturating_add(rows.get_array_memory_size());
        state.blocks.insert(block, Decoded { number, rows, totals });
        state.oldest.insert(number, block);
        while state.bytes > MOST_BYTES.saturating_add(state.more_bytes)
            && let Some(oldest) = state.oldest.values().next().copied()
        {
            state.remove(oldest);
        }
    }

    pub(crate) fn take(&self, block: usize) -> Option<RecordBatch> {
        let Decoded { rows, totals, .. } = self.0.lock().remove(block)?;
        add_totals(totals);
        Some(rows)
    }

    pub(crate) fn clear(&self) {
        let mut state = self.0.lock();
        *state = State { more_bytes: state.more_bytes, ..State::default() };
    }

    /// Keeps more blocks from now on: those of packs that are drawn window by window.
    pub(crate) fn keep(&self, more_bytes: u64) {
        self.0.lock().more_bytes = usize::try_from(more_bytes).unwrap_or(usize::MAX);
    }
}

impl State {
    fn remove(&mut self, block: usize) -> Option<Decoded> {
        let decoded = self.blocks.remove(&block)?;
        self.oldest.remove(&decoded.number);
        self.bytes = self.bytes.saturating_sub(decoded.rows.get_array_memory_size());
        Some(decoded)
    }
}

/// Decodes a block and counts the tokens of its rows. `None` if its counts are kept, or if it
/// cannot be read or counted as a whole.
pub(super) fn decoded(
    dataset: &Dataset,
    block: &RowBlock,
    columns: &[usize],
    source: LengthsSource,
    kept: Option<&TokenCounts>,
) -> Option<(Amounts, RecordBatch)> {
    let LengthsSource::Lists { column, nulls_are_empty, .. } = source else { return None };
    let file = dataset.files().get(block.place.file)?;
    let places = || {
        (0..block.count).map(|offset| BlockOf { block: block.place.block + offset, ..block.place })
    };
    if let Some(kept) = kept
        && places().all(|place| Amounts::kept(kept, file, source, place).is_some())
    {
        return None;
    }
    // Whole blocks are counted, so that the counts serve other filters too.
    let selection = block.selection.as_ref();
    let rows = match block.count {
        1 => dataset.read(block.place, columns, selection.filter(|_| kept.is_none())),
        count => dataset.read_run(block.place, count, columns),
    };
    let rows = rows.ok()?;
    let place = |counted: usize| columns.iter().position(|column| *column == counted);
    let array = |counted: usize| rows.columns().get(place(counted)?);
    let lists: Option<Vec<_>> =
        counted_columns(dataset, Some(file), column).into_iter().map(array).collect();
    let affixes = source.affixes(Some(file));
    let counts = Amounts::of(dataset, &lists?, nulls_are_empty, affixes).ok()?;
    let Some(kept) = kept else { return Some((counts, rows)) };
    let mut start = 0;
    for place in places() {
        let end = start + usize::try_from(dataset.num_rows_of(place)).ok()?;
        counts.part(start..end).keep(kept, file, source, place);
        start = end;
    }
    let Some(selection) = selection else { return Some((counts, rows)) };
    let selected = counts.selected(Some(selection));
    Some((selected, filter_record_batch(&rows, &BooleanArray::new(selection.clone(), None)).ok()?))
}
