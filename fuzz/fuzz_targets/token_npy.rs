//! Tokens of OLMo-core with their documents and a mask: rows are the tokens and the bits that the
//! lines of the CSV state, and all of them, or an error.
#![no_main]

mod memory;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use memory::Memory;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::TableFile;
use shardmill_formats::token_files::{Dtype, FlatFile, TokenOptions, TokenTable};
use std::io::Write;
use std::sync::Arc;

#[derive(Arbitrary, Debug)]
struct Input {
    tokens: Vec<u16>,
    /// Lengths of documents, for lines that go on.
    lengths: Vec<u8>,
    /// In place of those lines.
    lines: Option<Vec<(u64, u64)>>,
    /// In place of the file with lines.
    csv: Option<Vec<u8>>,
    mask: Option<Vec<u8>>,
    /// Whether the mask gets the size that it must have.
    is_whole: bool,
}

impl Input {
    fn documents(&self) -> Vec<(u64, u64)> {
        let mut end = 0;
        let mut next = |length: &u8| {
            let start = end;
            end += u64::from(*length);
            (start, end)
        };
        self.lines.clone().unwrap_or_else(|| self.lengths.iter().map(&mut next).collect())
    }

    fn csv(&self) -> Vec<u8> {
        if let Some(csv) = &self.csv {
            return csv.clone();
        }
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        for (start, end) in self.documents() {
            writeln!(file, "{start},{end},id,src,1").expect("memory can be written");
        }
        file.finish().expect("memory can be written")
    }
}

fuzz_target!(|input: Input| {
    let bytes: Vec<u8> = input.tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
    let file = |path, bytes: Vec<u8>| Arc::new(Memory { path, bytes });
    let mut mask = input.mask.clone();
    if let Some(mask) = mask.as_mut().filter(|_| input.is_whole) {
        mask.resize(input.tokens.len(), 1);
    }
    let Ok(tokens) = FlatFile::plain(file("x.npy", bytes), Some(Dtype::U16)) else { return };
    let options =
        TokenOptions { limit: DecodeLimit::new(memory::LIMIT), ..TokenOptions::default() };
    let csv = file("x.csv.gz", input.csv());
    let object = mask.clone().map(|mask| file("mask.npy", mask) as _);
    let Ok(table) = TokenTable::npy(tokens, &*csv, object, &options) else { return };
    assert!(mask.as_ref().is_none_or(|mask| mask.len() == input.tokens.len()));
    memory::read_blocks(&table, &memory::all_columns(&table), mask.is_some());
    let documents = input.csv.is_none().then(|| input.documents());
    let (mut row, mut end) = (0, 0);
    for (number, block) in table.blocks().iter().enumerate() {
        let batch = table.read(number, &[0], None).expect("tokens are read");
        let bits = mask.as_ref().map(|mask| (mask, table.read(number, &[1], None)));
        for (place, list) in batch.column(0).as_list::<i32>().iter().enumerate() {
            let list = list.expect("rows are not null");
            let ids = list.as_primitive::<Int32Type>().values();
            let range = end..end + ids.len();
            let stated = &input.tokens[range.clone()];
            assert!(ids.iter().copied().eq(stated.iter().map(|id| i32::from(*id))));
            if let Some(documents) = &documents {
                let (start, next) = documents[row + place];
                assert_eq!((start as usize, next as usize), (range.start, range.end));
            }
            if let Some((mask, Ok(bits))) = &bits {
                let bits = bits.column(0).as_list::<i32>().value(place);
                let bits = bits.as_boolean();
                let found = bits.iter().map(|bit| u8::from(bit.expect("bits are not null")));
                assert!(found.eq(mask[range.clone()].iter().copied()));
            }
            end = range.end;
        }
        if let Some((mask, Err(_))) = &bits {
            assert!(mask.iter().any(|bit| *bit > 1));
        }
        row += block.rows as usize;
    }
    assert_eq!(end, input.tokens.len());
});
