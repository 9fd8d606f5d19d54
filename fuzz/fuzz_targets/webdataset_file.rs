//! Any bytes as an archive of samples, plain or compressed: every block has as many rows as it
//! states, or an error says which member is at fault.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::tar::samples::WebDatasetFile;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = WebDatasetFile::open(
        memory::file(bytes),
        bytes.len() % 2 == 1,
        DecodeLimit::new(memory::LIMIT),
    ) else {
        return;
    };
    for column in memory::all_columns(&file) {
        memory::read_blocks(&file, &[column], true);
    }
});
