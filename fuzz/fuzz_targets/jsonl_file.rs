//! Any bytes as a JSON Lines file: types are found, and every block has as many rows as it states,
//! or an error says where it does not.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use shardmill_formats::jsonl::{JsonlFile, JsonlOptions, infer};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::{BadLines, Declared, Encoding, Unpacker};
use shardmill_storage::RangeRead;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let object: Arc<dyn RangeRead> = memory::file(bytes);
    for bad_lines in [BadLines::Error, BadLines::Skip, BadLines::Null] {
        let options = JsonlOptions {
            bad_lines,
            limit: DecodeLimit::new(memory::LIMIT),
            declared: Declared::nothing(),
            ..JsonlOptions::default()
        };
        let Ok(inferred) =
            infer(&[Arc::clone(&object)], &Unpacker::new(Encoding::Utf8, options.limit), &options)
        else {
            continue;
        };
        let Ok(file) = JsonlFile::open_inferred(Arc::clone(&object), &inferred, options) else {
            continue;
        };
        memory::read_blocks(&file, &memory::all_columns(&file), bad_lines == BadLines::Error);
    }
});
