//! Finds values after the sample that change the type of a column: a fraction in a column of
//! integers, and the first values of a column that was null.
//!
//! The pass that finds the records of a file sees all of its bytes; [`Late`] splits them into
//! fields and looks at those of such columns only. Any other value that does not fit is an error
//! where it is read. The invariant: the types of a file depend on its bytes and on
//! the sample alone.

use super::CsvOptions;
use super::infer::{Inferred, LateColumns};
use super::kind::{Kinds, NullValues};
use super::rows::{Rows, is_null};
use super::tokenize::Tokenizer;
use arrow_schema::DataType;

/// Fields that are split before they are looked at: as much text as fits into the cache.
const BATCH_FIELDS: usize = 1 << 14;

/// Each integer of this many digits fits int64.
const INTEGER_DIGITS: usize = 18;

/// A column whose type may change.
struct LateColumn {
    name: String,
    /// In the records of the file.
    place: usize,
    sample: Kinds,
    kinds: Kinds,
    /// Has integers in the sample.
    is_integer: bool,
}

/// The types of a file while it is passed.
pub(super) struct Late<'a> {
    options: &'a CsvOptions,
    nulls: &'a NullValues,
    width: usize,
    columns: Vec<LateColumn>,
}

impl<'a> Late<'a> {
    /// `names` are those of the columns of the file.
    pub(super) fn new(
        inferred: &Inferred,
        names: &[String],
        options: &'a CsvOptions,
        nulls: &'a NullValues,
    ) -> Self {
        let column = |(place, name): (usize, &String)| {
            let sample = inferred.kinds(name)?;
            let data_type = sample.data_type();
            let is_integer = data_type == DataType::Int64;
            let may_change = is_integer || data_type == DataType::Null;
            may_change.then(|| LateColumn {
                name: name.clone(),
                place,
                sample,
                kinds: sample,
                is_integer,
            })
        };
        Self {
            options,
            nulls,
            width: names.len(),
            columns: names.iter().enumerate().filter_map(column).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Looks at a piece of the file, which holds whole records.
    pub(super) fn look(&mut self, piece: &[u8]) {
        let batch_rows = (BATCH_FIELDS / self.width.max(1)).max(1);
        let mut tokenizer = Tokenizer::new(piece, self.options, true);
        let mut rows = Rows::new(piece, self.width, self.options.quote);
        let mut unquoted = Vec::new();
        loop {
            let is_more = tokenizer.fill(&mut rows, batch_rows, &mut || true);
            for column in &mut self.columns {
                for (row, span) in rows.field(column.place).enumerate() {
                    let text = rows.text(span, &mut unquoted);
                    if column.is_integer && is_short_integer(text) {
                        continue;
                    }
                    let is_bad =
                        || rows.faults.binary_search_by_key(&row, |fault| fault.row).is_ok();
                    if !is_null(&rows, span, self.nulls, &mut unquoted) && !is_bad() {
                        column.kinds = late_kinds(column.sample, column.kinds, |kinds| {
                            kinds.narrow(rows.text(span, &mut unquoted));
                        });
                    }
                }
            }
            rows.clear();
            if !is_more {
                return;
            }
        }
    }

    /// The columns whose types are not those of the sample.
    pub(super) fn into_changed(self) -> LateColumns {
        let is_changed =
            |column: &LateColumn| column.kinds.data_type() != column.sample.data_type();
        let changed = self.columns.into_iter().filter(is_changed);
        LateColumns(changed.map(|column| (column.name, column.kinds)).collect())
    }
}

/// `kinds` after `narrow`, unless a column that holds values in the sample would become anything
/// but float64.
pub(super) fn late_kinds(sample: Kinds, kinds: Kinds, narrow: impl FnOnce(&mut Kinds)) -> Kinds {
    let mut narrowed = kinds;
    narrow(&mut narrowed);
    let is_free = sample.data_type() == DataType::Null;
    if is_free || narrowed.data_type() == DataType::Float64 { narrowed } else { kinds }
}

fn is_short_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.len() <= INTEGER_DIGITS && digits.iter().all(u8::is_ascii_digit)
}
