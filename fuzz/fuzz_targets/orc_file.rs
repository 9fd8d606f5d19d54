//! Any bytes as an ORC file: it is refused, or every block has as many rows as it states.
//!
//! The decoder has panics of its own, which `formats::orc` catches; so a panic counts here only when it gets through to the top. Hangs and allocations
//! beyond the limit count always.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::orc::OrcFile;
use shardmill_formats::table::TableFile;
use std::sync::Arc;

fuzz_target!(
    init: {
        if std::env::var_os("SHARDMILL_FUZZ_VERBOSE").is_none() {
            std::panic::set_hook(Box::new(|_caught_or_fatal| {}));
        }
    },
    |bytes: &[u8]| {
        let Ok(file) = OrcFile::open_limited(Arc::new(Memory { path: "memory", bytes: bytes.to_vec() }), DecodeLimit::new(memory::LIMIT)) else { return };
        let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
        for column in &columns {
            file.statistics(*column);
        }
        for (block, stated) in file.blocks().iter().enumerate() {
            if let Ok(rows) = file.read(block, &columns, None) {
                assert_eq!(rows.num_rows() as u64, stated.rows);
            }
        }
    }
);
