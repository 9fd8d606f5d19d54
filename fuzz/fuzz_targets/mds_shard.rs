//! Any bytes as an MDS shard, plain and compressed, and as an index: rows, each block with as many
//! as it states, or an error.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::mds::{Index, MdsFile, MdsOptions};
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(index) = Index::parse("index.json", bytes) {
        let text = index.to_json();
        assert_eq!(
            Index::parse("index.json", text.as_bytes()).expect("what was written is read"),
            index
        );
    }
    for path in ["x.mds", "x.mds.br", "x.mds.bz2", "x.mds.gz", "x.mds.snappy", "x.mds.zstd"] {
        let options = MdsOptions {
            has_pickle_bytes: true,
            limit: DecodeLimit::new(memory::LIMIT),
            ..MdsOptions::default()
        };
        let Ok(file) = MdsFile::open(Arc::new(Memory { path, bytes: bytes.to_vec() }), &options)
        else {
            continue;
        };
        let is_sound = file.verify().is_ok();
        let count = memory::read_blocks(&file, &memory::all_columns(&file), true);
        assert!(is_sound || count == 0);
    }
});
