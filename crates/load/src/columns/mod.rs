//! Columns as training code wants them: from Arrow to plain numbers.
//!
//! A [`RecordBatch`] enters, a [`Superbatch`] of owned buffers leaves; the binding hands those to NumPy and torch, which cut them into batches by views. Called on
//! the threads that decode, so nothing here needs Python. What a column becomes is decided by [`Converter::new`] from the schema and the policies alone.
//! The invariant: every superbatch of one converter has the same names and types in the same order, whatever the data is.
//!
//! | Arrow | becomes |
//! |---|---|
//! | integer, float, boolean, or a dictionary of them | [`Column::Values`], one number a row |
//! | date, time, timestamp, duration | the same as `i64` in the column's unit; a timestamp with a zone counts in UTC |
//! | fixed-size list of the above | [`Column::Values`], row after row |
//! | list of the above | [`Column::Ragged`] |
//! | anything else | [`Column::Objects`]: the Arrow array, for Python to make lists of |
//!
//! A null among floats becomes NaN. For all other numbers [`Nulls`] decides. A row of a list column that is null or holds a null is treated like a null.

mod error;
mod fill;
mod form;
mod lists;
mod numbers;
#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use fill::FillValue;
pub use numbers::Numbers;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Schema};
use form::{Plan, Shape};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What the batches are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Torch,
    Numpy,
    /// Python lists only: every column stays objects, and nulls stay nulls.
    Dict,
}

/// What becomes of a null where the type has no value for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nulls {
    #[default]
    Error,
    /// The value that the user gave for the column, also for floats; a null list becomes an empty one. A column without such a value keeps to
    /// [`Nulls::Error`].
    Fill,
    /// Zero, or an empty list, and a boolean column that says where; it is there in every batch.
    Mask,
}

/// One entry of every batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub name: String,
    pub form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// `element` is the Arrow type of one number; dates and times are `i64` all the same.
    Values {
        element: DataType,
        width: Option<usize>,
    },
    Ragged {
        element: DataType,
        has_mask: bool,
    },
    Objects,
}

/// Rows of one or several batches in memory of their own.
#[derive(Debug)]
pub struct Superbatch {
    pub rows: usize,
    /// In the order of [`Converter::outputs`].
    pub columns: Vec<Column>,
}

#[derive(Debug)]
pub enum Column {
    Values(Numbers),
    Ragged {
        values: Numbers,
        /// One more than there are rows, from 0 on.
        offsets: Vec<i64>,
        /// One for each of `values`.
        valid: Option<Vec<bool>>,
    },
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
    /// When a column cannot have the form that is asked for, or a fill value does not fit.
    pub fn new(schema: &Schema, kind: Kind, nulls: Nulls, fill_values: &BTreeMap<String, FillValue>) -> Result<Self> {
        if let Some(column) = fill_values.keys().find(|name| schema.index_of(name).is_err()) {
            let available: Vec<_> = schema.fields().iter().map(|field| format!("`{}`", field.name())).collect();
            return Err(Error::UnknownFill { column: column.clone(), available: available.join(", ") });
        }
        let plan = |field: &Arc<arrow_schema::Field>| Plan::new(field, kind, nulls, fill_values.get(field.name()));
        let plans = schema.fields().iter().map(plan).collect::<Result<Vec<_>>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = plans.iter().find(|plan| !names.insert(plan.name.as_str())) {
            return Err(Error::DuplicateName { column: twice.name.clone() });
        }
        let mut outputs = Vec::with_capacity(plans.len());
        for plan in &plans {
            let more = plan.outputs();
            if let Some(mask) = more.iter().skip(1).find(|mask| names.contains(mask.name.as_str())) {
                return Err(Error::MaskName { column: plan.name.clone(), mask: mask.name.clone() });
            }
            outputs.extend(more);
        }
        Ok(Self { kind, plans, outputs })
    }

    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Name and form of every entry of a batch.
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The first column whose type torch has since 2.3 only.
    #[must_use]
    pub fn wide_unsigned(&self) -> Option<&str> {
        let is_wide = |plan: &&Plan| plan.shape != Shape::Objects && matches!(plan.element, DataType::UInt16 | DataType::UInt32 | DataType::UInt64);
        self.plans.iter().find(is_wide).map(|plan| plan.name.as_str())
    }

    /// Whether a null in a row of this column ends the run.
    #[must_use]
    pub fn refuses_nulls(&self, column: &str) -> bool {
        self.plans.iter().any(|plan| plan.name == column && plan.shape == Shape::Scalar && plan.replacement.is_none())
    }

    /// # Errors
    /// When a null meets [`Nulls::Error`], or the batch is not of the schema that the converter was made for.
    pub fn convert(&self, batch: RecordBatch) -> Result<Superbatch> {
        let (_, arrays, rows) = batch.into_parts();
        if arrays.len() != self.plans.len() {
            return Err(Error::ColumnCount { expected: self.plans.len(), found: arrays.len() });
        }
        let mut columns = Vec::with_capacity(self.outputs.len());
        for (plan, array) in self.plans.iter().zip(arrays) {
            match plan.shape {
                Shape::Objects => columns.push(Column::Objects(array)),
                Shape::Scalar => plan.scalars(array, &mut columns)?,
                Shape::Fixed(width) => plan.fixed_lists(array, width, &mut columns)?,
                Shape::List => plan.lists(array, &mut columns)?,
            }
        }
        Ok(Superbatch { rows, columns })
    }
}

impl Plan {
    fn scalars(&self, array: ArrayRef, columns: &mut Vec<Column>) -> Result<()> {
        let rows = array.len();
        let (mut numbers, nulls) = self.numbers(array)?;
        self.replace(&mut numbers, nulls.as_ref(), |row| row)?;
        columns.push(Column::Values(numbers));
        if self.has_row_mask {
            columns.push(mask(nulls.as_ref(), rows));
        }
        Ok(())
    }

    /// Numbers of the type that was planned, and their nulls, with what a dictionary refers to in place.
    fn numbers(&self, array: ArrayRef) -> Result<(Numbers, Option<NullBuffer>)> {
        let array = match array.data_type() {
            DataType::Dictionary(..) => cast(&array, &self.element).map_err(|source| Error::Dictionary { column: self.name.clone(), source })?,
            _ => array,
        };
        if *array.data_type() != self.element {
            return Err(self.changed(array.data_type()));
        }
        Numbers::take(array).map_err(|array| self.changed(array.data_type()))
    }

    /// Applies the policy; `row_of` tells to which row a number belongs.
    fn replace(&self, numbers: &mut Numbers, nulls: Option<&NullBuffer>, row_of: impl Fn(usize) -> usize) -> Result<()> {
        let Some(nulls) = nulls else { return Ok(()) };
        match &self.replacement {
            Some(replacement) => numbers.overwrite(nulls, replacement),
            None => {
                if let Some(first) = (!nulls.inner()).set_indices().next() {
                    return Err(self.null(row_of(first)));
                }
            }
        }
        Ok(())
    }

    fn null(&self, row: usize) -> Error {
        Error::Null { column: self.name.clone(), row, data_type: self.element.clone() }
    }

    fn changed(&self, found: &DataType) -> Error {
        Error::Changed { column: self.name.clone(), expected: self.element.clone(), found: found.clone() }
    }
}

fn valid(nulls: Option<&NullBuffer>, count: usize) -> Vec<bool> {
    nulls.map_or_else(|| vec![true; count], |nulls| numbers::bools(nulls.inner()))
}

fn mask(nulls: Option<&NullBuffer>, count: usize) -> Column {
    Column::Values(Numbers::Bool(valid(nulls, count)))
}
