//! Any bytes as a CSV file: types are found, and every block has as many rows as it states, or an error says where it does not.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::csv::{CsvFile, CsvOptions, infer};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::BadLines;
use shardmill_formats::table::TableFile;
use shardmill_storage::RangeRead;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let object: Arc<dyn RangeRead> = Arc::new(Memory { path: "memory", bytes: bytes.to_vec() });
    for bad_lines in [BadLines::Error, BadLines::Skip, BadLines::Null] {
        let options = CsvOptions { bad_lines, limit: DecodeLimit::new(memory::LIMIT), ..CsvOptions::default() };
        let Ok(schema) = infer(&[Arc::clone(&object)], &options) else { continue };
        let Ok(file) = CsvFile::open(Arc::clone(&object), &schema, options) else { continue };
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        for (block, stated) in file.blocks().iter().enumerate() {
            match file.read(block, &columns, None) {
                Ok(rows) => assert_eq!(rows.num_rows() as u64, stated.rows),
                Err(error) => assert!(bad_lines == BadLines::Error, "{error}"),
            }
        }
    }
});
