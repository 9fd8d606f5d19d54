//! Archives that are truncated, overwritten or end in unusual ways.

use super::super::{Fault, TarError, Walk};
use super::{archive_of, ended, entry, plain, record, walk};

fn small_archive() -> Vec<u8> {
    let long = format!("{}.json", "long-".repeat(30));
    let members = [("a.jpg", vec![1; 700]), (long.as_str(), vec![2; 40]), ("empty", vec![])];
    let mut archive = archive_of(&members);
    archive.truncate(archive.len() - 1024);
    let x = [plain(b'x', "x", &record("path", b"pax")), plain(b'0', "short", &[3; 512])].concat();
    let end = archive.iter().rposition(|&byte| byte != 0).unwrap().next_multiple_of(512);
    archive.truncate(end);
    archive.extend(x);
    ended(archive)
}

#[test]
fn empty_archive_is_not_tar() {
    assert!(matches!(walk(b"").damage, Some(TarError::NotTar { archive_len: 0 })));
}

#[test]
fn first_block_that_is_not_a_header_is_not_tar() {
    for archive in [&b"{}"[..], &[b'x'; 511], &[b'x'; 512], &[b'x'; 20_000], &[0; 511]] {
        assert!(matches!(walk(archive).damage, Some(TarError::NotTar { .. })));
    }
}

#[test]
fn archive_of_zeros_has_no_members() {
    for len in [512, 1024, 10_240] {
        assert!(walk(&vec![0; len]).sound().is_empty());
    }
}

#[test]
fn payload_past_the_end_reports_the_member() {
    let archive =
        [plain(b'0', "whole", b"body"), entry(b'0', b"cut", b"00000001000\0", b"")].concat();
    let walked = walk(&[&archive[..], b"tail"].concat());
    assert_eq!(walked.names(), ["whole"]);
    let damage = walked.damage.unwrap();
    assert_eq!(damage.to_string(), "Member `cut` at `1536` needs `512` bytes, the archive has `4`");
    assert!(matches!(
        damage,
        TarError::Truncated { member: Some(name), offset: 1536, needed: 512, found: 4 }
            if name == "cut"
    ));
}

#[test]
fn garbage_after_members_is_a_bad_header() {
    let archive =
        [plain(b'0', "a", b"body"), vec![b'x'; 512], ended(plain(b'0', "b", b""))].concat();
    let walked = walk(&archive);
    assert_eq!(walked.names(), ["a"]);
    let damage = walked.damage;
    assert!(matches!(damage, Some(TarError::BadHeader { offset: 1024, fault: Fault::Checksum })));
}

#[test]
fn extension_without_a_file_is_damage() {
    let x = plain(b'x', "x", &record("path", b"lost"));
    let walked = walk(&ended(x.clone()));
    assert!(matches!(
        walked.damage,
        Some(TarError::BadHeader { offset: 1024, fault: Fault::NoFile })
    ));
    let walked = walk(&x);
    assert!(matches!(
        walked.damage,
        Some(TarError::Truncated { member: Some(name), offset: 1024, needed: 512, found: 0 })
            if name == "lost"
    ));
}

#[test]
fn extension_body_past_the_end_is_truncated() {
    for kind in *b"LKxg" {
        let archive = [plain(b'0', "a", b""), plain(kind, "extension", &[b'x'; 700])].concat();
        let walked = walk(&archive[..1100]);
        assert_eq!(walked.names(), ["a"]);
        let damage = walked.damage;
        assert!(matches!(
            damage,
            Some(TarError::Truncated { member: None, offset: 1024, needed: 700, found: 76 })
        ));
    }
}

#[test]
fn malformed_record_ends_the_walk_at_its_offset() {
    let archive = [plain(b'x', "x", b"6 a=b\n99 path=a\n"), plain(b'0', "a", b"")].concat();
    assert!(matches!(walk(&ended(archive)).damage, Some(TarError::BadRecord { offset: 518 })));
}

#[test]
fn cut_at_any_byte_yields_only_whole_members() {
    let archive = small_archive();
    let whole = walk(&archive).sound();
    assert_eq!(whole.len(), 4);
    for len in 0..archive.len() {
        let walked = walk(&archive[..len]);
        let complete = whole.iter().filter(|m| m.offset + m.size <= len as u64).count();
        assert_eq!(walked.members, whole[..complete], "cut at {len}");
        assert!(walked.end.is_none_or(|end| !end.is_sound()), "cut at {len}");
    }
}

#[test]
fn one_changed_byte_never_panics() {
    let archive = small_archive();
    let mut damaged = archive.clone();
    for at in 0..archive.len() {
        for mask in [0x01, 0x80, 0xff] {
            damaged[at] = archive[at] ^ mask;
            walk(&damaged);
        }
        damaged[at] = archive[at];
    }
}

#[test]
fn other_bytes_than_needed_end_the_walk() {
    let archive = ended(plain(b'0', "a", b""));
    for given in [0, 511, 513] {
        let mut walk = Walk::new(archive.len() as u64);
        let error = walk.push(&archive[..given]).unwrap_err();
        assert!(matches!(error, TarError::WrongRange { offset: 0, needed: 512, .. }));
        assert_eq!(walk.needs(), None);
        assert!(matches!(walk.push(&archive[..512]), Err(TarError::WrongRange { needed: 0, .. })));
    }
}
