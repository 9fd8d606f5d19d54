//! Any bytes as an interleaved Parquet file: it is refused, or its rows become whole documents.
//!
//! The decoder has panics of its own, which `formats::parquet` catches; so a panic counts here only
//! when it gets through to the top. Hangs and allocations beyond the limit count always.
#![no_main]

mod memory;
mod source;

use libfuzzer_sys::fuzz_target;
use shardmill_documents::materialize::Bodies;
use shardmill_documents::schema::{JobSchema, SchemaChoice, reconciled};
use shardmill_documents::source::SplitContext;
use shardmill_documents::source::layout::DocumentKeys;
use shardmill_documents::source::parquet::read_parquet;
use shardmill_documents::source::record_options::RecordOptions;
use shardmill_documents::table::{from_table, to_table};
use shardmill_documents::{Chunk, Lineage};
use shardmill_formats::parquet::ParquetFile;
use std::sync::Arc;

const BATCH_BYTES: u64 = 1 << 16;

fn check(chunk: &mut Chunk) {
    source::check_documents(chunk);
    let column = Bodies::read(chunk, Vec::new()).expect("the file is in memory").into_column();
    match to_table(chunk, &column) {
        Ok(table) => assert_eq!(table.num_rows(), chunk.rows.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn read_rows(bytes: &[u8]) {
    let Ok(file) = ParquetFile::open(memory::file(bytes)) else { return };
    let schema = Arc::clone(file.schema());
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let Ok(batches) = file.batches(&names, Some("binary_content"), BATCH_BYTES) else { return };
    for batch in batches {
        let Ok(batch) = batch else { return };
        if let Ok((mut chunk, left_out)) = from_table(&batch, "memory", Lineage::default()) {
            assert_eq!(chunk.rows.len() + left_out.rows.len(), batch.num_rows());
            check(&mut chunk);
        }
    }
}

fuzz_target!(init: memory::silence_panics(), |bytes: &[u8]| {
    read_rows(bytes);
    let options = RecordOptions {
        fields: None,
        max_batch_bytes: Some(BATCH_BYTES),
        max_decoded_bytes: None,
        keys: DocumentKeys::default(),
    };
    let mut emit = |mut chunk: Chunk, _: &mut SplitContext<'_>| {
        check(&mut chunk);
        Ok(())
    };
    // A locator in the rows may name any file of this machine; nothing of it is looked up here.
    source::read(bytes, false, BATCH_BYTES, |split, context| {
        let Ok(file) = ParquetFile::open(memory::file(bytes)) else { return };
        let (agreed, choice) = (reconciled(file.schema()), SchemaChoice::default());
        let _refused_or_read = read_parquet(
            split,
            &options,
            JobSchema { agreed: &agreed, choice: &choice },
            context,
            &mut emit,
        );
    });
});
