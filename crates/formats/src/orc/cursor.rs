//! Decodes a column of a stripe in steps.

use super::DecodeError;
use crate::table::Step;
use crate::table::exact::{self, Misfit, exactly};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use orc_rust::schema::DataType as OrcType;
use std::sync::Arc;

/// With a selection, rows are decoded or skipped in units of this size.
pub(super) const SELECTED_ROWS: usize = 4096;

/// Where a column is in the type tree.
pub(super) struct Place<'a> {
    pub(super) column: usize,
    /// The type of the top-level column.
    pub(super) root: usize,
    /// The types of the structs around the field, the outermost first.
    pub(super) structs: Vec<usize>,
    /// From the top-level column down to the field.
    pub(super) steps: &'a [Step],
    /// What is decoded as a whole: the field, or the outermost list around it.
    pub(super) node: &'a OrcType,
}

/// Why a column of a stripe cannot be read.
pub(super) enum Fault {
    Decode(DecodeError),
    /// In a row of the stripe.
    Value(Misfit),
}

impl<E: Into<DecodeError>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Decode(error.into())
    }
}

/// One column of a stripe.
pub(super) struct Cursor<'a> {
    /// Decodes times as decimals: in 64 bits, it would return null for times that a time zone moves
    /// out of range.
    pub(super) decoder: Box<dyn orc_rust::array_decoder::ArrayBatchDecoder>,
    pub(super) data_type: &'a DataType,
    pub(super) rows: usize,
    /// Nulls of the structs around it.
    pub(super) nulls: Option<NullBuffer>,
}

impl Cursor<'_> {
    pub(super) fn read(
        &mut self,
        selection: Option<&BooleanBuffer>,
        batch_rows: usize,
    ) -> Result<ArrayRef, Fault> {
        let step = if selection.is_some() { SELECTED_ROWS } else { batch_rows };
        // Rows after the last selected one are not decoded.
        let end = selection.map_or(self.rows, |selection| {
            selection.set_indices().last().map_or(0, |last| last + 1).min(self.rows)
        });
        let mut parts: Vec<ArrayRef> = Vec::new();
        for start in (0..end).step_by(step) {
            let len = step.min(end - start);
            parts.extend(match selection {
                None => Some(self.next(start, len)?),
                Some(selection) => self.selected(start, &selection.slice(start, len))?,
            });
        }
        match parts.as_slice() {
            [] => Ok(arrow_array::new_empty_array(self.data_type)),
            [one] => Ok(Arc::clone(one)),
            parts => Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
        }
    }

    fn nulls_at(&self, start: usize, len: usize) -> Option<NullBuffer> {
        self.nulls.as_ref().map(|nulls| nulls.slice(start, len))
    }

    /// The rows from `start` on, which are the next ones.
    fn next(&mut self, start: usize, len: usize) -> Result<ArrayRef, Fault> {
        let decoded = self.decoder.next_batch(len, self.nulls_at(start, len).as_ref())?;
        exactly(&decoded, self.data_type).map_err(|failure| match failure {
            exact::Failure::Value(misfit) => {
                Fault::Value(Misfit { row: start as u64 + misfit.row, ..misfit })
            }
            exact::Failure::Arrow(error) => error.into(),
        })
    }

    fn selected(
        &mut self,
        start: usize,
        selection: &BooleanBuffer,
    ) -> Result<Option<ArrayRef>, Fault> {
        if selection.count_set_bits() == 0 && !self.data_type.is_nested() {
            self.decoder
                .skip_values(selection.len(), self.nulls_at(start, selection.len()).as_ref())?;
            return Ok(None);
        }
        let array = self.next(start, selection.len())?;
        let kept = filter(&array, &BooleanArray::new(selection.clone(), None))?;
        Ok((!kept.is_empty()).then_some(kept))
    }
}
