//! Checks one Parquet file: footer, every page of every column, every row; for interleaved documents also their order, images and cells.
//!
//! Page checksums are verified if present. Rows are decoded in batches of bounded size.

use super::document_order::DocumentOrder;
use super::table::verify_table;
use super::{FileCheck, Problem, Rule, VerifyOptions, report_image};
use crate::Result;
use crate::error::reason;
use crate::image_header::ImageBytes;
use crate::source_ref::SourceRef;
use crate::table::cast_checked;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, BinaryViewArray, Int32Array, LargeStringArray, RecordBatch};
use arrow_schema::{DataType, Schema};
use shardmill_engine::Cancel;
use shardmill_formats::parquet::ParquetFile;
use shardmill_load::Format;
use shardmill_storage::RangeRead;
use std::collections::HashSet;
use std::sync::Arc;

const BATCH_BYTES: u64 = 16 << 20;
pub(super) fn verify_parquet(object: &Arc<dyn RangeRead>, options: &VerifyOptions, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    let Some(file) = check.readable(ParquetFile::open(Arc::clone(object))) else { return Ok(()) };
    if pages(&file, cancel, check)? > 0 {
        return Ok(());
    }
    if !holds_documents(file.schema()) {
        return verify_table(object.path(), Format::Parquet, cancel, check);
    }
    let names: Vec<&str> = file.schema().fields().iter().map(|field| field.name().as_str()).collect();
    let Some(batches) = check.readable(file.batches(&names, Some("binary_content"), BATCH_BYTES)) else { return Ok(()) };
    let mut rows = Rows { order: DocumentOrder::new(options.is_renumbered), ids: HashSet::new(), next: 0, check };
    for batch in batches {
        cancel.check()?;
        match batch {
            Ok(batch) => rows.batch(&batch, cancel)?,
            Err(error) => {
                let row = rows.next;
                rows.check.report(Problem::new(Rule::Readable, reason(&error)).at_row(row));
                return Ok(());
            }
        }
    }
    if rows.next != file.num_rows() {
        let what = format!("the footer promises {} rows, the pages hold {}", file.num_rows(), rows.next);
        rows.check.report(Problem::new(Rule::Readable, what));
    }
    Ok(())
}

/// Whether the columns are those of interleaved documents. Other tables are plain rows.
pub(crate) fn holds_documents(schema: &Schema) -> bool {
    let is_text = |data_type: &DataType| match data_type {
        DataType::Dictionary(_, value) => matches!(**value, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        other => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    };
    let has = |name: &str, fits: &dyn Fn(&DataType) -> bool| schema.field_with_name(name).is_ok_and(|field| fits(field.data_type()));
    has("sample_id", &is_text) && has("modality", &is_text) && has("position", &DataType::is_integer)
}

/// Reads every page of every column, including those that rows do not need, and returns the number of damaged column chunks.
fn pages(file: &ParquetFile, cancel: &Cancel, check: &mut FileCheck) -> Result<usize> {
    let mut damaged = 0;
    for row_group in 0..file.num_row_groups() {
        for leaf in 0..file.num_leaves() {
            cancel.check()?;
            let problem = match file.page_damage(row_group, leaf) {
                Ok(None) => continue,
                Ok(Some(error)) => {
                    let problem = Problem::new(Rule::Readable, reason(&error));
                    error.page_place().map_or(problem.clone(), |(place, offset)| problem.at_member(&place, offset))
                }
                Err(error) => Problem::new(Rule::Readable, reason(&error)),
            };
            damaged += 1;
            check.report(problem);
        }
    }
    Ok(damaged)
}

struct Rows<'a> {
    order: DocumentOrder,
    ids: HashSet<String>,
    /// Number of rows before the current batch.
    next: u64,
    check: &'a mut FileCheck,
}

/// The reserved columns of one batch, with uniform types.
struct Cells {
    ids: LargeStringArray,
    modalities: LargeStringArray,
    positions: Int32Array,
    binaries: Option<BinaryViewArray>,
    refs: Option<LargeStringArray>,
    errors: Option<LargeStringArray>,
}

impl Cells {
    fn new(batch: &RecordBatch) -> Result<Option<Self>> {
        let cast = |name: &str, data_type: &DataType| batch.column_by_name(name).map(|column| cast_checked(name, column, data_type)).transpose();
        let text = |name: &str| Ok::<_, crate::Error>(cast(name, &DataType::LargeUtf8)?.map(|column| column.as_string::<i64>().clone()));
        let (Some(ids), Some(modalities), Some(positions)) = (text("sample_id")?, text("modality")?, cast("position", &DataType::Int32)?) else {
            return Ok(None);
        };
        Ok(Some(Self {
            ids,
            modalities,
            positions: positions.as_primitive::<Int32Type>().clone(),
            binaries: cast("binary_content", &DataType::BinaryView)?.map(|column| column.as_binary_view().clone()),
            refs: text("source_ref")?,
            errors: text("materialize_error")?,
        }))
    }
}

impl Rows<'_> {
    fn batch(&mut self, batch: &RecordBatch, cancel: &Cancel) -> Result<()> {
        let start = self.next;
        self.next += batch.num_rows() as u64;
        let cells = match Cells::new(batch) {
            Ok(Some(cells)) => cells,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.check.report(Problem::new(Rule::Structure, reason(&error)).at_row(start));
                return Ok(());
            }
        };
        for index in 0..batch.num_rows() {
            cancel.check()?;
            self.row(&cells, index, start + index as u64);
        }
        Ok(())
    }

    fn row(&mut self, cells: &Cells, index: usize, row: u64) {
        let nulls =
            [("sample_id", cells.ids.is_null(index)), ("modality", cells.modalities.is_null(index)), ("position", cells.positions.is_null(index))];
        if nulls.iter().any(|(_, is_null)| *is_null) {
            let names: Vec<&str> = nulls.iter().filter(|(_, is_null)| *is_null).map(|(name, _)| *name).collect();
            self.check.report(Problem::new(Rule::Row, format!("{} is null", names.join(", "))).at_row(row));
            self.order.interrupt();
            return;
        }
        let (id, modality) = (cells.ids.value(index), cells.modalities.value(index));
        self.check.rows.add(modality);
        let verdict = self.order.row(id, modality, cells.positions.value(index));
        if verdict.is_new_document {
            self.check.samples += 1;
            if !self.ids.insert(id.to_owned()) {
                self.check.duplicate_sample_ids += 1;
            }
        }
        if let Some(what) = verdict.problem {
            self.check.report(Problem::new(Rule::Ordering, what).of_sample(id).at_row(row));
        }
        let place = |problem: Problem| problem.of_sample(id).at_row(row);
        let text =
            |column: &Option<LargeStringArray>| column.as_ref().filter(|column| column.is_valid(index)).map(|column| column.value(index).to_owned());
        if let Err(error) = SourceRef::parse(text(&cells.refs).as_deref()) {
            self.check.report(place(Problem::new(Rule::Row, error.to_string())));
        }
        let Some(bytes) = cells.binaries.as_ref().filter(|column| column.is_valid(index)).map(|column| column.value(index)) else { return };
        if let Some(error) = text(&cells.errors) {
            self.check.report(place(Problem::new(Rule::Row, format!("the row has bytes although it has an error: {error}"))));
        }
        if modality != "image" {
            // The content of other modalities is not specified.
            if matches!(modality, "metadata" | "text") {
                self.check.report(place(Problem::new(Rule::Row, format!("a {modality} row has bytes"))));
            }
            return;
        }
        if let Some(pages) = report_image(ImageBytes::Memory(bytes), self.check, place)
            && pages != 1
        {
            self.check.report(place(Problem::new(Rule::Image, format!("the image has {pages} pages, a row has one"))));
        }
    }
}
