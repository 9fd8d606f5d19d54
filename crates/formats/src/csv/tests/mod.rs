mod bad_lines;
mod inference;
mod oracle;
mod structure;

use super::*;
use crate::records::Unpacker;
use crate::records::memory::memory;
use crate::table::{TableError, TableFile};
use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(
        fields
            .iter()
            .map(|(name, data_type)| Field::new(*name, data_type.clone(), true))
            .collect::<Vec<_>>(),
    ))
}

/// The rows of `text`, inferred, opened and read in blocks of about `block_bytes`.
fn table(
    text: impl AsRef<[u8]>,
    options: &CsvOptions,
    block_bytes: u64,
) -> Result<RecordBatch, TableError> {
    let object = memory("a.csv", text);
    let inferred = infer(&[Arc::clone(&object)], &Unpacker::default(), options)?;
    read_all(&CsvFile::open_with_blocks(object, inferred.schema(), options.clone(), block_bytes)?)
}

fn read_all(file: &CsvFile) -> Result<RecordBatch, TableError> {
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    let batches = (0..file.blocks().len()).map(|block| {
        let batch = file.read(block, &columns, None)?;
        assert_eq!(batch.num_rows() as u64, file.blocks()[block].rows);
        Ok(batch)
    });
    let batches = batches.collect::<Result<Vec<_>, TableError>>()?;
    Ok(together(file, &batches))
}

fn together(file: &CsvFile, batches: &[RecordBatch]) -> RecordBatch {
    arrow_select::concat::concat_batches(file.schema(), batches).expect("one schema")
}

/// Rows as text, nulls as `∅`.
fn shown(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("∅");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options).expect("printable"))
        .collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect())
        .collect()
}

fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect()
}
