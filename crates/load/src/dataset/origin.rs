//! Where the columns of a data set come from in each of its files: a column of the file, a
//! constant, a computation on columns, or images.
//!
//! The invariant: a derived value depends on the source values of its row alone, so blocks, row
//! sets and orders do not depend on it.

use crate::images::{ImageLimits, Images};
use crate::spent::Stopwatch;
use crate::tokenize::{TokenCounts, TokenTotals, add_totals};
use crate::{Error, Result, UnderivableRow};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use shardmill_engine::Cancel;
use shardmill_plan::packing::Blocks;
use std::fmt::Debug;
use std::sync::Arc;

/// The origin of a column of the data set in one file.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// A column of the file, by index.
    File(usize),
    /// The same value in each row, as an array of length one.
    Constant(ArrayRef),
    /// A result of a computation on columns of the file, by index.
    Derived { by: Arc<Derivation>, output: usize },
    /// Images, as encoded bytes until they are delivered.
    Image(ImageOrigin),
    /// The file lacks the column.
    Absent,
}

/// A column that `images` makes from another column of one file.
#[derive(Debug, Clone)]
pub(super) struct ImageOrigin {
    pub(super) images: Arc<Images>,
    /// Where the encoded bytes are, and where the paths or URLs of images without bytes are.
    pub(super) encoded: Arc<EncodedOrigin>,
    /// Rows of the data set in the files before this one.
    pub(super) first_row: u64,
    /// What the paths of images are relative to, unless the options name another directory.
    pub(super) root: Arc<str>,
    /// Number of the data set in a mixture.
    pub(super) source: u64,
}

#[derive(Debug)]
pub(super) struct EncodedOrigin {
    pub(super) bytes: Origin,
    pub(super) path: Origin,
    /// Lists of the widths and heights of images, if columns state them.
    pub(super) sides: Vec<Origin>,
}

/// A computation on the rows of a batch.
pub trait Derive: Debug + Send + Sync {
    /// Whether the source of this number may have this type.
    fn accepts(&self, source: usize, data_type: &DataType) -> bool;

    /// Fields of the results.
    fn outputs(&self) -> &[FieldRef];

    /// One array for each of [`Derive::outputs`], of its type, as long as the sources. Strings and
    /// binaries of the sources are views.
    ///
    /// # Errors
    /// The rows that cannot be computed, and why.
    fn compute(&self, sources: &[ArrayRef]) -> std::result::Result<Vec<ArrayRef>, Underivable>;

    /// Where the lengths of the first result are kept, if they are.
    ///
    /// # Errors
    /// When kept lengths contradict each other.
    fn counts(&self, _cancel: &Cancel) -> Result<Option<Arc<TokenCounts>>> {
        Ok(None)
    }

    /// How many numbers are kept for each row.
    fn counts_of_row(&self) -> usize {
        1
    }

    /// What finds these numbers without the results, if anything does.
    fn counter(&self) -> Option<&dyn CountRows> {
        None
    }

    /// What is around the placeholders of an image in the first result.
    fn affixes(&self) -> Affixes {
        Affixes::default()
    }

    /// The same without images that exceed these limits; `None` if no image can exceed them.
    fn with_image_limits(&self, _limits: ImageLimits) -> Option<Limited> {
        None
    }

    /// Memory of the results for sources of this many bytes, estimated.
    fn output_bytes(&self, source_bytes: u64) -> u64;
}

/// A count of the rows of a batch.
pub trait CountRows {
    /// With `has_blocks`, the places of images are found as well.
    ///
    /// # Errors
    /// As [`Derive::compute`].
    fn count(
        &self,
        sources: &[ArrayRef],
        has_blocks: bool,
    ) -> std::result::Result<Counted, Underivable>;
}

/// What is counted of rows.
#[derive(Debug, Default)]
pub struct Counted {
    /// [`Derive::counts_of_row`] numbers of each row.
    pub numbers: Vec<u32>,
    /// Where the tokens of images are, if that was asked for.
    pub blocks: Blocks,
}

/// Ids that stay together with the placeholders of an image.
#[derive(Debug, Clone, Default)]
pub struct Affixes {
    /// One of these may be before them.
    pub before: Vec<Vec<u32>>,
    /// One of these may be after them.
    pub after: Vec<Vec<u32>>,
}

/// A computation with limits, and the images of its documents.
pub type Limited = (Arc<dyn Derive>, Arc<Images>);

/// Why a batch cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Underivable {
    /// It can be computed only without these rows. There is at least one; others may fail too.
    Rows(Vec<UnderivableRow>),
    /// The failure is not that of a row.
    Batch(String),
}

/// A computation with the origins of its sources in one file.
#[derive(Debug)]
pub(super) struct Derivation {
    pub(super) derive: Arc<dyn Derive>,
    /// Each with the type in which it is passed.
    pub(super) sources: Vec<(Origin, FieldRef)>,
}

impl Derivation {
    /// The results for a batch of `path`. `row_of` maps a row to its number in the file.
    pub(super) fn compute(
        &self,
        sources: &[ArrayRef],
        path: &str,
        row_of: impl FnOnce(usize) -> u64,
    ) -> Result<Vec<ArrayRef>> {
        let watch = Stopwatch::start();
        let computed =
            self.derive.compute(sources).map_err(|failure| self.error(failure, path, row_of))?;
        let tokens = computed
            .first()
            .and_then(|lists| lists.as_list_opt::<i32>())
            .map_or(0, |lists| lists.values().len() as u64);
        add_totals(TokenTotals { tokens, nanoseconds: watch.elapsed(), ..TokenTotals::default() });
        Ok(computed)
    }

    /// Whether [`Derivation::count`] returns numbers.
    pub(super) fn can_count(&self) -> bool {
        self.derive.counter().is_some()
    }

    /// What is counted of the rows of a batch, as [`Derivation::compute`].
    pub(super) fn count(
        &self,
        sources: &[ArrayRef],
        has_blocks: bool,
        path: &str,
        row_of: impl FnOnce(usize) -> u64,
    ) -> Result<Counted> {
        let watch = Stopwatch::start();
        let Some(counter) = self.derive.counter() else { return Ok(Counted::default()) };
        let counted = counter.count(sources, has_blocks);
        let counted = counted.map_err(|failure| self.error(failure, path, row_of))?;
        let of_rows = counted.numbers.iter().step_by(self.derive.counts_of_row().max(1));
        let tokens = of_rows.map(|tokens| u64::from(*tokens)).sum();
        add_totals(TokenTotals { tokens, nanoseconds: watch.elapsed(), ..TokenTotals::default() });
        Ok(counted)
    }

    /// Of the first row.
    fn error(&self, failure: Underivable, path: &str, row_of: impl FnOnce(usize) -> u64) -> Error {
        let path = path.to_owned();
        let name = |source: usize| {
            self.sources.get(source).map(|(_, field)| field.name().clone()).unwrap_or_default()
        };
        match failure {
            Underivable::Batch(reason) => Error::Underivable {
                path,
                row: row_of(0),
                column: name(0),
                reason: reason.into(),
                hint: None,
                rows: Arc::default(),
            },
            Underivable::Rows(rows) => {
                let rows: Arc<[_]> = rows
                    .into_iter()
                    .map(|row| UnderivableRow { column: name(row.source), ..row })
                    .collect();
                let UnderivableRow { row, column, reason, hint, .. } =
                    rows.first().cloned().unwrap_or_default();
                Error::Underivable {
                    path,
                    row: row_of(row),
                    column,
                    reason: reason.into(),
                    hint: hint.map(Into::into),
                    rows,
                }
            }
        }
    }

    pub(super) fn output_bytes(&self, source_bytes: u64) -> u64 {
        self.derive.output_bytes(source_bytes)
    }
}
