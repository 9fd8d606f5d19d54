//! The writer's blocks: their exact form, and sizes that are too large for a test archive.

use super::super::{BLOCK_LEN, Entry, Walk};
use super::{archive_of, end_of_archive, member_header, padding};

#[test]
fn empty_archive_is_one_record_of_zeros() {
    assert_eq!(archive_of::<&str, &[u8]>(&[]), vec![0; 10_240]);
}

#[test]
fn end_of_archive_has_two_blocks_and_fills_a_record() {
    for blocks in 0..50 {
        let written = blocks * 512;
        let end = end_of_archive(written);
        assert!(end.len() >= 1024 && end.len() < 1024 + 10_240);
        assert_eq!((written + end.len() as u64) % 10_240, 0);
        assert!(end.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn padding_fills_the_last_block() {
    let paddings = [0, 1, 511, 512, 513, u64::MAX].map(padding);
    assert_eq!(paddings, [0, 511, 1, 0, 511, 1]);
}

#[test]
fn header_has_the_fields_of_the_gnu_format() {
    let block = member_header("a/ü.jpg", 1234);
    assert_eq!(block.len(), BLOCK_LEN);
    let mut oracle = ::tar::Header::new_gnu();
    oracle.set_path("a/ü.jpg").unwrap();
    oracle.set_entry_type(::tar::EntryType::Regular);
    oracle.set_mode(0o644);
    oracle.set_uid(0);
    oracle.set_gid(0);
    oracle.set_mtime(0);
    oracle.set_size(1234);
    oracle.set_cksum();
    // The checksum is six digits, NUL, space as in GNU tar; the `tar` crate writes seven and a NUL.
    let sum = oracle.cksum().unwrap();
    let mut expected = oracle.as_bytes().to_vec();
    expected[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(block, expected);
}

#[test]
fn name_of_100_bytes_needs_no_long_name() {
    assert_eq!(member_header(&"n".repeat(100), 0).len(), BLOCK_LEN);
    assert_eq!(member_header(&"n".repeat(101), 0).len(), 3 * BLOCK_LEN);
    assert_eq!(member_header(&"n".repeat(511), 0).len(), 3 * BLOCK_LEN);
    assert_eq!(member_header(&"n".repeat(512), 0).len(), 4 * BLOCK_LEN);
}

#[test]
fn sizes_around_8_gib_and_beyond_are_read_back() {
    const GIB_8: u64 = 8 << 30;
    for size in [GIB_8 - 1, GIB_8, GIB_8 + 1, 1 << 40, u64::MAX - 1024] {
        let header = member_header("big", size);
        let mut walk = Walk::new(u64::MAX);
        assert!(
            matches!(walk.push(&header).unwrap(), Some(Entry::File(member)) if member.size == size)
        );
        let oracle = ::tar::Header::from_byte_slice(&header).entry_size().unwrap();
        assert_eq!(oracle, size);
    }
}
