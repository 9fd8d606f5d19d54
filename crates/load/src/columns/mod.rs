//! Converts columns from Arrow to plain numbers for training code.
//!
//! A [`RecordBatch`] is converted to a [`Superbatch`] of owned buffers; the binding passes those to
//! NumPy and torch, which divide them into batches by views. Called on the decoding threads, so
//! nothing here needs Python. [`Converter::new`] plans the conversion from the schema and the
//! policies alone. The invariant: every superbatch of one converter has the same names and types in
//! the same order, regardless of the data.
//!
//! | Arrow | becomes |
//! |---|---|
//! | integer, float, boolean, or a dictionary of them | [`Column::Values`], one number a row |
//! | date, time, timestamp, duration | the same as `i64` in the column's unit |
//! | fixed-size list of the above | [`Column::Values`], row after row, or [`Column::Lent`] |
//! | list of the above | [`Column::Ragged`], [`Column::Padded`] or [`Column::Values`] |
//! | list of such lists | the same, of lists |
//! | struct | [`Column::Struct`], of the columns of its fields |
//! | anything else | [`Column::Objects`]: the Arrow array, for Python to make objects of |
//!
//! A timestamp with a zone counts in UTC. [`Column::Lent`] is for pixels in memory of the consumer.
//! A list becomes [`Column::Padded`] under [`Pad`], and [`Column::Values`] if all rows are known to
//! be equally long.
//!
//! A null among floats becomes NaN. For all other numbers [`Nulls`] decides. A row of a list column
//! that is null or contains a null is treated like a null. In a null struct, all fields are null.

mod error;
mod fill;
mod form;
mod layout;
mod lists;
mod numbers;
mod pad;
#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub(crate) use error::{LIST_LENGTH, LONG_LIST};
pub use fill::FillValue;
pub(crate) use form::is_list_of_numbers;
pub use layout::Side;
pub use numbers::Numbers;
pub use pad::Pad;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::{DataType, Schema};
use arrow_select::nullif::nullif;
use form::{Lists, Node, NumberPlan, Plan, outputs_of};
use std::collections::BTreeMap;

/// The form of the batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Torch,
    Numpy,
    /// Python lists only: every column stays objects, and nulls stay nulls.
    Dict,
}

/// How nulls are handled if the type has no value for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nulls {
    #[default]
    Error,
    /// The user's fill value for the column, also for floats; a null list becomes an empty one. A
    /// column without a fill value behaves as with [`Nulls::Error`].
    Fill,
    /// Zero, or an empty list, and a boolean mask column, which is in every batch.
    Mask,
}

/// What decides about the form of columns, beside their types. Fields of structs are named by paths
/// such as `meta.lang`.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnOptions {
    pub kind: Kind,
    pub nulls: Nulls,
    pub fill_values: BTreeMap<String, FillValue>,
    pub pad: Option<Box<Pad>>,
    /// Columns of lists whose rows are all equally long, with that length.
    pub list_lengths: BTreeMap<String, usize>,
    /// Columns in memory of the consumer, which stay there.
    pub lent: Vec<String>,
}

impl ColumnOptions {
    #[must_use]
    pub fn new(kind: Kind, nulls: Nulls) -> Self {
        Self {
            kind,
            nulls,
            fill_values: BTreeMap::new(),
            pad: None,
            list_lengths: BTreeMap::new(),
            lent: Vec::new(),
        }
    }
}

/// One entry of every batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    pub form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// `element` is the Arrow type of one number; dates and times are nevertheless `i64`. `shape`
    /// is that of one row.
    Values {
        element: DataType,
        shape: Vec<usize>,
    },
    Padded {
        element: DataType,
    },
    Ragged {
        values: Box<Form>,
        has_mask: bool,
    },
    Struct(Vec<Output>),
    /// One number for each batch.
    Each(DataType),
    Strings,
    Binaries,
    Objects,
}

/// Rows of one or several batches in separate memory.
#[derive(Debug)]
pub struct Superbatch {
    pub rows: usize,
    /// In the order of [`Converter::outputs`].
    pub columns: Vec<Column>,
}

#[derive(Debug)]
pub enum Column {
    Values(Numbers),
    /// The same, in memory of the consumer.
    Lent(Buffer),
    Padded {
        /// Batch after batch.
        values: Numbers,
        /// Shape of each batch.
        shapes: Vec<Vec<usize>>,
    },
    Ragged {
        values: Box<Column>,
        /// One more than rows, starting at 0.
        offsets: Vec<i64>,
        /// One for each of `values`.
        valid: Option<Vec<bool>>,
    },
    /// In the order of [`Form::Struct`].
    Struct(Vec<Column>),
    /// For each batch.
    Each(Numbers),
    Objects(ArrayRef),
}

/// Turns batches of one schema into superbatches.
#[derive(Debug, Clone)]
pub struct Converter {
    kind: Kind,
    plans: Vec<Plan>,
    outputs: Vec<Output>,
}

impl Converter {
    /// # Errors
    /// When a column cannot have the requested form, or a fill value or pad value does not fit.
    pub fn new(schema: &Schema, options: &ColumnOptions) -> Result<Self> {
        let plans = schema
            .fields()
            .iter()
            .map(|field| Plan::new(field, None, options))
            .collect::<Result<Vec<_>>>()?;
        let paths: Vec<&str> = plans.iter().flat_map(Plan::paths).collect();
        let unknown = |option: &'static str, names: &BTreeMap<String, FillValue>| match names
            .keys()
            .find(|name| !paths.contains(&name.as_str()))
        {
            Some(column) => {
                let available: Vec<_> = paths.iter().map(|path| format!("`{path}`")).collect();
                Err(Error::UnknownName {
                    option,
                    column: column.clone(),
                    available: available.join(", "),
                })
            }
            None => Ok(()),
        };
        unknown("fill_values", &options.fill_values)?;
        if let Some(pad) = &options.pad {
            unknown("pad_value", &pad.values)?;
            if pad.columns.is_none()
                && !plans
                    .iter()
                    .flat_map(Plan::number_plans)
                    .any(|plan| matches!(plan.lists, Lists::Padded { .. }))
            {
                return Err(Error::NothingToPad);
            }
        }
        let outputs = outputs_of(&plans)?;
        Ok(Self { kind: options.kind, plans, outputs })
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The same with entries that are one number for each batch, which the caller adds.
    #[must_use]
    pub fn with_each(mut self, names: &[&str], element: &DataType) -> Self {
        self.outputs.extend(
            names
                .iter()
                .map(|name| Output { name: (*name).to_owned(), form: Form::Each(element.clone()) }),
        );
        self
    }

    /// Name and form of every entry of a batch.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The first column whose type is only supported by torch 2.3 and later.
    #[must_use]
    pub fn wide_unsigned(&self) -> Option<&str> {
        let mut plans = self.plans.iter().flat_map(Plan::number_plans);
        plans
            .find(|plan| {
                matches!(plan.element, DataType::UInt16 | DataType::UInt32 | DataType::UInt64)
            })
            .map(|plan| plan.path.as_str())
    }

    /// Size of the columns of a row that are padded to a fixed length.
    #[must_use]
    pub fn padded_row_bytes(&self) -> u64 {
        self.plans
            .iter()
            .flat_map(Plan::number_plans)
            .map(NumberPlan::padded_bytes)
            .fold(0, u64::saturating_add)
    }

    /// Whether a null in a row of this column is an error.
    #[must_use]
    pub fn refuses_nulls(&self, column: &str) -> bool {
        let refuses = |plan: &Plan| {
            matches!(
                &plan.node,
                Node::Numbers(plan)
                    if plan.levels == 0 && plan.widths.is_empty() && plan.replacement.is_none()
            )
        };
        self.plans.iter().any(|plan| plan.name == column && refuses(plan))
    }

    /// `batches` are the numbers of rows of the batches in `rows`.
    ///
    /// # Errors
    /// When a null occurs under [`Nulls::Error`], a list has a length that its form does not allow,
    /// or the batch does not have the converter's schema.
    pub fn convert(&self, rows: RecordBatch, batches: &[usize]) -> Result<Superbatch> {
        let (_, arrays, rows) = rows.into_parts();
        let mut columns = Vec::with_capacity(self.outputs.len());
        convert_all(&self.plans, arrays, batches, &mut columns)?;
        Ok(Superbatch { rows, columns })
    }
}

fn convert_all(
    plans: &[Plan],
    arrays: Vec<ArrayRef>,
    batches: &[usize],
    columns: &mut Vec<Column>,
) -> Result<()> {
    if arrays.len() != plans.len() {
        return Err(Error::ColumnCount { expected: plans.len(), found: arrays.len() });
    }
    for (plan, array) in plans.iter().zip(arrays) {
        match &plan.node {
            Node::Objects(_) => columns.push(Column::Objects(array)),
            Node::Numbers(numbers) => numbers.convert(array, batches, columns)?,
            Node::Struct(fields) => {
                let mut parts = Vec::with_capacity(fields.len());
                convert_all(fields, fields_of(plan, array)?, batches, &mut parts)?;
                columns.push(Column::Struct(parts));
            }
        }
    }
    Ok(())
}

/// The fields of a struct, null where the struct is.
fn fields_of(plan: &Plan, array: ArrayRef) -> Result<Vec<ArrayRef>> {
    let Some(fields) = array.as_struct_opt().cloned() else {
        return Err(Error::Changed {
            column: plan.path.clone(),
            expected: DataType::Struct(Vec::<arrow_schema::Field>::new().into()),
            found: array.data_type().clone(),
        });
    };
    drop(array);
    let (_, fields, nulls) = fields.into_parts();
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(fields) };
    let missing = BooleanArray::new(!nulls.inner(), None);
    let masked = |field: &ArrayRef| {
        nullif(field, &missing)
            .map_err(|source| Error::Dictionary { column: plan.path.clone(), source })
    };
    fields.iter().map(masked).collect()
}

fn valid(nulls: Option<&NullBuffer>, count: usize) -> Vec<bool> {
    nulls.map_or_else(|| vec![true; count], |nulls| numbers::bools(nulls.inner()))
}

fn mask(nulls: Option<&NullBuffer>, count: usize) -> Column {
    Column::Values(Numbers::Bool(valid(nulls, count)))
}
