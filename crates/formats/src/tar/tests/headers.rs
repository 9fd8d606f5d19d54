//! Each header form that the walk supports, and forms that other readers handled wrongly.

use super::super::{Fault, Reason, TarError};
use super::{BLOCK_LEN, ended, entry, payload, plain, record, seal, walk};

#[test]
fn ustar_prefix_is_joined_with_the_name() {
    let mut archive = plain(b'0', "c.txt", b"body");
    archive[345..348].copy_from_slice(b"a/b");
    seal(&mut archive);
    assert_eq!(walk(&ended(archive)).sound()[0].name, "a/b/c.txt");
}

#[test]
fn gnu_header_has_no_prefix() {
    let mut archive = plain(b'0', "c.txt", b"body");
    archive[257..265].copy_from_slice(b"ustar  \0");
    archive[345..356].copy_from_slice(b"00000000001");
    seal(&mut archive);
    assert_eq!(walk(&ended(archive)).sound()[0].name, "c.txt");
}

#[test]
fn v7_header_without_magic_is_read_and_a_slash_makes_a_directory() {
    let mut archive = Vec::new();
    for name in ["dir/", "file"] {
        let mut block = plain(0, name, b"");
        block[257..265].fill(0);
        seal(&mut block);
        archive.extend(block);
    }
    assert_eq!(walk(&ended(archive)).names(), ["file"]);
}

#[test]
fn signed_checksum_is_accepted() {
    let mut archive = plain(b'0', "größe", b"x");
    archive[148..156].fill(b' ');
    let sum: i64 = archive[..BLOCK_LEN].iter().map(|&byte| i64::from(byte.cast_signed())).sum();
    archive[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(walk(&ended(archive)).sound()[0].name, "größe");
}

#[test]
fn entries_that_are_not_files_are_skipped() {
    let mut archive = Vec::new();
    for kind in [b'1', b'2', b'3', b'4', b'5', b'6'] {
        // Hard links may state the size of their target, and old directories a quota:
        // no payload follows.
        archive.extend(entry(kind, b"other", b"00000001000\0", b""));
    }
    archive.extend(plain(b'V', "volume", b"label"));
    archive.extend(plain(b'0', "0", b"a"));
    archive.extend(plain(0, "nul", b"b"));
    archive.extend(plain(b'7', "7", b"c"));
    let archive = ended(archive);
    let walked = walk(&archive);
    assert_eq!(
        walked.links.iter().map(|link| (link.is_symbolic, link.member.size)).collect::<Vec<_>>(),
        [(false, 0), (true, 0)]
    );
    let members = walked.sound();
    let read: Vec<_> = members.iter().map(|m| (m.name.as_str(), payload(&archive, m))).collect();
    assert_eq!(read, [("0", b"a".to_vec()), ("nul", b"b".to_vec()), ("7", b"c".to_vec())]);
}

#[test]
fn long_link_and_long_name_describe_the_next_entry() {
    let name = "n".repeat(300);
    let archive = [
        plain(b'K', "././@LongLink", &[b'k'; 700]),
        plain(b'L', "././@LongLink", format!("{name}\0").as_bytes()),
        plain(b'2', "link", b""),
        plain(b'L', "././@LongLink", format!("{name}\0").as_bytes()),
        plain(b'0', "short", b"body"),
        plain(b'0', "next", b"body"),
    ]
    .concat();
    let walked = walk(&ended(archive));
    assert_eq!(
        (walked.links[0].target.as_str(), &walked.links[0].member.name),
        ("k".repeat(700).as_str(), &name)
    );
    let members = walked.sound();
    assert_eq!([&members[0].name, &members[1].name], [name.as_str(), "next"]);
    assert_eq!(members[0].header_offset, 512 * (1 + 2 + 2 + 1));
}

#[test]
fn link_name_is_that_of_pax_then_gnu_then_the_header() {
    let mut link = plain(b'1', "link", b"");
    link[157..163].copy_from_slice(b"header");
    seal(&mut link);
    let gnu = plain(b'K', "././@LongLink", b"gnu\0");
    let pax = plain(b'x', "x", &record("linkpath", b"pax"));
    let archive =
        [&link, &gnu, &link, &pax, &gnu, &link, &gnu, &pax, &link].map(Vec::as_slice).concat();
    let walked = walk(&ended(archive));
    assert_eq!(
        walked.links.iter().map(|link| link.target.as_str()).collect::<Vec<_>>(),
        ["header", "gnu", "pax", "pax"]
    );
}

#[test]
fn pax_path_and_size_hold_for_the_next_file_only() {
    let archive = [
        plain(b'x', "x", &[record("path", "ü/é".as_bytes()), record("size", b"600")].concat()),
        entry(b'0', b"short", b"00000000000\0", &[b'a'; 600]),
        plain(b'0', "next", b"body"),
    ]
    .concat();
    let members = walk(&ended(archive)).sound();
    assert_eq!((members[0].name.as_str(), members[0].size), ("ü/é", 600));
    assert_eq!((members[1].name.as_str(), members[1].size), ("next", 4));
}

#[test]
fn global_records_hold_for_all_files_until_a_local_one() {
    let archive = [
        plain(b'g', "g", &[record("path", b"global"), record("comment", b"0123abc")].concat()),
        plain(b'0', "a", b""),
        plain(b'x', "x", &record("path", b"local")),
        plain(b'0', "b", b""),
        plain(b'g', "g", &record("path", b"second")),
        plain(b'0', "c", b""),
    ]
    .concat();
    assert_eq!(walk(&ended(archive)).names(), ["global", "local", "second"]);
}

#[test]
fn pax_path_wins_over_gnu_long_name() {
    let path = plain(b'x', "x", &record("path", b"pax"));
    let long_name = plain(b'L', "././@LongLink", b"gnu\0");
    let file = plain(b'0', "short", b"");
    for order in [[&path, &long_name], [&long_name, &path]] {
        let archive = [order[0].as_slice(), order[1], &file].concat();
        assert_eq!(walk(&ended(archive)).names(), ["pax"]);
    }
}

#[test]
fn empty_extension_bodies_are_read() {
    let archive = [plain(b'x', "x", b""), plain(b'g', "g", b""), plain(b'0', "a", b"")].concat();
    assert_eq!(walk(&ended(archive)).names(), ["a"]);
}

/// https://rustsec.org/advisories/RUSTSEC-2026-0068 (CVE-2026-33055): a header size of 0
/// with a PAX size.
#[test]
fn pax_size_governs_how_far_is_skipped() {
    let smuggled = plain(b'0', "smuggled", b"");
    let archive = [
        plain(b'x', "x", &record("size", smuggled.len().to_string().as_bytes())),
        entry(b'0', b"outer", b"00000000000\0", &smuggled),
        plain(b'0', "last", b""),
    ]
    .concat();
    assert_eq!(walk(&ended(archive)).names(), ["outer", "last"]);
}

/// https://github.com/advisories/GHSA-3pv8-6f4r-ffg2: the PAX size was applied to the long-name
/// entry in between.
#[test]
fn pax_size_is_not_applied_to_extension_headers_between() {
    for between in [
        plain(b'L', "././@LongLink", b"longname.txt\0"),
        plain(b'K', "././@LongLink", b"link\0"),
        plain(b'g', "g", &record("comment", b"x")),
    ] {
        let archive = [
            plain(b'x', "x", &record("size", b"2048")),
            between,
            entry(b'0', b"file_a", b"00000000020\0", &[b'A'; 2048]),
            plain(b'0', "file_b", b"B"),
        ]
        .concat();
        let members = walk(&ended(archive)).sound();
        assert_eq!((members[0].size, members[1].name.as_str()), (2048, "file_b"));
    }
}

#[test]
fn pax_size_on_a_link_does_not_skip() {
    let archive = [
        plain(b'x', "x", &record("size", b"512")),
        plain(b'2', "link", b""),
        plain(b'0', "file", b"body"),
    ]
    .concat();
    assert_eq!(walk(&ended(archive)).names(), ["file"]);
}

#[test]
fn repeated_extension_is_refused() {
    let x = plain(b'x', "x", &record("path", b"a"));
    let long_name = plain(b'L', "././@LongLink", b"a\0");
    let long_link = plain(b'K', "././@LongLink", b"a\0");
    for extension in [x, long_name, long_link] {
        let archive = [extension.as_slice(), &extension, &plain(b'0', "a", b"")].concat();
        let walked = walk(&ended(archive));
        assert!(matches!(walked.damage, Some(TarError::RepeatedExtension { offset: 1024 })));
    }
}

#[test]
fn sparse_files_are_refused_and_the_rest_is_read() {
    let mut gnu = plain(b'S', "old.sparse", b"");
    gnu[482] = 1;
    gnu[257..265].copy_from_slice(b"ustar  \0");
    gnu[124..136].copy_from_slice(b"00000001000\0");
    seal(&mut gnu);
    let mut map = [0; BLOCK_LEN];
    map[504] = 1;
    gnu.extend(map);
    map[504] = 0;
    gnu.extend(map);
    gnu.extend([b'd'; BLOCK_LEN]);
    let pax_body =
        [record("GNU.sparse.major", b"1"), record("GNU.sparse.name", b"new.sparse")].concat();
    let archive = [
        gnu,
        plain(b'x', "x", &pax_body),
        plain(b'0', "GNUSparseFile.0/new.sparse", b"1\n0\n1\n"),
        plain(b'0', "last", b"body"),
    ]
    .concat();
    let walked = walk(&ended(archive));
    assert_eq!(walked.names(), ["last"]);
    let refused: Vec<_> = walked
        .unreadable
        .iter()
        .map(|error| match error {
            TarError::Unreadable { member, offset, reason: Reason::Sparse } => {
                (member.as_str(), *offset)
            }
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(refused, [("old.sparse", 1536), ("new.sparse", 2048 + 1024 + 512)]);
}

#[test]
fn name_that_is_not_utf8_is_refused_and_the_rest_is_read() {
    let archive =
        [entry(b'0', b"gr\xf6\xdfe", b"00000000004\0", b"body"), plain(b'0', "last", b"")].concat();
    let walked = walk(&ended(archive));
    assert_eq!(walked.names(), ["last"]);
    assert!(matches!(
        &walked.unreadable[..],
        [TarError::Unreadable { offset: 512, reason: Reason::NameNotUtf8, .. }]
    ));
}

#[test]
fn size_fields_of_all_writers_are_read() {
    for (field, size) in [
        (&b"00000000017\0"[..], 15),
        (b"000000000017", 15),
        (b"         17 ", 15),
        (b"17\0", 15),
        (b"\x80\0\0\0\0\0\0\0\0\0\0\x0f", 15),
        (b"            ", 0),
        (b"", 0),
    ] {
        let archive = entry(b'0', b"a", field, &[b'x'; 15][..size]);
        assert_eq!(walk(&ended(archive)).sound()[0].size, size as u64, "{field:?}");
    }
}

#[test]
fn size_fields_that_are_not_numbers_are_refused() {
    for field in [
        &b"0000000008\0"[..],
        b"-0000000017\0",
        b"1 7\0",
        b"\x0000000000017",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80\0\0\x01\0\0\0\0\0\0\0\0",
        b"\x81\0\0\0\0\0\0\0\0\0\0\x0f",
    ] {
        let walked = walk(&ended(entry(b'0', b"a", field, &[b'x'; 15])));
        let damage = walked.damage;
        assert!(
            matches!(damage, Some(TarError::BadHeader { offset: 0, fault: Fault::Size })),
            "{field:?}: {damage:?}"
        );
    }
}
