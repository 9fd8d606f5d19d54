//! Any bytes as the files of datatrove: rows are the tokens that the index states, or an error.
#![no_main]

mod memory;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::TableFile;
use shardmill_formats::token_files::{DatatroveFiles, TokenOptions, TokenTable};
use std::sync::Arc;

type Input = (Vec<u64>, Vec<u8>, Option<Vec<u8>>, Option<String>);

fuzz_target!(|input: Input| {
    let (ends, tokens, loss, metadata) = input;
    let file = |path, bytes: &[u8]| Arc::new(Memory { path, bytes: bytes.to_vec() });
    let bytes: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
    let files = DatatroveFiles {
        index: file("x.ds.index", &bytes),
        loss: loss.as_ref().map(|loss| file("x.ds.loss", loss) as _),
        metadata: metadata.as_ref().map(|text| file("x.ds.metadata", text.as_bytes()) as _),
    };
    let limit = DecodeLimit::new(memory::LIMIT);
    let options = TokenOptions { limit, ..TokenOptions::default() };
    let Ok(table) = TokenTable::datatrove(file("x.ds", &tokens), files, &options) else { return };
    memory::read_blocks(&table, &memory::all_columns(&table), true);
    let width = tokens.len() as u64 / ends.last().copied().unwrap_or(1).max(1);
    let mut row = 0;
    for (number, block) in table.blocks().iter().enumerate() {
        if let (Some(loss), Ok(batch)) = (&loss, table.read(number, &[1], None)) {
            for (place, bits) in batch.column(0).as_list::<i32>().iter().enumerate() {
                let bits = bits.expect("rows are not null");
                let start = (row + place).checked_sub(1).map_or(0, |before| ends[before]);
                let stated = &loss[start as usize..ends[row + place] as usize];
                let found = bits.as_boolean().iter().map(|bit| u8::from(bit == Some(true)));
                assert!(found.eq(stated.iter().copied()));
            }
        }
        if let Ok(batch) = table.read(number, &[0], None) {
            for (place, list) in batch.column(0).as_list::<i32>().iter().enumerate() {
                let list = list.expect("rows are not null");
                let start = (row + place).checked_sub(1).map_or(0, |before| ends[before]);
                let stated =
                    &tokens[(start * width) as usize..(ends[row + place] * width) as usize];
                let ids = list.as_primitive::<Int32Type>().values();
                let found: Vec<u8> =
                    ids.iter().flat_map(|id| id.to_le_bytes()[..width as usize].to_vec()).collect();
                assert_eq!(found, stated);
            }
        }
        row += block.rows as usize;
    }
});
