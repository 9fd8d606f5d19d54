//! An index of Megatron, as its fields or changed at some bytes: rows are the tokens that the
//! index states, inside of the file, or an error.
#![no_main]

mod memory;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::TableFile;
use shardmill_formats::token_files::{MegatronRows, TokenOptions, TokenTable};
use std::sync::Arc;

const HEADER_BYTES: usize = 34;

#[derive(Arbitrary, Debug)]
struct Input {
    dtype: u8,
    sequences: Vec<(i32, i64)>,
    documents: Vec<i64>,
    modes: Option<u8>,
    changes: Vec<(u16, u8)>,
    tokens: Vec<u8>,
    are_sequences: bool,
}

impl Input {
    fn index(&self) -> Vec<u8> {
        let mut index = b"MMIDIDX\0\0\x01\0\0\0\0\0\0\0".to_vec();
        index.push(self.dtype % 10);
        index.extend((self.sequences.len() as u64).to_le_bytes());
        index.extend((self.documents.len() as u64).to_le_bytes());
        index.extend(self.sequences.iter().flat_map(|(length, _)| length.to_le_bytes()));
        index.extend(self.sequences.iter().flat_map(|(_, start)| start.to_le_bytes()));
        index.extend(self.documents.iter().flat_map(|first| first.to_le_bytes()));
        index.extend(self.modes.iter().flat_map(|mode| vec![*mode; self.sequences.len()]));
        for (at, byte) in &self.changes {
            if let Some(changed) = index.get_mut(usize::from(*at)) {
                *changed = *byte;
            }
        }
        index
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> i64 {
    let mut wide = [if bytes[at + N - 1] > 127 { 0xff } else { 0 }; 8];
    wide[..N].copy_from_slice(&bytes[at..at + N]);
    i64::from_le_bytes(wide)
}

/// The tokens of a sequence, by the bytes of the index alone.
fn stated(index: &[u8], tokens: &[u8], sequence: usize) -> Vec<i64> {
    let count = number::<8>(index, 18) as usize;
    let length = number::<4>(index, HEADER_BYTES + 4 * sequence) as usize;
    let start = number::<8>(index, HEADER_BYTES + 4 * count + 8 * sequence) as usize;
    let ids = 0..length;
    match index[17] {
        1 => ids.map(|id| i64::from(tokens[start + id])).collect(),
        2 => ids.map(|id| number::<1>(tokens, start + id)).collect(),
        3 => ids.map(|id| number::<2>(tokens, start + 2 * id)).collect(),
        4 => ids.map(|id| number::<4>(tokens, start + 4 * id)).collect(),
        5 => ids.map(|id| number::<8>(tokens, start + 8 * id)).collect(),
        _ => ids.map(|id| number::<2>(tokens, start + 2 * id) & 0xffff).collect(),
    }
}

fuzz_target!(|input: Input| {
    let index = input.index();
    let rows = if input.are_sequences { MegatronRows::Sequences } else { MegatronRows::Documents };
    let limit = DecodeLimit::new(memory::LIMIT);
    let options = TokenOptions { rows, limit, ..TokenOptions::default() };
    let file = |path, bytes: &[u8]| Arc::new(Memory { path, bytes: bytes.to_vec() });
    let Ok(table) =
        TokenTable::megatron(file("x.bin", &input.tokens), file("x.idx", &index), &options)
    else {
        return;
    };
    let firsts = HEADER_BYTES + 12 * number::<8>(&index, 18) as usize;
    let sequences = |row: usize| match rows {
        MegatronRows::Sequences => row..row + 1,
        MegatronRows::Documents => {
            number::<8>(&index, firsts + 8 * row) as usize
                ..number::<8>(&index, firsts + 8 * row + 8) as usize
        }
    };
    memory::read_blocks(&table, &memory::all_columns(&table), true);
    let mut row = 0;
    for (number, block) in table.blocks().iter().enumerate() {
        if let Ok(batch) = table.read(number, &[0], None) {
            for (place, list) in batch.column(0).as_list::<i32>().iter().enumerate() {
                let list = list.expect("rows are not null");
                let found: Vec<i64> = match list.as_primitive_opt::<Int64Type>() {
                    Some(ids) => ids.values().to_vec(),
                    None => {
                        list.as_primitive::<Int32Type>().iter().flatten().map(i64::from).collect()
                    }
                };
                let all = sequences(row + place)
                    .flat_map(|sequence| stated(&index, &input.tokens, sequence));
                assert_eq!(found, all.collect::<Vec<_>>());
            }
        }
        row += block.rows as usize;
    }
});
