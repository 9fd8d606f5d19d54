//! The number of tokens of each row, computed once for a row set, like the selection of a filter.

use super::amounts::{Amounts, counted_columns};
use super::shared::count_together;
use super::{Error, LengthsSource};
use crate::dataset::{BlockOf, Counted, OpenFile};
use crate::row_set::RowBlock;
use crate::tokenize::TokenCounts;
use crate::{Dataset, Result, RowSet};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::DataType;
use sha2::{Digest, Sha256};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_plan::packing::{Amount, Blocks, Row, Unit};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// Indexed by the id of a row in its row set.
#[derive(Debug, Default)]
pub struct Lengths {
    tokens: Vec<u32>,
    /// Images, and their patches, of the rows up to the last one that may have images.
    images: Vec<(u32, u32)>,
    /// Where the tokens of images are, if rows may be cut.
    blocks: Blocks,
    digest: OnceLock<String>,
    warnings: Vec<String>,
    is_stated: bool,
    unit: Unit,
}

impl Lengths {
    /// # Errors
    /// When the column cannot be read, contains a null or an invalid token count.
    pub fn find(
        dataset: &Arc<Dataset>,
        rows: &RowSet,
        source: LengthsSource,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Self> {
        check_type(dataset, source)?;
        // Ids are the same, and small blocks are read together.
        let merged = Arc::new(rows.merged(1));
        let (count, own, shared) =
            (merged.blocks().len(), Arc::clone(dataset), Arc::clone(&merged));
        let stores = match source {
            LengthsSource::Lists { column, .. } => dataset
                .files()
                .iter()
                .map(|file| file.counts(column, cancel))
                .collect::<Result<Vec<_>>>()?,
            LengthsSource::Stated { .. } | LengthsSource::Numbers { .. } => Vec::new(),
        };
        count_together(dataset, &merged, &stores, source, threads, cancel)?;
        let of_files = stores.clone();
        let work = move |number: usize| {
            let store =
                |block: &RowBlock| of_files.get(block.place.file).and_then(Option::as_deref);
            let found = shared
                .blocks()
                .get(number)
                .map(|block| of_block_kept(&own, &shared, number, block, source, store(block)));
            ControlFlow::Continue(found.unwrap_or_else(|| Ok(Amounts::new([], 1))))
        };
        let mut tokens = Vec::with_capacity(usize::try_from(rows.num_rows()).unwrap_or_default());
        let (mut images, mut blocks) = (Vec::new(), Blocks::default());
        for found in run_in_order(count, threads.max(1), cancel, work)? {
            let found = found??;
            if found.has_images() {
                images.resize(tokens.len(), (0, 0));
                images.extend(found.iter().map(|row| (row.images, row.patches)));
                let of_row = |row| found.blocks(row).iter().copied();
                (0..found.len()).for_each(|row| blocks.add(tokens.len() + row, of_row(row)));
            }
            tokens.extend(found.iter().map(|row| row.tokens));
        }
        let mut warnings = Vec::new();
        for counts in stores.into_iter().flatten() {
            counts.publish();
            warnings.extend(counts.take_warnings());
        }
        Ok(Self {
            tokens,
            images,
            blocks,
            digest: OnceLock::new(),
            warnings,
            is_stated: source.is_stated(),
            unit: source.unit(dataset),
        })
    }

    /// What went wrong with counts that are kept in files.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether a column says them.
    pub(super) fn is_stated(&self) -> bool {
        self.is_stated
    }

    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Number of rows, sum, and the largest.
    #[must_use]
    pub fn totals(&self) -> (usize, u64, u32) {
        (
            self.tokens.len(),
            self.tokens.iter().map(|tokens| u64::from(*tokens)).sum(),
            self.tokens.iter().copied().max().unwrap_or_default(),
        )
    }

    /// Number of images, and of their patches.
    #[must_use]
    pub fn image_totals(&self) -> (u64, u64) {
        let sum = |number: fn(&(u32, u32)) -> u32| -> u64 {
            self.images.iter().map(|row| u64::from(number(row))).sum()
        };
        (sum(|row| row.0), sum(|row| row.1))
    }

    /// Tokens of the row `id`.
    #[must_use]
    pub fn of(&self, id: u64) -> u32 {
        usize::try_from(id).ok().and_then(|id| self.tokens.get(id)).copied().unwrap_or_default()
    }

    /// Images, and their patches, of the row `id` with its tokens.
    #[must_use]
    pub fn amount(&self, id: u64) -> Amount {
        let row = usize::try_from(id).unwrap_or(usize::MAX);
        let (images, patches) = self.images.get(row).copied().unwrap_or_default();
        Amount { tokens: self.of(id), images, patches }
    }

    /// What the row `id` takes of packs.
    #[must_use]
    pub fn row(&self, id: u64) -> Row<'_> {
        let row = usize::try_from(id).unwrap_or(usize::MAX);
        Row { amount: self.amount(id), blocks: self.blocks.of(row) }
    }

    /// Of all lengths, and of images if there are any, as 32 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| {
            let mut hash = Sha256::new();
            let mut bytes = Vec::with_capacity(4096 * 4);
            for tokens in self.tokens.chunks(4096) {
                bytes.clear();
                bytes.extend(tokens.iter().flat_map(|tokens| tokens.to_le_bytes()));
                hash.update(&bytes);
            }
            for (images, patches) in &self.images {
                hash.update([images.to_le_bytes(), patches.to_le_bytes()].concat());
            }
            for block in self.blocks.iter() {
                hash.update([block.start.to_le_bytes(), block.end.to_le_bytes()].concat());
            }
            hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        })
    }
}

/// # Errors
/// For a column of stated lengths that are not numbers of the kind.
pub(super) fn check_type(dataset: &Dataset, source: LengthsSource) -> Result<()> {
    let Some(field) = dataset.schema().fields().get(source.column()) else { return Ok(()) };
    let (column, data_type) = (field.name().clone(), field.data_type().clone());
    match source {
        LengthsSource::Stated { .. } if !data_type.is_integer() => {
            Err(Error::NotLengths { column, data_type }.into())
        }
        LengthsSource::Numbers { .. } if !data_type.is_integer() && !data_type.is_floating() => {
            Err(Error::NotNumbers { column, data_type }.into())
        }
        _ => Ok(()),
    }
}

/// Token counts of the rows of block `number`, from counts that are kept if there are any.
pub(super) fn of_block_kept(
    dataset: &Dataset,
    rows: &RowSet,
    number: usize,
    block: &RowBlock,
    source: LengthsSource,
    kept: Option<&TokenCounts>,
) -> Result<Amounts> {
    match kept {
        Some(counts) => counted(dataset, rows, number, block, source, counts),
        None => of_block(dataset, rows, number, block, source),
    }
}

/// As [`of_block`], from counts that are kept. Whole blocks are counted, so that the counts serve
/// other filters too.
fn counted(
    dataset: &Dataset,
    rows: &RowSet,
    number: usize,
    block: &RowBlock,
    source: LengthsSource,
    counts: &TokenCounts,
) -> Result<Amounts> {
    let Some(file) = dataset.files().get(block.place.file) else {
        return Ok(Amounts::new([], 1));
    };
    let width = file.counts_of_row(source.column());
    let mut found = Vec::with_capacity(block.count);
    for place in
        (0..block.count).map(|offset| BlockOf { block: block.place.block + offset, ..block.place })
    {
        let of_place = match Amounts::kept(counts, file, source, place) {
            Some(known) => known,
            None => match of_whole_block(dataset, place, source) {
                Ok(new) => {
                    new.keep(counts, file, source, place);
                    new
                }
                // Perhaps a row that the filter excludes; errors of other rows come
                // with their position.
                Err(_) => return of_block(dataset, rows, number, block, source),
            },
        };
        found.push(of_place.selected(block.selection.as_ref()));
    }
    Ok(Amounts::joined(&found, width))
}

pub(super) fn of_whole_block(
    dataset: &Dataset,
    place: BlockOf,
    source: LengthsSource,
) -> Result<Amounts> {
    let rows = dataset.num_rows_of(place);
    let block = RowBlock { place, count: 1, rows, decoded_bytes: 0, selection: None };
    of_block(dataset, &RowSet::default(), 0, &block, source)
}

fn of_block(
    dataset: &Dataset,
    rows: &RowSet,
    number: usize,
    block: &RowBlock,
    source: LengthsSource,
) -> Result<Amounts> {
    let column = source.column();
    if let LengthsSource::Lists { .. } = source
        && let Some(found) = stated_by_index(dataset, block, column)?
    {
        return Ok(Amounts::new(found, 1));
    }
    if let LengthsSource::Lists { has_blocks, .. } = source
        && let Some(found) = of_derived(dataset, block, column, has_blocks)?
    {
        return Ok(found);
    }
    let columns = match source {
        LengthsSource::Lists { .. } => {
            counted_columns(dataset, dataset.files().get(block.place.file), column)
        }
        LengthsSource::Stated { .. } | LengthsSource::Numbers { .. } => vec![column],
    };
    let heads = (block.count == 1 && columns.len() > 1)
        .then(|| dataset.read_heads(block.place, &columns, block.selection.as_ref()));
    let batch = match (heads.flatten(), block.count) {
        (Some(batch), _) => batch,
        (None, 1) => dataset.read(block.place, &columns, block.selection.as_ref())?,
        (None, count) => dataset.read_run(block.place, count, &columns)?,
    };
    let Some(array) = batch.columns().first() else { return Ok(Amounts::new([], 1)) };
    let name = || {
        dataset.schema().fields().get(column).map_or_else(String::new, |field| field.name().clone())
    };
    let place = |row: usize| rows.path_and_row(dataset, number, row as u64).unwrap_or_default();
    let found = match source {
        LengthsSource::Lists { nulls_are_empty, .. } => {
            let lists: Vec<&ArrayRef> = batch.columns().iter().collect();
            let affixes = source.affixes(dataset.files().get(block.place.file));
            Amounts::of(dataset, &lists, nulls_are_empty, affixes).map_err(|wrong| match wrong {
                None => Error::NotTokens { column: name(), data_type: array.data_type().clone() },
                Some((row, wrong)) => wrong.in_place(name(), place(row)),
            })
        }
        LengthsSource::Stated { .. } => {
            stated(array).map(|found| Amounts::new(found, 1)).map_err(|(row, value)| {
                let (path, row) = place(row);
                Error::NoLength { column: name(), path, row, value }
            })
        }
        LengthsSource::Numbers { .. } => {
            numbers(array).map(|found| Amounts::new(found, 1)).map_err(|(row, value)| {
                let (path, row) = place(row);
                Error::BadLength { column: name(), path, row, value }
            })
        }
    };
    Ok(found?)
}

/// What is counted of a derived column; `None` if only its values tell.
fn of_derived(
    dataset: &Dataset,
    block: &RowBlock,
    column: usize,
    has_blocks: bool,
) -> Result<Option<Amounts>> {
    let RowBlock { place, count, selection, .. } = block;
    let Some(file) = dataset.files().get(place.file) else { return Ok(None) };
    let blocks = place.block..place.block + count;
    let counted =
        |file: &OpenFile| file.count(blocks.clone(), column, selection.as_ref(), has_blocks);
    let found = match (*count == 1).then(|| dataset.of_heads(*place, counted)).flatten() {
        Some(found) => found,
        None => counted(file)?,
    };
    let amounts = |Counted { numbers, blocks }| {
        Amounts::new(numbers, file.counts_of_row(column)).with_blocks(blocks)
    };
    Ok(found.map(amounts))
}

/// What the index of the file states, which needs no token.
fn stated_by_index(dataset: &Dataset, block: &RowBlock, column: usize) -> Result<Option<Vec<u32>>> {
    let Some(file) = dataset.files().get(block.place.file) else { return Ok(None) };
    let mut all = Vec::with_capacity(usize::try_from(block.rows).unwrap_or_default());
    for number in block.place.block..block.place.block + block.count {
        match file.row_lengths(number, column, block.selection.as_ref())? {
            Some(lengths) => all.extend(lengths),
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

/// Returns the first row whose value is not a valid length, and that value, as an error.
fn stated(array: &ArrayRef) -> std::result::Result<Vec<u32>, (usize, String)> {
    // Values that overflow become null, and are rejected as such.
    let wide = cast(array, &DataType::Int64).map_err(|error| (0, error.to_string()))?;
    let wide = wide.as_primitive::<Int64Type>();
    let length = |row: usize| {
        if wide.is_null(row) {
            return Err((row, "null".to_owned()));
        }
        u32::try_from(wide.value(row)).map_err(|_not_a_length| (row, wide.value(row).to_string()))
    };
    (0..wide.len()).map(length).collect()
}

/// As [`stated`], for a column that may have floats: lengths of [`Unit::Float`].
fn numbers(array: &ArrayRef) -> std::result::Result<Vec<u32>, (usize, String)> {
    if !array.data_type().is_floating() {
        return stated(array);
    }
    let wide = cast(array, &DataType::Float64).map_err(|error| (0, error.to_string()))?;
    let wide = wide.as_primitive::<Float64Type>();
    let length = |row: usize| {
        if wide.is_null(row) {
            return Err((row, "null".to_owned()));
        }
        let value = wide.value(row);
        Unit::of_float(value).ok_or_else(|| (row, value.to_string()))
    };
    (0..wide.len()).map(length).collect()
}
