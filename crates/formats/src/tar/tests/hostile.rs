//! Lengths crafted to overflow, exhaust or mislead; arbitrary bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Entry, MAX_EXTENSION_LEN, TarError, Walk};
use super::{BLOCK_LEN, ended, entry, plain, record, seal, walk};

#[test]
fn extension_beyond_the_limit_is_refused_before_it_is_read() {
    let size = format!("{:011o}\0", MAX_EXTENSION_LEN + 1);
    for kind in *b"LKxg" {
        let mut walk = Walk::new(u64::MAX);
        let error = walk.push(&entry(kind, b"a", size.as_bytes(), b"")).unwrap_err();
        assert!(matches!(error, TarError::ExtensionTooLong { offset: 0, .. }));
    }
}

#[test]
fn largest_sizes_do_not_overflow() {
    let size = b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
    let walked = walk(&ended(entry(b'0', b"a", size, b"")));
    assert!(matches!(walked.damage, Some(TarError::Truncated { needed: u64::MAX, .. })));

    let x = plain(b'x', "x", &record("size", u64::MAX.to_string().as_bytes()));
    let walked = walk(&ended([x, plain(b'0', "a", b"")].concat()));
    assert!(matches!(walked.damage, Some(TarError::Truncated { needed: u64::MAX, .. })));
}

#[test]
fn archive_of_the_largest_length_is_walked_without_overflow() {
    let mut walk = Walk::new(u64::MAX);
    let size = u64::MAX - 512;
    let field = [&[0x80, 0, 0, 0][..], &size.to_be_bytes()].concat();
    let Some(Entry::File(member)) = walk.push(&entry(b'0', b"a", &field, b"")).unwrap() else {
        panic!("no file")
    };
    assert_eq!((member.offset, member.size), (512, size));
    assert_eq!(walk.needs(), None);
}

#[test]
fn sparse_map_without_end_stops_at_the_archive_end() {
    let mut header = plain(b'S', "sparse", b"");
    header[482] = 1;
    seal(&mut header);
    let archive = [header, vec![1; 64 * BLOCK_LEN]].concat();
    let damage = walk(&archive).damage;
    assert!(matches!(damage, Some(TarError::Truncated { needed: 512, found: 0, .. })));
}

/// Blocks with valid checksums, so that random fields get past the first check.
fn sealed_block() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(b"01257LKxgSMV\0".to_vec());
    let size = prop_oneof![
        (0_u64..2000).prop_map(|size| format!("{size:011o}\0").into_bytes()),
        vec(any::<u8>(), 12),
    ];
    let body = prop_oneof![
        vec(any::<u8>(), 0..1200),
        (any::<u64>(), "[a-z]{1,9}").prop_map(|(size, path)| {
            [record("size", size.to_string().as_bytes()), record("path", path.as_bytes())].concat()
        }),
    ];
    (kind, vec(any::<u8>(), 0..100), size, body, any::<bool>()).prop_map(
        |(kind, name, size, body, is_honest)| {
            let true_size = format!("{:011o}\0", body.len()).into_bytes();
            entry(kind, &name, if is_honest { &true_size } else { &size }, &body)
        },
    )
}

proptest! {
    #[test]
    fn arbitrary_bytes_end_without_panic(bytes in vec(any::<u8>(), 0..4000)) {
        walk(&bytes);
    }

    #[test]
    fn arbitrary_sealed_headers_end_without_panic(blocks in vec(sealed_block(), 0..8)) {
        walk(&blocks.concat());
    }
}
