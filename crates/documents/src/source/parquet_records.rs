//! Rows of Parquet files of which each is one document.
//!
//! Columns without texts and images keep their types; their values are those of the metadata row.

use super::SplitContext;
use super::layout::{DocumentKeys, Layout};
use super::part_rows::Origin;
use super::parts::{id_of, parts_of};
use super::row_record::RowRecords;
use super::values::JobColumns;
use crate::ledger::Quarantined;
use crate::schema::{JobSchema, RESCUED, is_reserved, json_field};
use crate::source::conform::JobReader;
use crate::table::{batch_of, cast_checked};
use crate::{Chunk, Error, Lineage, Result, Row};
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat;
use serde_json::Map;
use std::sync::Arc;

/// Whether rows with these columns are texts and images of documents, and not documents.
pub(super) fn has_parts(schema: &Schema) -> bool {
    ["sample_id", "position", "modality"].iter().all(|name| schema.field_with_name(name).is_ok())
}

/// The columns that the documents of a file have, besides the reserved ones.
pub(super) fn own_columns(schema: &Schema, layout: &Layout, keys: &DocumentKeys) -> Schema {
    let of_parts = layout.of_parts();
    let passed = schema.fields().iter().filter(|field| {
        !is_consumed(field.name(), layout, keys)
            && !is_reserved(field.name())
            && of_parts.iter().all(|own| own.name() != field.name())
    });
    let typed = |field: &FieldRef| {
        if keys.per_image_fields.contains(field.name()) {
            of_image(field)
        } else {
            Arc::clone(field)
        }
    };
    let fields = passed.map(typed).collect::<Vec<_>>().into_iter();
    Schema::new(fields.chain(of_parts.iter().cloned().map(Arc::new)).collect::<Vec<_>>())
}

fn is_consumed(name: &str, layout: &Layout, keys: &DocumentKeys) -> bool {
    layout.content().contains(&name) || keys.sample_id_field.as_deref() == Some(name)
}

/// The column for the values of a list that has one for each image.
fn of_image(field: &Field) -> FieldRef {
    let name = field.name();
    let values = match field.data_type() {
        DataType::List(values) | DataType::LargeList(values) => values.data_type(),
        _ => &DataType::Null,
    };
    Arc::new(match values {
        DataType::Boolean => Field::new(name, DataType::Boolean, true),
        integer if integer.is_integer() => Field::new(name, DataType::Int64, true),
        float if float.is_floating() => Field::new(name, DataType::Float64, true),
        text if text.is_string() => Field::new(name, DataType::Utf8, true),
        _ => json_field(name),
    })
}

/// The documents of one file.
pub(super) struct FileRecords<'a> {
    pub layout: &'a Layout,
    pub keys: &'a DocumentKeys,
    pub path: &'a str,
    pub reader: &'a JobReader<'a>,
    /// The columns of the documents.
    pub columns: &'a SchemaRef,
}

impl FileRecords<'_> {
    /// The columns of the file that are read.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names = self.reader.names(self.columns);
        names.extend(self.layout.content());
        names.extend(self.keys.sample_id_field.as_deref());
        names.extend(self.keys.per_image_fields.iter().map(String::as_str));
        names
    }

    /// Counts columns whose names the documents use otherwise.
    pub(super) fn count_dropped(&self, file: &Schema, context: &mut SplitContext<'_>) {
        for field in file.fields() {
            if self.columns.field_with_name(field.name()).is_err()
                && !is_consumed(field.name(), self.layout, self.keys)
            {
                let reason = format!("column `{}` has the name of a reserved one", field.name());
                context.ledger.drop_key(reason);
            }
        }
    }

    /// Whether a column has values of single texts and images.
    fn is_of_part(&self, name: &str) -> bool {
        self.keys.per_image_fields.iter().any(|field| field == name)
            || self.layout.of_parts().iter().any(|field| field.name() == name)
    }

    /// The documents of some rows, of which the first is `first`.
    pub(super) fn chunk(
        &self,
        rows: &RecordBatch,
        first: u64,
        context: &mut SplitContext<'_>,
    ) -> Result<Chunk> {
        let records = RowRecords::new(rows, self.layout, self.keys)?;
        let JobSchema { agreed, choice } = self.reader.job;
        let fields = agreed.fields().iter();
        let fields =
            fields.filter(|field| self.is_of_part(field.name()) || field.name() == RESCUED);
        let agreed = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        let row_columns = JobColumns::new(JobSchema { agreed: &agreed, choice });
        let origin = Origin { path: self.path, image_root: self.keys.image_root.as_deref() };
        let (mut documents, mut found, mut of_parts) = (Vec::new(), Vec::<Row>::new(), Vec::new());
        for index in 0..rows.num_rows() {
            let record = records.row(index);
            let number = first + index as u64;
            let document = id_of(&record, self.keys)
                .and_then(|id| Ok((id, parts_of(&record, self.layout, self.keys)?)));
            let (id, parts) = match document {
                Ok(document) => document,
                Err(reason) => {
                    let reason = format!("row {number}: {reason}");
                    context.quarantine(Quarantined::part(self.path, reason))?;
                    continue;
                }
            };
            documents.push(id.unwrap_or_else(|| origin.numbered_id(number)));
            for (place, (row, values)) in origin.rows(Map::new(), parts).enumerate() {
                let mut extra = (place == 0).then_some(index);
                if !values.is_empty() {
                    extra = Some(rows.num_rows() + of_parts.len());
                    let cells = row_columns.cells(values, context.ledger);
                    cells.rescued().for_each(|key| context.ledger.rescue(key));
                    of_parts.push(cells);
                }
                let extra = extra.and_then(|extra| u32::try_from(extra).ok());
                found.push(Row { document: documents.len() - 1, extra, ..row });
            }
        }
        let extras = self.extras(rows, &row_columns.table(&of_parts)?, context)?;
        Ok(Chunk {
            documents,
            rows: found,
            extras,
            schema: Arc::clone(&self.reader.target),
            lineage: Lineage::default(),
        })
    }

    /// The passthrough values of `rows`, followed by those of parts.
    fn extras(
        &self,
        rows: &RecordBatch,
        of_parts: &RecordBatch,
        context: &mut SplitContext<'_>,
    ) -> Result<RecordBatch> {
        let unfit = Error::unfit("passthrough columns", "their schema");
        let own = rows.schema();
        let passed: Vec<usize> = (0..own.fields().len())
            .filter(|index| {
                let name = own.field(*index).name();
                self.columns.field_with_name(name).is_ok() && !self.is_of_part(name)
            })
            .collect();
        let conformed =
            self.reader.conform(&rows.project(&passed).map_err(&unfit)?, context.ledger)?;
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (field, column) in conformed.schema().fields().iter().zip(conformed.columns()) {
            if is_reserved(field.name()) {
                continue;
            }
            let values: ArrayRef = match of_parts.column_by_name(field.name()) {
                Some(values) if values.null_count() < values.len() => {
                    cast_checked(field.name(), values, field.data_type())?
                }
                _ => new_null_array(field.data_type(), of_parts.num_rows()),
            };
            columns.push(concat(&[column, &values]).map_err(&unfit)?);
            fields.push(Arc::clone(field));
        }
        batch_of(Arc::new(Schema::new(fields)), columns, rows.num_rows() + of_parts.num_rows())
            .map_err(unfit)
    }
}
