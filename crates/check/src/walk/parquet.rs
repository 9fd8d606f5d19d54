//! Walks a Parquet file: its footer, every page of every column, and the rows of interleaved
//! documents.
//!
//! Page checksums are verified if present. Rows are decoded in batches of bounded size.

use super::Walk;
use crate::problem::{Problem, Rule};
use crate::visitor::{Pass, Row, Visitor};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BinaryViewArray, Int32Array, LargeStringArray, RecordBatch};
use arrow_schema::{DataType, Schema};
use shardmill_documents::Result;
use shardmill_documents::table::cast_checked;
use shardmill_formats::parquet::ParquetFile;
use shardmill_load::Format;
use std::sync::Arc;

const IMAGES: &str = "binary_content";

impl<'a, V: Visitor<'a>> Walk<'a, V> {
    pub(super) fn parquet(&mut self) -> Result<()> {
        let Some(file) = self.readable(ParquetFile::open(Arc::clone(&self.object))) else {
            return Ok(());
        };
        let has_documents = holds_documents(file.schema());
        self.visitor.parquet(&file, has_documents);
        if V::IS_THOROUGH && self.damaged_chunks(&file)? > 0 {
            return Ok(());
        }
        if has_documents {
            return V::PASSES
                .iter()
                .enumerate()
                .try_for_each(|(number, pass)| self.rows(&file, number, pass));
        }
        if V::IS_THOROUGH { self.table(self.path, Format::Parquet, None) } else { Ok(()) }
    }

    /// Reads every page of every column, including those that rows do not need, and returns the
    /// number of damaged column chunks.
    fn damaged_chunks(&mut self, file: &ParquetFile) -> Result<usize> {
        let mut damaged = 0;
        for row_group in 0..file.num_row_groups() {
            for leaf in 0..file.num_leaves() {
                self.cancel.check()?;
                let problem = match file.page_damage(row_group, leaf) {
                    Ok(None) => continue,
                    Ok(Some(error)) => match error.page_place() {
                        Some((place, offset)) => {
                            Problem::unreadable(&error).at_member(&place, offset)
                        }
                        None => Problem::unreadable(&error),
                    },
                    Err(error) => Problem::unreadable(&error),
                };
                self.visitor.problem(problem);
                damaged += 1;
            }
        }
        Ok(damaged)
    }

    fn rows(&mut self, file: &ParquetFile, number: usize, pass: &Pass) -> Result<()> {
        let names = file.schema().fields().iter().map(|field| field.name().as_str());
        let names: Vec<&str> =
            names.filter(|name| pass.reads_others || pass.columns.contains(name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut next = 0;
        let Some(batches) = self.readable(file.batches(&names, Some(IMAGES), pass.batch_bytes))
        else {
            return Ok(());
        };
        for batch in batches {
            self.cancel.check()?;
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    self.visitor.problem(Problem::unreadable(&error).at_row(next));
                    return Ok(());
                }
            };
            match Cells::new(&batch, pass) {
                Ok(cells) => {
                    for index in 0..batch.num_rows() {
                        self.cancel.check()?;
                        self.visitor.row(&cells.row(index, number, next + index as u64));
                    }
                }
                Err(error) => self.visitor.problem(
                    Problem { rule: Rule::Structure, ..Problem::unreadable(&error) }.at_row(next),
                ),
            }
            next += batch.num_rows() as u64;
            if !self.visitor.wants_more() {
                return Ok(());
            }
        }
        if next != file.num_rows() {
            let what =
                format!("the footer promises {} rows, the pages hold {next}", file.num_rows());
            self.visitor.problem(Problem::new(Rule::Readable, what));
        }
        Ok(())
    }
}

/// Whether the columns are those of interleaved documents. Other tables are plain rows.
fn holds_documents(schema: &Schema) -> bool {
    let is_text = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string(),
    };
    let has = |name: &str, fits: &dyn Fn(&DataType) -> bool| {
        schema.field_with_name(name).is_ok_and(|field| fits(field.data_type()))
    };
    has("sample_id", &is_text)
        && has("modality", &is_text)
        && has("position", &DataType::is_integer)
}

/// The reserved columns of one batch, with uniform types.
struct Cells {
    texts: [Option<LargeStringArray>; 6],
    positions: Option<Int32Array>,
    images: Option<BinaryViewArray>,
}

impl Cells {
    fn new(batch: &RecordBatch, pass: &Pass) -> Result<Self> {
        let cast = |name: &str, data_type: &DataType| -> Result<Option<ArrayRef>> {
            let column = batch.column_by_name(name).filter(|_| pass.columns.contains(&name));
            column.map(|column| cast_checked(name, column, data_type)).transpose()
        };
        let text = |name: &str| -> Result<Option<LargeStringArray>> {
            Ok(cast(name, &DataType::LargeUtf8)?.map(|column| column.as_string::<i64>().clone()))
        };
        Ok(Self {
            texts: [
                text("sample_id")?,
                text("modality")?,
                text("content_type")?,
                text("text_content")?,
                text("source_ref")?,
                text("materialize_error")?,
            ],
            positions: cast("position", &DataType::Int32)?
                .map(|column| column.as_primitive::<Int32Type>().clone()),
            images: cast(IMAGES, &DataType::BinaryView)?
                .map(|column| column.as_binary_view().clone()),
        })
    }

    fn row(&self, index: usize, pass: usize, number: u64) -> Row<'_> {
        let [id, modality, content_type, text, source_ref, error] =
            self.texts.each_ref().map(|column| {
                column
                    .as_ref()
                    .filter(|column| column.is_valid(index))
                    .map(|column| column.value(index))
            });
        let position = self
            .positions
            .as_ref()
            .filter(|column| column.is_valid(index))
            .map(|column| column.value(index));
        let image = self
            .images
            .as_ref()
            .filter(|column| column.is_valid(index))
            .map(|column| column.value(index));
        Row { pass, number, id, modality, position, content_type, text, image, source_ref, error }
    }
}
