//! Any bytes as an ORC file: it is refused, or every block has as many rows as it states.
//!
//! The decoder has panics of its own, which `formats::orc` catches; so a panic counts here only
//! when it gets through to the top. Hangs and allocations beyond the limit count always.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::orc::OrcFile;
use shardmill_formats::table::TableFile;

fuzz_target!(init: memory::silence_panics(), |bytes: &[u8]| {
    let Ok(file) = OrcFile::open_limited(memory::file(bytes), DecodeLimit::new(memory::LIMIT))
    else {
        return;
    };
    let columns = memory::all_columns(&file);
    for column in &columns {
        file.statistics(*column);
    }
    memory::read_blocks(&file, &columns, true);
});
