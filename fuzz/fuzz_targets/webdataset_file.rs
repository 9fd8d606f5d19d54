//! Any bytes as an archive of samples, plain or compressed: every block has as many rows as it states, or an error says which member is at fault.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::TableFile;
use shardmill_formats::tar::samples::WebDatasetFile;
use shardmill_storage::RangeRead;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let object: Arc<dyn RangeRead> = Arc::new(Memory { path: "memory", bytes: bytes.to_vec() });
    let Ok(file) = WebDatasetFile::open(object, bytes.len() % 2 == 1, DecodeLimit::new(memory::LIMIT)) else { return };
    for column in 0..file.schema().fields().len() {
        for (block, stated) in file.blocks().iter().enumerate() {
            if let Ok(rows) = file.read(block, &[column], None) {
                assert_eq!(rows.num_rows() as u64, stated.rows);
            }
        }
    }
});
