//! The headers and padding around the payloads of an archive.
//!
//! Used by the WebDataset sink, which writes header, payload and padding in turn. A header depends
//! only on name and size, so equal members produce equal archives.

use super::{BLOCK, BLOCK_LEN};

/// Two blocks of zeros, at which readers stop.
pub const END_OF_ARCHIVE: [u8; 1024] = [0; 1024];

/// The record size of tapes; archives are padded to a multiple of it.
const RECORD: u64 = 20 * BLOCK;

const NAME_LEN: usize = 100;
const SIZE_AT: usize = 124;
const MODIFIED_AT: usize = 136;
const CHECKSUM_AT: usize = 148;
const OWNER_AT: usize = 265;
const GROUP_AT: usize = 297;
const MAX_OWNER_LEN: usize = 31;
const MAX_OCTAL_SIZE: u64 = 0o77_777_777_777;
const LONG_NAME: &str = "././@LongLink";

/// The header blocks of a regular file: mtime 0, mode 0644, owner 0 without a name.
///
/// Names beyond 100 bytes get a preceding GNU long-name entry, sizes from 8 GiB on are binary: the
/// GNU format as written and read by GNU tar and Python's `tarfile`. A name ends at its first NUL,
/// so it must not contain one.
pub fn member_header(name: &str, size: u64) -> Vec<u8> {
    if name.len() <= NAME_LEN {
        return header_block(name.as_bytes(), b'0', 0o644, size);
    }
    let body_len = name.len() as u64 + 1;
    let mut blocks = header_block(LONG_NAME.as_bytes(), b'L', 0, body_len);
    blocks.extend_from_slice(name.as_bytes());
    blocks.push(0);
    blocks.resize(blocks.len() + padding(body_len), 0);
    let (start, _) = name.as_bytes().split_at(NAME_LEN);
    blocks.extend(header_block(start, b'0', 0o644, size));
    blocks
}

/// Metadata shared by the headers of one archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStamp {
    pub mode: u32,
    /// Name of owner and group; at most 31 bytes count.
    pub owner: String,
    /// Whole seconds since 1970.
    pub modified: u64,
}

impl MemberStamp {
    /// As the library `webdataset` writes it.
    #[must_use]
    pub fn of_webdataset(modified: u64) -> Self {
        Self { mode: 0o444, owner: "bigdata".to_owned(), modified }
    }
}

/// Header blocks of members with one stamp; each header is a copy with name, size and checksum
/// filled in.
#[derive(Debug, Clone)]
pub struct StampedHeaders {
    member: Vec<u8>,
    long_name: Vec<u8>,
}

impl StampedHeaders {
    #[must_use]
    pub fn new(stamp: &MemberStamp) -> Self {
        let mut member = header_block(b"", b'0', stamp.mode, 0);
        fill(
            &mut member,
            MODIFIED_AT,
            format!("{:011o}\0", stamp.modified.min(MAX_OCTAL_SIZE)).as_bytes(),
        );
        for at in [OWNER_AT, GROUP_AT] {
            fill(
                &mut member,
                at,
                stamp
                    .owner
                    .as_bytes()
                    .get(..MAX_OWNER_LEN.min(stamp.owner.len()))
                    .unwrap_or_default(),
            );
        }
        Self { member, long_name: header_block(LONG_NAME.as_bytes(), b'L', 0, 0) }
    }

    /// Appends the headers before the payload of a member. Long names and sizes
    /// are as in [`member_header`].
    pub fn append(&self, name: &str, size: u64, archive: &mut Vec<u8>) {
        let mut start = name.as_bytes();
        if let Some((beginning, _)) =
            start.split_at_checked(NAME_LEN).filter(|(_, rest)| !rest.is_empty())
        {
            let body_len = name.len() as u64 + 1;
            append_block(&self.long_name, LONG_NAME.as_bytes(), body_len, archive);
            archive.extend_from_slice(name.as_bytes());
            archive.resize(archive.len() + 1 + padding(body_len), 0);
            start = beginning;
        }
        append_block(&self.member, start, size, archive);
    }
}

fn append_block(template: &[u8], name: &[u8], size: u64, archive: &mut Vec<u8>) {
    let at = archive.len();
    archive.extend_from_slice(template);
    let Some(block) = archive.get_mut(at..) else { return };
    fill(block, 0, name);
    fill(block, SIZE_AT, &size_field(size));
    seal(block);
}

fn fill(block: &mut [u8], at: usize, field: &[u8]) {
    for (slot, byte) in block.iter_mut().skip(at).zip(field) {
        *slot = *byte;
    }
}

/// Writes the checksum of a header block; its field counts as blanks.
fn seal(block: &mut [u8]) {
    fill(block, CHECKSUM_AT, b"        ");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    fill(block, CHECKSUM_AT, format!("{sum:06o}\0 ").as_bytes());
}

/// How many zero bytes follow a payload of `size` bytes.
pub fn padding(size: u64) -> usize {
    let missing = (BLOCK - size % BLOCK) % BLOCK;
    usize::try_from(missing).unwrap_or(0)
}

/// The zeros that end an archive of `written` bytes: two blocks, then padding
/// to a full record of 10,240.
pub fn end_of_archive(written: u64) -> Vec<u8> {
    vec![0; usize::try_from(end_of_archive_len(written)).unwrap_or(0)]
}

/// The length of [`end_of_archive`].
pub fn end_of_archive_len(written: u64) -> u64 {
    let len = END_OF_ARCHIVE.len() as u64;
    let rest = (written % RECORD + len) % RECORD;
    len + (RECORD - rest) % RECORD
}

fn header_block(name: &[u8], kind: u8, mode: u32, size: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_LEN);
    block.extend_from_slice(name);
    block.resize(NAME_LEN, 0);
    block.extend(format!("{mode:07o}\0").bytes());
    block.extend(b"0000000\0"); // uid
    block.extend(b"0000000\0"); // gid
    block.extend(size_field(size));
    block.extend(b"00000000000\0"); // mtime
    block.extend(b"        "); // sum
    block.push(kind);
    block.resize(257, 0); // link name
    block.extend(b"ustar  \0");
    block.resize(BLOCK_LEN, 0);

    seal(&mut block);
    block
}

fn size_field(size: u64) -> [u8; 12] {
    let mut field = [0; 12];
    if size <= MAX_OCTAL_SIZE {
        for (slot, digit) in field.iter_mut().zip(format!("{size:011o}").bytes()) {
            *slot = digit;
        }
    } else {
        field[0] = 0x80;
        field[4..].copy_from_slice(&size.to_be_bytes());
    }
    field
}
