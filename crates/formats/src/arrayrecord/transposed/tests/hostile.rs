//! Damaged chunks: each quickly returns an error or records.

use super::super::decode;
use super::original::{Case, hex};
use super::round_trip::chunk;
use crate::arrayrecord::codec::Zstd;
use crate::arrayrecord::{Compression, Fault, MAX_DECODED_BYTES, varint};

fn decode_hex(
    text: &str,
    num_records: usize,
    decoded_size: usize,
) -> Result<(Vec<u8>, Vec<usize>), Fault> {
    decode(&hex(text), num_records, decoded_size, &mut Zstd::default())
}

/// A successful result must be complete, regardless of the chunk.
fn decode_damaged(data: &[u8], num_records: usize, decoded_size: usize, zstd: &mut Zstd) -> bool {
    let Ok((bytes, ends)) = decode(data, num_records, decoded_size, zstd) else { return false };
    assert_eq!((bytes.len(), ends.len()), (decoded_size, num_records));
    assert!(ends.is_sorted() && ends.last().copied().unwrap_or(0) == decoded_size);
    true
}

#[test]
fn chunk_that_was_cut_is_refused_at_every_byte() {
    let zstd = &mut Zstd::default();
    for case in Case::all() {
        for chunk in &case.chunks {
            for len in 0..chunk.len() {
                assert!(
                    decode(&chunk[..len], case.records.len(), case.decoded_size(), zstd).is_err(),
                    "{len} of {chunk:02x?}"
                );
            }
        }
    }
}

#[test]
fn chunk_with_a_flipped_byte_ends() {
    let zstd = &mut Zstd::default();
    for case in Case::all() {
        for chunk in &case.chunks {
            for at in 0..chunk.len() {
                for mask in [1, 0x80, 0xff, 4] {
                    let mut damaged = chunk.clone();
                    damaged[at] ^= mask;
                    decode_damaged(&damaged, case.records.len(), case.decoded_size(), zstd);
                }
            }
        }
    }
}

#[test]
fn other_promises_of_the_chunk_header_are_refused() {
    let data = chunk(&[b"one".to_vec(), b"three".to_vec()], Compression::Snappy);
    let zstd = &mut Zstd::default();
    assert!(decode(&data, 2, 8, zstd).is_ok());
    for (num_records, decoded_size) in
        [(0, 8), (1, 8), (3, 8), (2, 0), (2, 7), (2, 9), (2, 1 << 20)]
    {
        assert!(decode(&data, num_records, decoded_size, zstd).is_err());
    }
}

/// An uncompressed header without buckets, with states as pairs of tag and next, and transitions.
fn machine(states: &[(u64, u64)], first: u64, transitions: &[u8]) -> Vec<u8> {
    let tags = states.iter().map(|state| state.0);
    let nexts = states.iter().map(|state| state.1);
    let (mut header, mut data) = (Vec::new(), vec![0]);
    for number in [0, 0, states.len() as u64].into_iter().chain(tags).chain(nexts).chain([first]) {
        varint::write(number, &mut header);
    }
    varint::write(header.len() as u64, &mut data);
    [data.as_slice(), header.as_slice(), transitions].concat()
}

#[test]
fn states_that_lead_nowhere_are_refused() {
    let zstd = &mut Zstd::default();
    let mut decode = |states: &[(u64, u64)], first, transitions: &[u8]| {
        decode(&machine(states, first, transitions), 1, 0, zstd).unwrap_err()
    };
    let malformed = Fault::Malformed;
    assert_eq!(decode(&[(3, 2)], 0, &[]), malformed("state leads to a missing state"));
    assert_eq!(decode(&[(3, 0)], 1, &[]), malformed("no first state"));
    assert_eq!(decode(&[(3, 0)], 0, &[4]), malformed("transition to a missing state"));
    assert_eq!(decode(&[(0, 1)], 0, &[]), malformed("states form a cycle"));
    assert_eq!(decode(&[(0, 3), (0, 2)], 0, &[]), malformed("states form a cycle"));
    assert_eq!(decode(&[], 0, &[]), malformed("no first state"));
    for tag in [4, 5, 6, 7, 15] {
        assert_eq!(decode(&[(tag, 0)], 0, &[]), malformed("unknown state of a transposed chunk"));
    }
}

#[test]
fn submessages_and_records_that_do_not_nest_are_refused() {
    let zstd = &mut Zstd::default();
    let mut decode = |states: &[(u64, u64)], decoded_size, transitions: &[u8]| {
        decode(&machine(states, 0, transitions), 1, decoded_size, zstd)
    };
    let malformed = |text| Err(Fault::Malformed(text));
    assert_eq!(decode(&[(2, 0)], 0, &[]), malformed("submessage start without an end"));
    assert_eq!(
        decode(&[(14, 1), (3, 0)], 2, &[0]),
        malformed("record begins inside of a submessage")
    );
    assert_eq!(
        decode(&[(14, 0)], 4, &[0, 0]),
        malformed("more submessages than there is room for")
    );
    assert_eq!(decode(&[(14, 1), (2, 2), (3, 0)], 2, &[1]), Ok((vec![10, 0], vec![2])));
    assert_eq!(
        decode(&[(3, 0)], 0, &[0]),
        malformed("more records than the chunk's header states")
    );
    assert_eq!(decode(&[(3, 1), (11, 0)], 1, &[0]), malformed("fields before the first record"));
}

#[test]
fn machine_that_is_idle_for_long_is_stopped() {
    // Each byte leads through all states, which are idle.
    let decode = |num_states: u64| {
        let implicit = (1..num_states).map(|next| (0, num_states + next));
        let states: Vec<(u64, u64)> = implicit.chain([(0, 0)]).collect();
        decode(&machine(&states, 0, &[0; 1000]), 0, 0, &mut Zstd::default())
    };
    assert_eq!(decode(64), Ok((Vec::new(), Vec::new())));
    assert_eq!(decode(65), Err(Fault::Malformed("too many idle states in a row")));
}

#[test]
fn claims_are_refused_before_anything_is_allocated() {
    // Huge numbers of buckets, buffers and states, and huge lengths of a snappy header,
    // buckets and transitions.
    for text in
        ["0007ffffffff0f0000", "00070affffffff0f00", "000700 00ffffffff0f", "7307ffffffffff7f00"]
    {
        let text = text.replace(' ', "");
        assert!(
            matches!(
                decode_hex(&text, 1, 0),
                Err(Fault::Truncated { .. } | Fault::TooLarge { .. })
            ),
            "{text}"
        );
    }
}

#[test]
fn transitions_take_no_more_memory_than_a_chunk_may() {
    let plain = machine(&[(3, 0)], 0, &[]);
    let header = snap::raw::Encoder::new().compress_vec(&plain[2..]).unwrap();
    let (mut block, mut data) = (Vec::new(), vec![b's']);
    varint::write(plain.len() as u64 - 2, &mut block);
    block.extend(header);
    varint::write(block.len() as u64, &mut data);
    data.extend(block);
    let limit = MAX_DECODED_BYTES;
    varint::write(limit + 1, &mut data);
    data.push(0);
    let refused = decode(&data, 1, 1 << 30, &mut Zstd::default());
    assert_eq!(refused, Err(Fault::TooLarge { what: "transitions", value: limit + 1, limit }));
}
