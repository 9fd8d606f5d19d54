//! Keeps samples or rows for which an expression is true.

use crate::report::SplitReport;
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};
use shardmill_documents::materialize::Bodies;
use shardmill_documents::schema::is_reserved;
use shardmill_documents::settle::apply_verdict;
use shardmill_documents::table::to_table;
use shardmill_documents::{Chunk, Modality};
use shardmill_plan::Expression;
use std::sync::Arc;

/// The unit that the expression judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// The metadata row with sample-level values; it decides for the whole sample.
    Sample,
    /// Each content row separately.
    Row,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    pub expression: Expression,
    /// `None`: rows if a reserved column is named, else samples.
    pub per: Option<Per>,
    pub drop_invalid_rows: bool,
}

/// The type of a column without values is unknown, and must not conflict with a literal; another
/// split may know it.
fn without_empty_columns(table: &RecordBatch) -> Result<RecordBatch> {
    let is_empty = |column: &ArrayRef| column.null_count() == column.len();
    let columns = table.columns().iter().map(|column| {
        if is_empty(column) {
            new_null_array(&DataType::Null, column.len())
        } else {
            Arc::clone(column)
        }
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let names = table
        .schema()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
        .collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(names)), columns)
        .map_err(Error::unfit("table", "nulls"))
}

impl Filter {
    pub(crate) fn apply(&self, chunk: &mut Chunk, report: &mut SplitReport) -> Result<()> {
        let table = to_table(chunk, &Bodies::absent(chunk.rows.len()).into_column())?;
        let verdict = self.expression.keep(&without_empty_columns(&table)?)?;
        let per = self.per.unwrap_or_else(|| {
            if self.expression.columns().into_iter().any(is_reserved) {
                Per::Row
            } else {
                Per::Sample
            }
        });
        let mut keep = verdict.clone();
        match per {
            Per::Row => {
                for (keep, row) in keep.iter_mut().zip(&chunk.rows) {
                    *keep = *keep || row.modality == Modality::Metadata;
                }
            }
            Per::Sample => {
                for range in chunk.document_ranges() {
                    let is_kept = range.clone().any(|index| {
                        let is_metadata = chunk
                            .rows
                            .get(index)
                            .is_some_and(|row| row.modality == Modality::Metadata);
                        is_metadata && verdict.get(index) == Some(&true)
                    });
                    keep.get_mut(range).unwrap_or_default().fill(is_kept);
                }
            }
        }
        report
            .ledger
            .drop_rows("filter expression", keep.iter().filter(|keep| !**keep).count() as u64);
        apply_verdict(chunk, keep, self.drop_invalid_rows, &mut report.ledger);
        Ok(())
    }
}
