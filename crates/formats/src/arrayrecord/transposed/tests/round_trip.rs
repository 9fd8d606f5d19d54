//! Round trips of encoded chunks.

use super::super::encode;
use super::original::records;
use crate::arrayrecord::Compression;
use crate::arrayrecord::encoder::Compressor;
use proptest::collection::vec;
use proptest::prelude::*;

const COMPRESSIONS: [Compression; 4] = [
    Compression::None,
    Compression::Brotli { level: 3, window_log: None },
    Compression::Zstd { level: 3, window_log: 20 },
    Compression::Snappy,
];

pub(super) fn chunk(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let lengths: Vec<u64> = records.iter().map(|record| record.len() as u64).collect();
    let (mut data, mut scratch) = (Vec::new(), (b"left".to_vec(), b"over".to_vec()));
    encode(
        &lengths,
        &records.concat(),
        &mut Compressor::new(compression).unwrap(),
        &mut scratch,
        &mut data,
    )
    .unwrap();
    data
}

#[test]
fn opaque_records_stand_in_reverse() {
    let data = chunk(&[b"one".to_vec(), b"".to_vec(), b"three".to_vec()], Compression::None);
    // Header, values and lengths, transitions.
    assert_eq!(
        data,
        [
            b"\x00\x0a\x01\x02\x0b\x08\x03\x01\x01\x00\x00\x00".as_slice(),
            b"threeone\x05\x00\x03",
            b"\x01"
        ]
        .concat()
    );
}

#[test]
fn records_that_are_not_as_long_as_their_values_are_refused() {
    let mut compressor = Compressor::new(Compression::None).unwrap();
    let mut encode = |lengths: &[u64], values: &[u8]| {
        encode(lengths, values, &mut compressor, &mut Default::default(), &mut Vec::new())
    };
    assert!(encode(&[], b"").is_err());
    assert!(encode(&[1], b"").is_err());
    assert!(encode(&[1], b"ab").is_err());
    assert!(encode(&[1 << 32], b"ab").is_err());
    assert!(encode(&[1, u64::MAX], b"ab").is_err());
    assert!(encode(&[1, 1], b"ab").is_ok());
}

proptest! {
    #[test]
    fn records_that_were_written_are_read(
        written in vec(vec(any::<u8>(), 0..40), 1..40),
        compression in 0usize..4,
    ) {
        let data = chunk(&written, COMPRESSIONS[compression]);
        prop_assert_eq!(records(&data, written.len(), written.concat().len()), written);
    }
}
