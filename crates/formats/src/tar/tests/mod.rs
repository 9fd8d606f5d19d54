//! The walk and the writer against the `tar` crate, in both directions,
//! and against hostile archives.

mod damage;
mod ends;
mod headers;
mod hostile;
mod inflate;
mod oracle;
mod write;

use super::{
    ArchiveEnd, BLOCK_LEN, Entry, Link, Member, TarError, Walk, end_of_archive, member_header,
    padding,
};

/// The result of a whole walk: members and unreadable members in order,
/// and the error that ended it.
#[derive(Debug, Default)]
struct Walked {
    members: Vec<Member>,
    links: Vec<Link>,
    unreadable: Vec<TarError>,
    damage: Option<TarError>,
    end: Option<ArchiveEnd>,
}

impl Walked {
    fn names(&self) -> Vec<&str> {
        self.members.iter().map(|member| member.name.as_str()).collect()
    }

    fn sound(self) -> Vec<Member> {
        assert!(
            self.damage.is_none() && self.unreadable.is_empty() && self.end.is_some(),
            "{self:?}"
        );
        self.members
    }
}

/// Walks an archive in memory and checks the guarantees of the walk.
fn walk(archive: &[u8]) -> Walked {
    walk_on(archive, false)
}

/// As [`walk`], skipping blocks of zeros if `ignores_zeros`.
fn walk_on(archive: &[u8], ignores_zeros: bool) -> Walked {
    let len = archive.len() as u64;
    let mut walk = Walk::new(len).reading_on(ignores_zeros);
    let mut walked = Walked::default();
    let mut steps = 0;
    while let Some(range) = walk.needs() {
        steps += 1;
        assert!(steps <= archive.len() / BLOCK_LEN * 2 + 2, "the walk does not end");
        assert!(range.end <= len && range.start <= range.end);
        assert!(range.start < range.end || len == 0);
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        match walk.push(&archive[range]) {
            Ok(Some(Entry::Link(link))) => walked.links.push(link),
            Ok(Some(Entry::Directory(_))) => {}
            Ok(Some(Entry::File(member))) => {
                assert!(member.header_offset + 512 <= member.offset);
                assert!(member.offset.checked_add(member.size).unwrap() <= len);
                walked.members.push(member);
            }
            Ok(None) => {}
            Err(error) if error.ends_walk() => {
                assert!(!error.to_string().is_empty());
                assert_eq!(walk.needs(), None);
                walked.damage = Some(error);
            }
            Err(error) => walked.unreadable.push(error),
        }
    }
    walked.end = walk.end();
    assert_eq!(
        walked.end.is_none(),
        walked.damage.is_some(),
        "either damage or an end: {walked:?}"
    );
    walked
}

fn payload(archive: &[u8], member: &Member) -> Vec<u8> {
    let start = usize::try_from(member.offset).unwrap();
    archive[start..start + usize::try_from(member.size).unwrap()].to_vec()
}

/// An archive written by this crate.
fn archive_of<N: AsRef<str>, B: AsRef<[u8]>>(members: &[(N, B)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, body) in members {
        let size = body.as_ref().len() as u64;
        archive.extend(member_header(name.as_ref(), size));
        archive.extend_from_slice(body.as_ref());
        archive.resize(archive.len() + padding(size), 0);
    }
    archive.extend(end_of_archive(archive.len() as u64));
    archive
}

/// A handmade entry: any type, any name bytes, any size field; the body is padded.
fn entry(kind: u8, name: &[u8], size: &[u8], body: &[u8]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_LEN];
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..124 + size.len()].copy_from_slice(size);
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut block);
    block.extend_from_slice(body);
    block.resize(block.len().next_multiple_of(BLOCK_LEN), 0);
    block
}

/// An entry whose size field matches its body.
fn plain(kind: u8, name: &str, body: &[u8]) -> Vec<u8> {
    let size = format!("{:011o}\0", body.len());
    entry(kind, name.as_bytes(), size.as_bytes(), body)
}

/// Writes the checksum of a header block.
fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u64 = block[..BLOCK_LEN].iter().map(|&byte| u64::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A PAX record; its length counts its own digits.
fn record(keyword: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" ", keyword.as_bytes(), b"=", value, b"\n"].concat();
    let mut len = rest.len() + 1;
    while len.to_string().len() + rest.len() != len {
        len = len.to_string().len() + rest.len();
    }
    [len.to_string().as_bytes(), &rest].concat()
}

fn ended(mut blocks: Vec<u8>) -> Vec<u8> {
    blocks.extend([0; 1024]);
    blocks
}
