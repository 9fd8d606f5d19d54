//! Converts a superbatch for the consumer: Arrow rows with the declared types,
//! or columns of plain numbers.

use crate::columns::{self, ColumnOptions, Converter, Nulls, Numbers};
use crate::offsets::{Cuts, declared};
use crate::packing::{PackColumns, RowColumns, TOKENS_OF_RANK, TOKENS_OF_STEP};
use crate::pass::BatchRows;
use crate::{Dataset, Error, Result};
use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use shardmill_formats::table::Statistics;
use shardmill_plan::packing::Unit;
use std::sync::Arc;

/// Marks rows that pad the last step of an epoch.
pub const PADDED: &str = "__padded";

/// The output form of the loader.
#[derive(Debug)]
pub struct OutputConverter {
    columns: Vec<usize>,
    /// Declared schema of the output rows.
    schema: SchemaRef,
    is_padded: bool,
    /// `None` keeps Arrow.
    converter: Option<Converter>,
    /// Whether Arrow rows are cut only between batches.
    keeps_batches: bool,
    /// What the lengths of rows are, if batches are planned by them.
    unit: Option<Unit>,
}

/// The form of columns.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputKind {
    /// Batches of the requested sizes.
    Arrow,
    /// Any number of rows at a time, with exactly the declared types.
    ArrowStream,
    Columns(ColumnOptions),
}

/// The converted rows of a superbatch.
#[derive(Debug)]
pub enum Delivery {
    /// In one piece, unless a column is too long for its offsets.
    Rows(Vec<RecordBatch>),
    Columns(columns::Superbatch),
}

impl OutputConverter {
    /// # Errors
    /// When a column cannot have the requested form, or the footers show nulls
    /// that it cannot represent.
    pub fn new(
        dataset: &Dataset,
        columns: Vec<usize>,
        kind: OutputKind,
        is_padded: bool,
        is_filtered: bool,
        unit: Option<Unit>,
    ) -> Result<Self> {
        let mut fields: Vec<FieldRef> = columns
            .iter()
            .filter_map(|column| dataset.schema().fields().get(*column).cloned())
            .collect();
        if let Some(unit) = unit {
            RowColumns::check_names(fields.iter().map(|field| field.name().as_str()))?;
            fields.push(RowColumns::lengths(unit));
        }
        // A filter may remove all rows with nulls.
        let refuses_known_nulls = !is_filtered
            && matches!(&kind, OutputKind::Columns(options) if options.nulls == Nulls::Error);
        let mut output = Self::of_fields(fields, columns, kind, is_padded)?;
        output.unit = unit;
        if let Some(unit) = unit {
            let element = if unit == Unit::Float { DataType::Float64 } else { DataType::Int64 };
            let names = [TOKENS_OF_RANK, TOKENS_OF_STEP];
            output.converter = output.converter.map(|of| of.with_each(&names, &element));
        }
        if let Some(converter) = output.converter().filter(|_| refuses_known_nulls) {
            refuse_known_nulls(dataset, &output.columns, converter)?;
        }
        Ok(output)
    }

    /// For packs of rows.
    ///
    /// # Errors
    /// When a column cannot have the requested form.
    pub fn of_packs(packed: &PackColumns, kind: OutputKind, is_padded: bool) -> Result<Self> {
        Self::of_fields(
            packed.fields().iter().cloned().collect(),
            packed.columns().to_vec(),
            kind,
            is_padded,
        )
    }

    fn of_fields(
        mut fields: Vec<FieldRef>,
        columns: Vec<usize>,
        kind: OutputKind,
        is_padded: bool,
    ) -> Result<Self> {
        if is_padded {
            if let Some(taken) = fields.iter().find(|field| field.name() == PADDED) {
                return Err(Error::ReservedColumn { column: taken.name().clone() });
            }
            fields.push(Arc::new(Field::new(PADDED, DataType::Boolean, false)));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let keeps_batches = kind != OutputKind::ArrowStream;
        let converter = match kind {
            OutputKind::Arrow | OutputKind::ArrowStream => None,
            OutputKind::Columns(options) => Some(Converter::new(&in_views(&schema), &options)?),
        };
        Ok(Self { columns, schema, is_padded, converter, keeps_batches, unit: None })
    }

    /// Indices of the columns that are read.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Schema of the output Arrow rows.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    #[must_use]
    pub fn converter(&self) -> Option<&Converter> {
        self.converter.as_ref()
    }

    /// # Errors
    /// When a null or a list cannot be represented in the requested form, or a text is too long for
    /// its type.
    pub fn finish(&self, rows: RecordBatch, batches: &[BatchRows]) -> Result<Delivery> {
        let (schema, mut arrays, count) = rows.into_parts();
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        if self.is_padded {
            let marks = batches
                .iter()
                .flat_map(|batch| (0..batch.rows).map(|row| row >= batch.rows - batch.repeats));
            arrays.push(Arc::new(marks.map(Some).collect::<BooleanArray>()));
            fields.push(Arc::new(Field::new(PADDED, DataType::Boolean, false)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let rows =
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
                .map_err(Error::assemble)?;
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.rows).collect();
        match &self.converter {
            Some(converter) => {
                let mut columns = converter.convert(rows, &sizes)?;
                if let Some(unit) = self.unit {
                    columns.columns.extend(tokens_of(batches, unit).map(columns::Column::Each));
                }
                Ok(Delivery::Columns(columns))
            }
            None => {
                let cuts = if self.keeps_batches { Cuts::Batches(&sizes) } else { Cuts::Anywhere };
                Ok(Delivery::Rows(declared(&rows, &self.schema, cuts).map_err(Error::assemble)?))
            }
        }
    }
}

/// The tokens of each batch, and of its step.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn tokens_of(batches: &[BatchRows], unit: Unit) -> impl Iterator<Item = Numbers> {
    let parts: [fn(&BatchRows) -> f64; 2] = [|batch| batch.tokens.0, |batch| batch.tokens.1];
    parts.into_iter().map(move |part| {
        let tokens = batches.iter().map(part);
        match unit {
            Unit::Tokens => Numbers::Int64(tokens.map(|tokens| tokens as i64).collect()),
            Unit::Float => Numbers::Float64(tokens.collect()),
        }
    })
}

fn in_views(schema: &Schema) -> Schema {
    let view = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => {
            Arc::new(Field::clone(field).with_data_type(DataType::Utf8View))
        }
        DataType::Binary | DataType::LargeBinary => {
            Arc::new(Field::clone(field).with_data_type(DataType::BinaryView))
        }
        _ => Arc::clone(field),
    };
    Schema::new(schema.fields().iter().map(view).collect::<Vec<_>>())
}

/// Reports nulls known from the footers before the first batch instead
/// of in the middle of an epoch.
fn refuse_known_nulls(dataset: &Dataset, columns: &[usize], converter: &Converter) -> Result<()> {
    for (column, field) in
        columns.iter().filter_map(|column| Some((*column, dataset.schema().fields().get(*column)?)))
    {
        if !converter.refuses_nulls(field.name()) {
            continue;
        }
        for file in dataset.files() {
            let is_image = dataset.has_images(column);
            if file.lacks(column) && file.num_rows() > 0 {
                return Err(Error::MissingNulls {
                    column: field.name().clone(),
                    path: file.path.clone(),
                    is_image,
                });
            }
            // Statistics count deleted rows as well.
            let nulls = |known: &Statistics| -> u64 {
                let blocks = known
                    .null_counts
                    .iter()
                    .enumerate()
                    .filter(|(block, _)| file.live_rows(*block).is_none());
                blocks.filter_map(|(_, nulls)| *nulls).sum()
            };
            if file.statistics(column, dataset.schema()).as_ref().map_or(0, nulls) > 0 {
                let (path, data_type) = (file.path.clone(), field.data_type().clone());
                return Err(Error::KnownNulls {
                    column: field.name().clone(),
                    path,
                    data_type,
                    is_image,
                });
            }
        }
    }
    Ok(())
}
