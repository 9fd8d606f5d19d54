//! How many tokens each row has: found once for a row set, as a filter's selection is.

use super::Error;
use super::lists::{TokenLists, Wrong};
use crate::row_set::RowBlock;
use crate::{Dataset, Result, RowSet};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::DataType;
use sha2::{Digest, Sha256};
use shardmill_engine::{Cancel, run_in_order};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// By the id of a row in its row set.
#[derive(Debug, Default)]
pub struct Lengths {
    tokens: Vec<u32>,
    digest: OnceLock<String>,
}

/// Where lengths come from: a column of the data set, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthsSource {
    /// The lists themselves.
    Lists { column: usize, nulls_are_empty: bool },
    /// A column that says it.
    Stated { column: usize },
}

impl Lengths {
    /// # Errors
    /// When the column cannot be read, has a null or a token count that is none.
    pub fn find(dataset: &Arc<Dataset>, rows: &RowSet, source: LengthsSource, threads: usize, cancel: &Cancel) -> Result<Self> {
        let column = match source {
            LengthsSource::Lists { column, .. } | LengthsSource::Stated { column } => column,
        };
        if let (LengthsSource::Stated { .. }, Some(field)) = (source, dataset.schema().fields().get(column))
            && !field.data_type().is_integer()
        {
            return Err(Error::NotLengths { column: field.name().clone(), data_type: field.data_type().clone() }.into());
        }
        // Ids are the same, and small blocks are read together.
        let merged = Arc::new(rows.merged(1));
        let (count, own, shared) = (merged.blocks().len(), Arc::clone(dataset), Arc::clone(&merged));
        let work = move |number: usize| {
            let found = shared.blocks().get(number).map(|block| of_block(&own, &shared, number, block, source));
            ControlFlow::Continue(found.unwrap_or_else(|| Ok(Vec::new())))
        };
        let mut tokens = Vec::with_capacity(usize::try_from(rows.num_rows()).unwrap_or_default());
        for found in run_in_order(count, threads.max(1), cancel, work)? {
            tokens.extend(found??);
        }
        Ok(Self { tokens, digest: OnceLock::new() })
    }

    /// Tokens of the row `id`.
    #[must_use]
    pub fn of(&self, id: u64) -> u32 {
        usize::try_from(id).ok().and_then(|id| self.tokens.get(id)).copied().unwrap_or_default()
    }

    /// Of all lengths; 32 hexadecimal digits.
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
            hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        })
    }
}

fn of_block(dataset: &Dataset, rows: &RowSet, number: usize, block: &RowBlock, source: LengthsSource) -> Result<Vec<u32>> {
    let column = match source {
        LengthsSource::Lists { column, .. } | LengthsSource::Stated { column } => column,
    };
    let batch = match block.count {
        1 => dataset.read(block.place, &[column], block.selection.as_ref())?,
        count => dataset.read_run(block.place, count, &[column])?,
    };
    let Some(array) = batch.columns().first() else { return Ok(Vec::new()) };
    let name = || dataset.schema().fields().get(column).map_or_else(String::new, |field| field.name().clone());
    let place = |row: usize| {
        let found = rows.row_of_file(dataset, number, row as u64);
        found.and_then(|(file, row)| Some((dataset.files().get(file)?.path.clone(), row))).unwrap_or_default()
    };
    let found = match source {
        LengthsSource::Lists { nulls_are_empty, .. } => of_lists(array, nulls_are_empty).map_err(|wrong| match wrong {
            None => Error::NotTokens { column: name(), data_type: array.data_type().clone() },
            Some((row, Wrong::NullRow)) => {
                let (path, row) = place(row);
                Error::NullRow { column: name(), path, row }
            }
            Some((row, Wrong::NullToken)) => {
                let (path, row) = place(row);
                Error::NullToken { column: name(), path, row }
            }
        }),
        LengthsSource::Stated { .. } => stated(array).map_err(|(row, value)| {
            let (path, row) = place(row);
            Error::NoLength { column: name(), path, row, value }
        }),
    };
    Ok(found?)
}

/// Or the first row that cannot be packed, and why.
fn of_lists(array: &ArrayRef, nulls_are_empty: bool) -> std::result::Result<Vec<u32>, Option<(usize, Wrong)>> {
    let lists = TokenLists::of(array).ok_or(None)?;
    let length = |row: usize| match lists.check(row, nulls_are_empty) {
        // No block has so many tokens.
        Ok(()) => Ok(u32::try_from(lists.range(row).len()).unwrap_or(u32::MAX)),
        Err(wrong) => Err(Some((row, wrong))),
    };
    (0..array.len()).map(length).collect()
}

/// Or the first row whose value is no length, and that value.
fn stated(array: &ArrayRef) -> std::result::Result<Vec<u32>, (usize, String)> {
    // What overflows becomes null, and is refused as such.
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
