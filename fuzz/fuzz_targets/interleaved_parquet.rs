//! Any bytes as an interleaved Parquet file: it is refused, or its rows become whole documents.
//!
//! The decoder has panics of its own, which `formats::parquet` catches; so a panic counts here only when it gets through to the top. Hangs and
//! allocations beyond the limit count always.
#![no_main]

mod memory;

use arrow_schema::ArrowError;
use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_curate::chunk::{Chunk, Lineage};
use shardmill_curate::locate::Shared;
use shardmill_curate::materialize::Bodies;
use shardmill_curate::report::SplitReport;
use shardmill_curate::schema::SchemaChoice;
use shardmill_curate::source::parquet::{ParquetOptions, read_parquet};
use shardmill_curate::source::{ErrorBudget, SplitContext};
use shardmill_curate::table::{from_table, to_table};
use shardmill_engine::Cancel;
use shardmill_formats::parquet::ParquetFile;
use shardmill_plan::{InputFile, Split};
use shardmill_storage::Roots;
use std::io::Write;
use std::sync::Arc;

const BATCH_BYTES: u64 = 1 << 16;

fn check(chunk: &mut Chunk) -> Result<(), ArrowError> {
    assert!(chunk.rows.iter().all(|row| row.document < chunk.documents.len()));
    assert_eq!(chunk.document_ranges().len(), chunk.documents.len());
    let column = Bodies::read(chunk, Vec::new()).into_column();
    match to_table(chunk, &column) {
        Ok(table) => assert_eq!(table.num_rows(), chunk.rows.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

fn read_rows(bytes: &[u8]) {
    let Ok(file) = ParquetFile::open(Arc::new(Memory { path: "memory", bytes: bytes.to_vec() })) else { return };
    let schema = Arc::clone(file.schema());
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let Ok(batches) = file.batches(&names, Some("binary_content"), BATCH_BYTES) else { return };
    for batch in batches {
        let Ok(batch) = batch else { return };
        if let Ok((mut chunk, left_out)) = from_table(&batch, "memory", Lineage::default()) {
            assert_eq!(chunk.rows.len() + left_out.rows.len(), batch.num_rows());
            let _checked = check(&mut chunk);
        }
    }
}

fn read_as_source(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let path = file.path().display().to_string();
    let split = Split::new(0, vec![InputFile { path, size: bytes.len() as u64, modified_ns: 0, part: None }]);
    let options = ParquetOptions { fields: None, max_batch_bytes: Some(BATCH_BYTES), max_decoded_bytes: None };
    let (mut report, cancel, errors) = (SplitReport::default(), Cancel::default(), ErrorBudget::default());
    let shared = Shared::new(Roots::default(), 1 << 20);
    // A locator in the rows may name any file of this machine; nothing of it is looked up here.
    let mut context =
        SplitContext { report: &mut report, cancel: &cancel, is_located: false, chunk_bytes: BATCH_BYTES, errors: &errors, shared: &shared };
    let mut emit = |mut chunk: Chunk, _: &mut SplitContext<'_>| {
        let _checked = check(&mut chunk);
        Ok(())
    };
    let _refused_or_read = read_parquet(&split, &options, &SchemaChoice::default(), &mut context, &mut emit);
}

fuzz_target!(
    init: {
        if std::env::var_os("SHARDMILL_FUZZ_VERBOSE").is_none() {
            std::panic::set_hook(Box::new(|_caught_or_fatal| {}));
        }
    },
    |bytes: &[u8]| {
        read_rows(bytes);
        read_as_source(bytes);
    }
);
