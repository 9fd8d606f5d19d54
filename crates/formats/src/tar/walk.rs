//! Walks the headers of an archive and locates each file's payload.
//!
//! The caller reads the ranges that the walk requests, and gets [`Member`]s. The same state machine
//! is driven by local reads, object stores, tests and the fuzzer. Each push advances the position,
//! so a walk always ends.

use std::mem;
use std::ops::Range;

use super::entry::{Described, Extensions, Verdict};
use super::error::{Fault, Reason, TarError};
use super::header::{Header, Kind, sparse_block_goes_on, until_nul};
use super::pax::Records;
use super::{BLOCK, BLOCK_LEN};

/// Long names and extended headers are held in memory; longer ones are rejected. Paths are limited
/// to 4,096 bytes on Linux, the rest is for attributes.
pub const MAX_EXTENSION_LEN: u64 = 1 << 20;

/// A regular file in the archive: its name and the position of its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Offset of the first header of the file: its own, or the first extension header that
    /// describes it.
    pub header_offset: u64,
    pub offset: u64,
    pub size: u64,
}

/// What a header of the archive describes. Devices are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    File(Member),
    Link(Link),
    /// Its name, which may end with a slash.
    Directory(String),
}

impl Entry {
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::File(member) => &member.name,
            Self::Link(link) => &link.member.name,
            Self::Directory(name) => name,
        }
    }
}

/// A name for another entry; [`Links`](super::Links) finds the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Has no payload of its own.
    pub member: Member,
    /// For a hard link, the name of an earlier entry; for a symbolic link,
    /// a path relative to its directory.
    pub target: String,
    pub is_symbolic: bool,
}

/// How an archive ends. Only [`ArchiveEnd::Marked`] proves that no member is missing: the others
/// look like the end of a smaller archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveEnd {
    /// At least two blocks of zeros, and nothing but zeros after them.
    #[error("ends at byte {offset} by two blocks of zeros")]
    Marked { offset: u64 },
    /// The archive stops at `offset`, after a complete member, without two complete
    /// blocks of zeros.
    #[error(
        "ends at byte {offset}, after a whole member and without the zeros that end an archive \
         (two blocks of 512): it is truncated, or is still being written"
    )]
    Missing { offset: u64 },
    /// Zeros end the archive at `marker`, and bytes that are not zero follow at `offset`.
    #[error(
        "ends at byte {marker} by a block of zeros, and other bytes follow at byte {offset}: \
         archives were concatenated, or a part was overwritten with zeros"
    )]
    Followed { marker: u64, offset: u64 },
}

impl ArchiveEnd {
    /// Whether this is a proper end as a writer produces it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        matches!(self, Self::Marked { .. })
    }

    /// The offset of the unexpected end or byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self {
            Self::Marked { offset } | Self::Missing { offset } | Self::Followed { offset, .. } => {
                *offset
            }
        }
    }
}

/// Walks the headers of an archive of known length; payloads are skipped, never read.
///
/// Names are returned unchanged, including a leading `./`; a file whose name is not UTF-8 or that
/// is stored sparse is an error that does not end the walk. If several headers name a file, the PAX
/// `path` of the file takes precedence, as in GNU tar, then the GNU long name, the global `path`
/// and the header block. Like GNU tar and Python's `tarfile`, the walk returns no member after the
/// first block of zeros, unless it [reads on](Walk::reading_on); bytes after the zeros are read up
/// to the first one that is not zero, for [`Walk::end`].
#[derive(Debug)]
pub struct Walk {
    archive_len: u64,
    position: u64,
    step: Step,
    pending: Extensions,
    globals: Records,
    /// Name, offset and size of the last payload, if it is not known whether the archive contains
    /// all of it.
    open_end: Option<(String, u64, u64)>,
    /// Skip blocks of zeros between members.
    ignores_zeros: bool,
    /// Where the zeros before the position begin.
    zeros: Option<u64>,
    end: Option<ArchiveEnd>,
}

#[derive(Debug)]
enum Step {
    Header,
    LongName {
        len: u64,
    },
    LongLink {
        len: u64,
    },
    Pax {
        len: u64,
    },
    GlobalPax {
        len: u64,
    },
    SparseMap(Member),
    /// What follows the first block of zeros.
    Zeros,
    End,
}

/// Bytes after the marker are read in pieces of this size.
const ZEROS_AT_ONCE: u64 = 1 << 16;
/// The marker: two blocks.
const MARKER_LEN: u64 = 2 * BLOCK;

impl Walk {
    /// Starts at the first header of an archive of `archive_len` bytes.
    pub fn new(archive_len: u64) -> Self {
        Self {
            archive_len,
            position: 0,
            step: Step::Header,
            pending: Extensions::default(),
            globals: Records::default(),
            open_end: None,
            ignores_zeros: false,
            zeros: None,
            end: None,
        }
    }

    /// With `ignores_zeros`, skips blocks of zeros between members, as `tar -i` does, for
    /// concatenated archives.
    #[must_use]
    pub fn reading_on(self, ignores_zeros: bool) -> Self {
        Self { ignores_zeros, ..self }
    }

    /// The range that `push` needs next; `None` at the end, and after an error that ends the walk.
    ///
    /// The range lies within the archive. It is empty only for an empty archive, whose walk returns
    /// `NotTar` when no bytes are pushed.
    pub fn needs(&self) -> Option<Range<u64>> {
        let len = match self.step {
            Step::Header | Step::SparseMap(_) => BLOCK.min(self.archive_len - self.position),
            Step::Zeros => ZEROS_AT_ONCE.min(self.archive_len - self.position),
            Step::LongName { len }
            | Step::LongLink { len }
            | Step::Pax { len }
            | Step::GlobalPax { len } => len,
            Step::End => return None,
        };
        Some(self.position..self.position + len)
    }

    /// How the archive ends, once the walk is over; `None` before that,
    /// and if damage ended the walk.
    pub fn end(&self) -> Option<ArchiveEnd> {
        self.end
    }

    /// Consumes the bytes of the range that `needs` returned, and may return the next entry.
    ///
    /// # Errors
    ///
    /// Damage ends the walk. An unreadable member ([`TarError::ends_walk`] is false) does not:
    /// `needs` then returns the range after it.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Entry>, TarError> {
        let found = bytes.len() as u64;
        let (offset, needed) = match self.needs() {
            Some(range) => (range.start, range.end - range.start),
            None => (self.position, 0),
        };
        let step = mem::replace(&mut self.step, Step::End);
        if found != needed {
            return Err(TarError::WrongRange { offset, needed, found });
        }
        match step {
            Step::Header => self.take_header(bytes),
            Step::LongName { len } => {
                self.pending.long_name = Some(self.long_name(bytes)?);
                self.leave_extension(len)
            }
            Step::LongLink { len } => {
                self.pending.long_link = Some(self.long_name(bytes)?);
                self.leave_extension(len)
            }
            Step::Pax { len } => {
                self.pending.records = Some(self.parse_records(bytes)?);
                self.leave_extension(len)
            }
            Step::GlobalPax { len } => {
                let records = self.parse_records(bytes)?;
                self.globals.update(records);
                self.leave_extension(len)
            }
            Step::SparseMap(member) => self.take_sparse_block(member, bytes),
            Step::Zeros => {
                self.take_zeros(bytes);
                Ok(None)
            }
            Step::End => Ok(None),
        }
    }

    /// Ends the walk of a stream, which starts with a length of `u64::MAX`: the archive ends after
    /// `archive_len` bytes, and `rest` are its bytes from the start of the range that `needs`
    /// returns. Returns what [`Walk::end`] would.
    ///
    /// # Errors
    ///
    /// When it ends where a walk with a known length would report an error.
    pub fn end_at(mut self, archive_len: u64, rest: &[u8]) -> Result<ArchiveEnd, TarError> {
        self.archive_len = archive_len;
        if let Some((name, offset, size)) = self
            .open_end
            .take()
            .filter(|(_, offset, size)| offset.saturating_add(*size) > archive_len)
        {
            return Err(self.truncated(Some(name), offset.min(archive_len), size));
        }
        self.position = self.position.min(archive_len);
        match mem::replace(&mut self.step, Step::End) {
            Step::End => {}
            Step::Header
                if rest.is_empty() && archive_len > 0 && self.pending.header_offset.is_none() => {}
            Step::Header => {
                self.take_header(rest)?;
            }
            Step::Zeros => self.take_zeros(rest),
            Step::LongName { len }
            | Step::LongLink { len }
            | Step::Pax { len }
            | Step::GlobalPax { len } => {
                return Err(self.truncated(self.pending.name(), self.position, len));
            }
            Step::SparseMap(member) => {
                return Err(self.truncated(Some(member.name), self.position, BLOCK));
            }
        }
        self.note_end();
        Ok(self.end.unwrap_or(ArchiveEnd::Missing { offset: archive_len }))
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<Option<Entry>, TarError> {
        let Ok(block) = <&[u8; BLOCK_LEN]>::try_from(bytes) else {
            return self.take_short_block(bytes);
        };
        if block == &[0; BLOCK_LEN] {
            if self.pending.header_offset.is_some() {
                return Err(self.bad_header(Fault::NoFile));
            }
            self.zeros.get_or_insert(self.position);
            self.position += BLOCK;
            self.go_on(if self.ignores_zeros { Step::Header } else { Step::Zeros });
            return Ok(None);
        }
        self.zeros = None;
        let header = Header::parse(block).map_err(|fault| match fault {
            Fault::Checksum if self.position == 0 => self.not_tar(),
            fault => self.bad_header(fault),
        })?;
        match header.kind {
            Kind::LongName | Kind::LongLink | Kind::Pax | Kind::GlobalPax => {
                self.enter_extension(&header)
            }
            _ => self.take_entry(&header),
        }
    }

    /// The archive ends inside of a header.
    fn take_short_block(&mut self, bytes: &[u8]) -> Result<Option<Entry>, TarError> {
        if self.position == 0 {
            return Err(self.not_tar());
        }
        let is_cut_end_of_archive = bytes.iter().all(|&byte| byte == 0);
        if is_cut_end_of_archive && self.pending.header_offset.is_none() {
            self.zeros.get_or_insert(self.position);
            self.position += bytes.len() as u64;
            self.note_end();
            return Ok(None);
        }
        Err(self.truncated(self.pending.name(), self.position, BLOCK))
    }

    /// Searches the first byte after the marker that is not zero.
    fn take_zeros(&mut self, bytes: &[u8]) {
        if let Some(at) = bytes.iter().position(|&byte| byte != 0) {
            let offset = self.position + at as u64;
            self.end = Some(ArchiveEnd::Followed { marker: self.zeros.unwrap_or(offset), offset });
            self.step = Step::End;
            return;
        }
        self.position += bytes.len() as u64;
        self.go_on(Step::Zeros);
    }

    fn go_on(&mut self, step: Step) {
        if self.position < self.archive_len {
            self.step = step;
        } else {
            self.step = Step::End;
            self.note_end();
        }
    }

    /// Handles the end of the archive at the position.
    fn note_end(&mut self) {
        let end = match self.zeros {
            Some(offset) if self.position - offset >= MARKER_LEN => ArchiveEnd::Marked { offset },
            zeros => ArchiveEnd::Missing { offset: zeros.unwrap_or(self.position) },
        };
        self.end.get_or_insert(end);
    }

    fn enter_extension(&mut self, header: &Header<'_>) -> Result<Option<Entry>, TarError> {
        let offset = self.position;
        let len = header.size;
        let is_repeated = match header.kind {
            Kind::LongName => self.pending.long_name.is_some(),
            Kind::LongLink => self.pending.long_link.is_some(),
            Kind::Pax => self.pending.records.is_some(),
            _ => false,
        };
        if is_repeated {
            return Err(TarError::RepeatedExtension { offset });
        }
        if len > MAX_EXTENSION_LEN {
            return Err(TarError::ExtensionTooLong {
                offset,
                found: len,
                limit: MAX_EXTENSION_LEN,
            });
        }
        self.position += BLOCK;
        if len > self.archive_len - self.position {
            return Err(self.truncated(self.pending.name(), self.position, len));
        }
        if header.kind != Kind::GlobalPax {
            self.pending.header_offset.get_or_insert(offset);
        }
        self.step = match header.kind {
            Kind::LongName => Step::LongName { len },
            Kind::Pax => Step::Pax { len },
            Kind::GlobalPax => Step::GlobalPax { len },
            _ => Step::LongLink { len },
        };
        // Callers should not have to read an empty range.
        if len == 0 { self.push(&[]) } else { Ok(None) }
    }

    /// The body of a GNU extension: a name that ends with one NUL.
    fn long_name(&self, bytes: &[u8]) -> Result<Vec<u8>, TarError> {
        let name = until_nul(bytes);
        let rest = bytes.get(name.len()..).unwrap_or_default();
        // Zeros from a block's start on, or before other bytes, come from an overwritten block.
        if rest.iter().any(|&byte| byte != 0)
            || rest.len() > 1 && name.len().is_multiple_of(BLOCK_LEN)
        {
            return Err(TarError::BadRecord { offset: self.position + name.len() as u64 });
        }
        Ok(name.to_vec())
    }

    fn leave_extension(&mut self, len: u64) -> Result<Option<Entry>, TarError> {
        self.go_behind(len);
        if self.pending.header_offset.is_some() && matches!(self.step, Step::End) {
            self.end = None;
            return Err(self.truncated(self.pending.name(), self.position, BLOCK));
        }
        Ok(None)
    }

    fn take_entry(&mut self, header: &Header<'_>) -> Result<Option<Entry>, TarError> {
        let extensions = mem::take(&mut self.pending);
        let described = extensions.describe(header, &self.globals, self.position);
        self.position += BLOCK;
        if let Described { member, verdict: Verdict::SparseMap } = described {
            return self.want_sparse_block(member);
        }
        self.skip(&described.member)?;
        described.offered().map_err(|(member, reason)| unreadable(member, reason))
    }

    fn want_sparse_block(&mut self, member: Member) -> Result<Option<Entry>, TarError> {
        if self.archive_len - self.position < BLOCK {
            return Err(self.truncated(Some(member.name), self.position, BLOCK));
        }
        self.step = Step::SparseMap(member);
        Ok(None)
    }

    fn take_sparse_block(
        &mut self,
        mut member: Member,
        block: &[u8],
    ) -> Result<Option<Entry>, TarError> {
        self.position += BLOCK;
        if sparse_block_goes_on(block) {
            return self.want_sparse_block(member);
        }
        member.offset = self.position;
        self.skip(&member)?;
        Err(unreadable(member, Reason::Sparse))
    }

    /// Moves past the payload of an entry, which must be complete.
    fn skip(&mut self, member: &Member) -> Result<(), TarError> {
        if member.size > self.archive_len - self.position {
            let name = Some(member.name.clone());
            return Err(self.truncated(name, self.position, member.size));
        }
        if self.archive_len == u64::MAX {
            self.open_end = Some((member.name.clone(), self.position, member.size));
        }
        self.go_behind(member.size);
        Ok(())
    }

    /// Moves to the block after `len` bytes that lie in the archive. The padding of the last block
    /// may be missing.
    fn go_behind(&mut self, len: u64) {
        let end = self.position.saturating_add(len);
        let block_end = end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        self.position = block_end.min(self.archive_len);
        self.go_on(Step::Header);
    }

    fn parse_records(&self, body: &[u8]) -> Result<Records, TarError> {
        Records::parse(body)
            .map_err(|offset| TarError::BadRecord { offset: self.position + offset as u64 })
    }

    fn not_tar(&self) -> TarError {
        TarError::NotTar { archive_len: self.archive_len }
    }

    fn bad_header(&self, fault: Fault) -> TarError {
        TarError::BadHeader { offset: self.position, fault }
    }

    fn truncated(&self, member: Option<String>, offset: u64, needed: u64) -> TarError {
        TarError::Truncated { member, offset, needed, found: self.archive_len - offset }
    }
}

fn unreadable(member: Member, reason: Reason) -> TarError {
    TarError::Unreadable { member: member.name, offset: member.offset, reason }
}
