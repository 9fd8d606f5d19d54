//! Any bytes as a file of tokens without an index: the rows are all tokens in order, and rows of
//! other lengths are an error.
#![no_main]

mod memory;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::table::TableFile;
use shardmill_formats::token_files::{Dtype, FlatFile, Separator, TokenOptions, TokenTable};
use std::sync::Arc;

fuzz_target!(|input: (Vec<u8>, bool, u8, Vec<u32>)| {
    let (bytes, is_bos, mark, others) = input;
    let file = Arc::new(Memory { path: "x.bin", bytes: bytes.clone() });
    let Ok(file) = FlatFile::open(file, Some(Dtype::U16)) else { return };
    let mark = i64::from(mark);
    let separator = if is_bos { Separator::Bos(mark) } else { Separator::Eos(mark) };
    let options = TokenOptions::default();
    let known = file.row_lengths(separator).expect("memory can be read");
    let read = |lengths: &[u32]| -> Option<Vec<u8>> {
        let table = TokenTable::flat(file.clone(), lengths, separator, &options).ok()?;
        let mut found = Vec::new();
        for number in 0..table.blocks().len() {
            let batch = table.read(number, &[0], None).ok()?;
            let ids = batch.column(0).as_list::<i32>().values().as_primitive::<Int32Type>().clone();
            found.extend(ids.values().iter().flat_map(|id| id.to_le_bytes()[..2].to_vec()));
        }
        Some(found)
    };
    let found = read(&known).expect("rows that were found are read");
    assert!(bytes.ends_with(&found) && matches!(bytes.len() - found.len(), 0 | 1024));
    assert!(others == known || read(&others).is_none());
});
