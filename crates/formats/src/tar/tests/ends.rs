//! Ends of archives: marked, missing, followed by other bytes; with and without ignored zeros, and
//! as a stream.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{ArchiveEnd, Entry, TarError, Walk};
use super::{archive_of, ended, plain, record, walk, walk_on};

/// The end that the walk of a stream of unknown length reports, and the names that it returned.
fn streamed(archive: &[u8], ignores_zeros: bool) -> Result<(Vec<String>, ArchiveEnd), TarError> {
    let mut walk = Walk::new(u64::MAX).reading_on(ignores_zeros);
    let mut names = Vec::new();
    while let Some(range) = walk.needs() {
        let bytes = usize::try_from(range.start)
            .ok()
            .zip(usize::try_from(range.end).ok())
            .and_then(|(start, end)| archive.get(start..end));
        let Some(bytes) = bytes else {
            let rest = usize::try_from(range.start)
                .ok()
                .and_then(|start| archive.get(start..))
                .unwrap_or_default();
            return walk.end_at(archive.len() as u64, rest).map(|end| (names, end));
        };
        match walk.push(bytes) {
            Ok(Some(Entry::File(member))) => names.push(member.name),
            Ok(_) => {}
            Err(error) if error.ends_walk() => return Err(error),
            Err(_) => {}
        }
    }
    walk.end_at(archive.len() as u64, &[]).map(|end| (names, end))
}

#[test]
fn two_blocks_of_zeros_are_an_end_and_fewer_are_none() {
    let member = plain(b'0', "a", b"body");
    for missing in [0, 508] {
        let walked = walk(&member[..member.len() - missing]);
        assert_eq!(
            walked.end,
            Some(ArchiveEnd::Missing { offset: (member.len() - missing) as u64 })
        );
        assert_eq!(walked.sound().len(), 1);
    }
    for zeros in (1..1100).chain([10_240, 200_000]) {
        let archive = [&member[..], &vec![0; zeros]].concat();
        let expected = if zeros < 1024 {
            ArchiveEnd::Missing { offset: 1024 }
        } else {
            ArchiveEnd::Marked { offset: 1024 }
        };
        for ignores_zeros in [false, true] {
            assert_eq!(walk_on(&archive, ignores_zeros).end, Some(expected), "{zeros}");
            assert_eq!(
                streamed(&archive, ignores_zeros).unwrap(),
                (vec!["a".to_owned()], expected),
                "{zeros}"
            );
        }
    }
}

#[test]
fn zeros_alone_are_an_empty_archive_and_one_block_is_a_cut_one() {
    for (len, expected) in [
        (512, ArchiveEnd::Missing { offset: 0 }),
        (1024, ArchiveEnd::Marked { offset: 0 }),
        (10_240, ArchiveEnd::Marked { offset: 0 }),
    ] {
        let walked = walk(&vec![0; len]);
        assert_eq!(walked.end, Some(expected));
        assert!(walked.sound().is_empty());
    }
}

/// Python's `tarfile` and GNU tar stop at a block of zeros by default.
#[test]
fn members_after_zeros_are_not_given_and_the_end_says_that_there_are_some() {
    let more = ended(plain(b'0', "b", b""));
    for zeros in [512, 1024, 70_000_usize.next_multiple_of(512)] {
        let archive = [&plain(b'0', "a", b"")[..], &vec![0; zeros], &more].concat();
        let walked = walk(&archive);
        let followed = ArchiveEnd::Followed { marker: 512, offset: 512 + zeros as u64 };
        assert_eq!((walked.names(), walked.end), (vec!["a"], Some(followed)));
        assert_eq!(streamed(&archive, false).unwrap(), (vec!["a".to_owned()], followed));
        let walked = walk_on(&archive, true);
        let marked = ArchiveEnd::Marked { offset: 1024 + zeros as u64 };
        assert_eq!((walked.names(), walked.end), (vec!["a", "b"], Some(marked)));
        assert_eq!(
            streamed(&archive, true).unwrap(),
            (vec!["a".to_owned(), "b".to_owned()], marked)
        );
    }
}

#[test]
fn one_byte_after_the_end_is_reported_with_its_offset() {
    let mut archive = archive_of(&[("a", "body")]);
    archive.resize(200_000, 0);
    for offset in [2048, 2049, 70_000, 199_999] {
        let mut followed = archive.clone();
        followed[offset] = 1;
        let expected = ArchiveEnd::Followed { marker: 1024, offset: offset as u64 };
        assert_eq!(walk(&followed).end, Some(expected));
        assert_eq!(streamed(&followed, false).unwrap().1, expected);
        let damage = walk_on(&followed, true).damage;
        let at = offset as u64 / 512 * 512;
        assert!(
            matches!(
                damage,
                Some(TarError::BadHeader { offset, .. } | TarError::Truncated { offset, .. })
                    if offset == at
            ),
            "{damage:?}"
        );
    }
}

#[test]
fn long_name_that_was_overwritten_with_zeros_is_not_a_member() {
    let extension = |kind: u8, body: &[u8]| {
        ended([plain(kind, "extension", body), plain(b'0', "short", b"body")].concat())
    };
    let long = [&[b'n'; 1500][..], b"\0"].concat();
    let path = record("path", &[b'n'; 1500]);
    for (kind, body) in [(b'L', long), (b'x', path)] {
        assert_eq!(walk(&extension(kind, &body)).sound().len(), 1);
        for block in 0..3 {
            let mut archive = extension(kind, &body);
            archive[512 * (block + 1)..512 * (block + 2)].fill(0);
            let walked = walk(&archive);
            assert!(walked.members.is_empty(), "{block}: {walked:?}");
            assert!(
                walked.damage.is_some() || !walked.unreadable.is_empty(),
                "{block}: {walked:?}"
            );
        }
    }
}

fn members() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let body = vec(1_u8..=255, 0..1600);
    vec(("[a-z]{1,5}|[a-z]{120}", body), 1..9).prop_map(|members| {
        members
            .into_iter()
            .enumerate()
            .map(|(number, (name, body))| (format!("{name}{number}"), body))
            .collect()
    })
}

proptest! {
    /// Damage to whole blocks never removes a member from an archive that looks complete.
    #[test]
    fn joined_zeroed_or_cut_archive_gives_all_members_or_says_what_is_wrong(
        members in members(),
        more in prop::option::of(members()),
        zeroed in prop::option::of(any::<usize>()),
        cut in prop::option::of(any::<usize>()),
        ignores_zeros in any::<bool>(),
    ) {
        let mut archive = archive_of(&members);
        let mut expected: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
        let first_len = archive.len();
        if let Some(more) = &more {
            archive.extend(archive_of(more));
            expected.extend(more.iter().map(|(name, _)| name.as_str()));
        }
        // A walk that ignores zeros also ignores members overwritten with them.
        if let Some(zeroed) = zeroed.filter(|_| !ignores_zeros) {
            let at = zeroed % (archive.len() / 512) * 512;
            archive[at..at + 512].fill(0);
        }
        if let Some(cut) = cut {
            archive.truncate(cut % (archive.len() / 512 + 1) * 512);
        }
        // Truncated where the second member begins, or in the zeros before it,
        // the first one is complete.
        if archive.len() <= first_len {
            expected.truncate(members.len());
        }
        let walked = walk_on(&archive, ignores_zeros);
        let names = walked.names();
        // Zeros in place of the last header, of a file without a body, are a valid end.
        let last = archive.iter().rposition(|byte| *byte != 0).map_or(0, |at| at / 512 + 1);
        let is_erased =
            zeroed.is_some() && archive.len() - last * 512 >= 1024 && expected.starts_with(&names);
        if walked.damage.is_none()
            && walked.unreadable.is_empty()
            && walked.end.is_some_and(|end| end.is_sound())
        {
            prop_assert!(names == expected || is_erased, "{names:?} of {expected:?}");
        }
        if let (Ok((streamed, end)), Some(walked_end)) =
            (streamed(&archive, ignores_zeros), walked.end)
        {
            prop_assert_eq!(
                (streamed.iter().map(String::as_str).collect::<Vec<_>>(), end),
                (names, walked_end)
            );
        }
    }
}
