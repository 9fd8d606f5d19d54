//! Chunks written by array_record 0.8.6, and the example of the format's specification.

use super::super::decode;
use crate::arrayrecord::codec::{Codec, Zstd};

/// Records, and chunks that contain exactly these.
pub(super) struct Case {
    pub records: Vec<Vec<u8>>,
    pub chunks: Vec<Vec<u8>>,
}

impl Case {
    pub(super) fn all() -> Vec<Self> {
        Self::read(include_bytes!("original.bin"))
    }

    /// Numbers have four bytes. A case is a list of records and a list of chunks; lists and their
    /// elements start with their length.
    fn read(mut bytes: &[u8]) -> Vec<Self> {
        fn number(bytes: &mut &[u8]) -> usize {
            let (number, rest) = bytes.split_first_chunk::<4>().unwrap();
            *bytes = rest;
            u32::from_le_bytes(*number) as usize
        }
        fn list(bytes: &mut &[u8]) -> Vec<Vec<u8>> {
            let mut elements = Vec::new();
            for _ in 0..number(bytes) {
                let len = number(bytes);
                elements.push(bytes.split_off(..len).unwrap().to_vec());
            }
            elements
        }
        let mut cases = Vec::new();
        while !bytes.is_empty() {
            cases.push(Self { records: list(&mut bytes), chunks: list(&mut bytes) });
        }
        cases
    }

    pub(super) fn decoded_size(&self) -> usize {
        self.records.iter().map(Vec::len).sum()
    }
}

pub(super) fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

pub(super) fn records(data: &[u8], num_records: usize, decoded_size: usize) -> Vec<Vec<u8>> {
    let (bytes, ends) = decode(data, num_records, decoded_size, &mut Zstd::default()).unwrap();
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| bytes[start..*end].to_vec()).collect()
}

#[test]
fn golden_chunk_is_its_three_records() {
    let data =
        hex("001b040402040301020403010512080803010608080007010b0100020416010361626378797a0300");
    assert_eq!(
        records(&data, 3, 13),
        [b"\x08\x96\x01\x12\x03abc".to_vec(), b"\x08\x01".to_vec(), b"xyz".to_vec()]
    );
}

#[test]
fn chunks_of_the_original_are_their_records() {
    for (number, case) in Case::all().into_iter().enumerate() {
        for chunk in &case.chunks {
            assert_eq!(
                records(chunk, case.records.len(), case.decoded_size()),
                case.records,
                "case {number}, {:?}",
                Codec::of(chunk[0])
            );
        }
    }
}
