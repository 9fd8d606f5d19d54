use super::oracle::written;
use super::pyarrow::PYARROW;
use super::*;
use crate::orc::lengths::{Runs, sum_at_most};
use crate::orc::types::types;
use crate::orc::wire::put_varint;
use arrow_array::{ArrayRef, Int64Array, StringArray};
use orc_rust::compression::CompressionType;
use proptest::prelude::*;
use std::sync::Arc;

fn files() -> Vec<Vec<u8>> {
    let columns: [(&str, ArrayRef); 2] = [
        (
            "a",
            Arc::new(
                (0..100).map(|row| (row % 5 > 0).then_some(row * 1000)).collect::<Int64Array>(),
            ),
        ),
        ("b", Arc::new((0..100).map(|row| Some(format!("{row}"))).collect::<StringArray>())),
    ];
    let table = RecordBatch::try_from_iter_with_nullable(
        columns.map(|(name, column)| (name, column, true)),
    )
    .expect("a table");
    let plain = written(&table, None, 100, 1 << 20);
    vec![PYARROW.to_vec(), plain, written(&table, Some(CompressionType::Snappy), 100, 1 << 20)]
}

/// Either rejected, or read with the stated number of rows.
fn attempt(bytes: &[u8]) {
    let Ok(file) = OrcFile::open(memory("a.orc", bytes)) else { return };
    let Ok(all) = read_all(&file) else { return };
    let rows: u64 = file.blocks().iter().map(|block| block.rows).sum();
    assert_eq!(all.num_rows() as u64, rows);
    for column in 0..file.schema().fields().len() {
        file.statistics(column);
    }
}

#[test]
fn a_file_that_was_cut_anywhere_is_refused() {
    for bytes in files() {
        for len in 0..bytes.len() {
            assert!(OrcFile::open(memory("a.orc", &bytes[..len])).is_err(), "{len}");
        }
    }
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_or_other_values() {
    // All bytes in `make test-all`.
    let step =
        if std::env::var("SHARDMILL_TESTS").is_ok_and(|form| form == "all") { 1 } else { 11 };
    for bytes in files() {
        for position in (0..bytes.len()).step_by(step) {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[position] ^= flip;
                attempt(&damaged);
            }
        }
    }
}

proptest! {
    #[test]
    fn damage_in_several_places_is_an_error_or_other_values(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for mut bytes in files() {
            for (place, byte) in &damage {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            attempt(&bytes);
        }
    }
}

fn a_type(kind: u64, children: &[u64]) -> Vec<u8> {
    let mut message = Vec::new();
    put_varint(&mut message, 1, kind);
    for child in children {
        put_varint(&mut message, 2, *child);
    }
    if kind == 12 {
        children.iter().for_each(|_| message.extend_from_slice(&[3 << 3 | 2, 1, b'x']));
    }
    message
}

fn judged(messages: &[Vec<u8>]) -> Result<usize, String> {
    types(&messages.iter().map(Vec::as_slice).collect::<Vec<_>>()).map(|types| types.len())
}

#[test]
fn types_that_refer_to_themselves_are_refused() {
    assert_eq!(
        judged(&[a_type(12, &[1, 3]), a_type(10, &[2]), a_type(4, &[]), a_type(7, &[])]),
        Ok(4)
    );
    let circle = "types form a cycle";
    assert_eq!(judged(&[a_type(12, &[1]), a_type(10, &[1])]), Err(circle.to_owned()));
    assert_eq!(judged(&[a_type(12, &[0])]), Err(circle.to_owned()));
    assert_eq!(
        judged(&[a_type(12, &[1, 1]), a_type(4, &[])]),
        Err(circle.to_owned()),
        "one child of two fields"
    );
    assert!(judged(&[a_type(12, &[1])]).is_err(), "a child that is not there");
    assert!(judged(&[a_type(4, &[])]).is_err(), "the root is not a struct");
    let deep: Vec<_> = std::iter::once(a_type(12, &[1]))
        .chain((1..1000).map(|number| a_type(10, &[number + 1])))
        .chain([a_type(4, &[])])
        .collect();
    assert_eq!(judged(&deep), Err("types are nested too deep".to_owned()));
}

#[test]
fn lengths_of_lists_add_up_to_what_the_runs_say() {
    // Examples of the specification.
    assert_eq!(sum_at_most(&[0x0a, 0x27, 0x10], Runs::V2), Ok(50_000), "short repeat");
    assert_eq!(
        sum_at_most(&[0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef], Runs::V2),
        Ok(23_713 + 43_806 + 57_005 + 48_879),
        "direct"
    );
    assert_eq!(
        sum_at_most(&[0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46], Runs::V2),
        Ok(2 + 3 + 5 + 7 + 11 + 13 + 17 + 19 + 23 + 29),
        "delta"
    );
    let patched = [
        0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50,
        0x5a, 0x64, 0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
    ];
    let values: u128 = 2030 + 2000 + 2020 + 1_000_000 + (2040..=2190).step_by(10).sum::<u128>();
    assert_eq!(sum_at_most(&patched, Runs::V2), Ok(values), "patched base");
    let mut below_zero = patched;
    below_zero[4] |= 0x80;
    assert_eq!(sum_at_most(&below_zero, Runs::V2), Ok(u128::MAX), "patched base below zero");
    assert_eq!(sum_at_most(&[0x61, 0x00, 0x07], Runs::V1), Ok(700), "a run");
    assert_eq!(sum_at_most(&[0xfb, 0x02, 0x03, 0x04, 0x07, 0x0b], Runs::V1), Ok(27), "literals");
    assert_eq!(sum_at_most(&[0x61, 0xff, 0x00], Runs::V1), Ok(u128::MAX), "below zero");
    assert!(sum_at_most(&[0x5e, 0x03, 0x5c], Runs::V2).is_err(), "cut");
}

#[test]
fn the_digest_is_that_of_the_tail() {
    let open = |bytes: &[u8]| OrcFile::open(memory("a.orc", bytes)).expect("a file").digest();
    let mut moved = PYARROW.to_vec();
    moved[10] ^= 1;
    assert_eq!(open(PYARROW), open(&moved));
    assert_ne!(open(PYARROW), open(&files()[1]));
}
