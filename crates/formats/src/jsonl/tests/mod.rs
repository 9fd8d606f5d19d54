mod bad_lines;
mod inference;
mod late;
mod oracle;
mod shape;

use super::*;
use crate::records::Unpacker;
use crate::records::memory::memory;
use crate::table::{TableError, TableFile};
use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
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

fn open(
    text: impl AsRef<[u8]>,
    schema: &SchemaRef,
    bad_lines: BadLines,
    block_bytes: u64,
) -> JsonlFile {
    JsonlFile::open_with_blocks(
        memory("a.jsonl", text),
        schema,
        JsonlOptions { bad_lines, ..JsonlOptions::default() },
        block_bytes,
    )
    .expect("a file")
}

fn read_all(file: &JsonlFile) -> Result<RecordBatch, TableError> {
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    let batches = (0..file.blocks().len()).map(|block| {
        let batch = file.read(block, &columns, None)?;
        assert_eq!(batch.num_rows() as u64, file.blocks()[block].rows);
        Ok(batch)
    });
    let batches = batches.collect::<Result<Vec<_>, TableError>>()?;
    Ok(together(file, &batches))
}

fn together(file: &JsonlFile, batches: &[RecordBatch]) -> RecordBatch {
    arrow_select::concat::concat_batches(file.schema(), batches).expect("one schema")
}

/// What arrow-json reads from the same text.
fn by_arrow_json(text: &str, schema: &SchemaRef) -> RecordBatch {
    let reader = arrow_json::ReaderBuilder::new(Arc::clone(schema))
        .build(text.as_bytes())
        .expect("a reader");
    let batches = reader.collect::<Result<Vec<_>, _>>().expect("rows");
    arrow_select::concat::concat_batches(schema, &batches).expect("one schema")
}
