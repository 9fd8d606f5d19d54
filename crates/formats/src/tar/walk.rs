//! Walks the headers of an archive and says where each file's payload lies.
//!
//! Ranges that the walk asked for enter, [`Member`]s leave; called once per archive. The same state machine is driven
//! by local reads, object stores, tests and the fuzzer. Each push moves the position forward, so a walk always ends.

use std::mem;
use std::ops::Range;

use super::entry::{Entry, Extensions, Verdict};
use super::error::{Fault, Reason, TarError};
use super::header::{Header, Kind, sparse_block_goes_on, until_nul};
use super::pax::Records;
use super::{BLOCK, BLOCK_LEN};

/// Long names and extended headers are held in memory; longer ones are refused. Paths end at 4,096 bytes on Linux, the
/// rest is for attributes.
pub const MAX_EXTENSION_LEN: u64 = 1 << 20;

/// One regular file of the archive: its name and where its payload lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Where the first header of the file lies: its own, or the first extension header that describes it.
    pub header_offset: u64,
    pub offset: u64,
    pub size: u64,
}

/// Walks the headers of an archive of known length; payloads are skipped, never read.
///
/// Members are regular files only; links, devices and directories are passed over. Names are kept as they are, with a
/// leading `./` too; a file whose name is not UTF-8 or that is stored sparse is an error that does not end the walk.
/// Where several headers name a file, the PAX `path` of the file holds, as in GNU tar, then the GNU long name, the
/// global `path` and the header block. Like GNU tar and Python's `tarfile`, the walk ends at the first block of zeros,
/// or where the archive ends between two members.
#[derive(Debug)]
pub struct Walk {
    archive_len: u64,
    position: u64,
    step: Step,
    pending: Extensions,
    globals: Records,
    /// Name, offset and size of the last payload, where it is not known whether the archive goes so far.
    open_end: Option<(String, u64, u64)>,
    is_ended: bool,
}

#[derive(Debug)]
enum Step {
    Header,
    LongName { len: u64 },
    Pax { len: u64 },
    GlobalPax { len: u64 },
    SparseMap(Member),
    End,
}

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
            is_ended: false,
        }
    }

    /// The range that `push` wants next; `None` at the end, also after an error that ends the walk.
    ///
    /// The range lies within the archive. It is empty only for an archive of no bytes, whose walk says `NotTar` when
    /// no bytes are pushed.
    pub fn needs(&self) -> Option<Range<u64>> {
        let len = match self.step {
            Step::Header | Step::SparseMap(_) => BLOCK.min(self.archive_len - self.position),
            Step::LongName { len } | Step::Pax { len } | Step::GlobalPax { len } => len,
            Step::End => return None,
        };
        Some(self.position..self.position + len)
    }

    /// Whether the zeros that end an archive were met. Without them an archive may have been cut between two members.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes the bytes of the range that `needs` named, and may give the next member.
    ///
    /// # Errors
    ///
    /// Damage ends the walk. An unreadable member ([`TarError::ends_walk`] is false) does not: `needs` then names the
    /// range behind it.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Member>, TarError> {
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
                self.pending.long_name = Some(until_nul(bytes).to_vec());
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
            Step::End => Ok(None),
        }
    }

    /// The archive ends behind `archive_len` bytes, the last of which, from the start of the range that `needs` names, are `rest`. For an archive that is a
    /// stream: its walk begins with a length of `u64::MAX`. Tells what [`Walk::is_ended`] would have.
    ///
    /// # Errors
    ///
    /// When it ends where a walk that knew its length would have said so.
    pub fn end_at(mut self, archive_len: u64, rest: &[u8]) -> Result<bool, TarError> {
        self.archive_len = archive_len;
        if let Some((name, offset, size)) = self.open_end.take().filter(|(_, offset, size)| offset.saturating_add(*size) > archive_len) {
            return Err(self.truncated(Some(name), offset.min(archive_len), size));
        }
        self.position = self.position.min(archive_len);
        match mem::replace(&mut self.step, Step::End) {
            Step::End => Ok(self.is_ended),
            Step::Header if rest.is_empty() && archive_len > 0 && self.pending.header_offset.is_none() => Ok(false),
            Step::Header => self.take_short_block(rest).map(|_nothing| self.is_ended),
            Step::LongName { len } | Step::Pax { len } | Step::GlobalPax { len } => Err(self.truncated(self.pending.name(), self.position, len)),
            Step::SparseMap(member) => Err(self.truncated(Some(member.name), self.position, BLOCK)),
        }
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<Option<Member>, TarError> {
        let Ok(block) = <&[u8; BLOCK_LEN]>::try_from(bytes) else {
            return self.take_short_block(bytes);
        };
        if block == &[0; BLOCK_LEN] {
            return match self.pending.header_offset {
                None => {
                    self.is_ended = true;
                    Ok(None)
                }
                Some(_) => Err(self.bad_header(Fault::NoFile)),
            };
        }
        let header = Header::parse(block).map_err(|fault| match fault {
            Fault::Checksum if self.position == 0 => self.not_tar(),
            fault => self.bad_header(fault),
        })?;
        match header.kind {
            Kind::LongName | Kind::LongLink | Kind::Pax | Kind::GlobalPax => self.enter_extension(&header),
            _ => self.take_entry(&header),
        }
    }

    /// The archive ends in what should be a header.
    fn take_short_block(&mut self, bytes: &[u8]) -> Result<Option<Member>, TarError> {
        if self.position == 0 {
            return Err(self.not_tar());
        }
        let is_cut_end_of_archive = bytes.iter().all(|&byte| byte == 0);
        if is_cut_end_of_archive && self.pending.header_offset.is_none() {
            self.is_ended = !bytes.is_empty();
            return Ok(None);
        }
        Err(self.truncated(self.pending.name(), self.position, BLOCK))
    }

    fn enter_extension(&mut self, header: &Header<'_>) -> Result<Option<Member>, TarError> {
        let offset = self.position;
        let len = header.size;
        let is_repeated = match header.kind {
            Kind::LongName => self.pending.long_name.is_some(),
            Kind::LongLink => self.pending.has_long_link,
            Kind::Pax => self.pending.records.is_some(),
            _ => false,
        };
        if is_repeated {
            return Err(TarError::RepeatedExtension { offset });
        }
        if len > MAX_EXTENSION_LEN {
            return Err(TarError::ExtensionTooLong { offset, found: len, limit: MAX_EXTENSION_LEN });
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
            _ => {
                self.pending.has_long_link = true;
                return self.leave_extension(len);
            }
        };
        // Nobody should have to read an empty range.
        if len == 0 { self.push(&[]) } else { Ok(None) }
    }

    fn leave_extension(&mut self, len: u64) -> Result<Option<Member>, TarError> {
        self.go_behind(len);
        if self.pending.header_offset.is_some() && matches!(self.step, Step::End) {
            return Err(self.truncated(self.pending.name(), self.position, BLOCK));
        }
        Ok(None)
    }

    fn take_entry(&mut self, header: &Header<'_>) -> Result<Option<Member>, TarError> {
        let extensions = mem::take(&mut self.pending);
        let Entry { member, verdict } = extensions.describe(header, &self.globals, self.position);
        self.position += BLOCK;
        if matches!(verdict, Verdict::SparseMap) {
            return self.want_sparse_block(member);
        }
        self.skip(&member)?;
        match verdict {
            Verdict::Offer => Ok(Some(member)),
            Verdict::Refuse(reason) => Err(unreadable(member, reason)),
            Verdict::PassOver | Verdict::SparseMap => Ok(None),
        }
    }

    fn want_sparse_block(&mut self, member: Member) -> Result<Option<Member>, TarError> {
        if self.archive_len - self.position < BLOCK {
            return Err(self.truncated(Some(member.name), self.position, BLOCK));
        }
        self.step = Step::SparseMap(member);
        Ok(None)
    }

    fn take_sparse_block(&mut self, mut member: Member, block: &[u8]) -> Result<Option<Member>, TarError> {
        self.position += BLOCK;
        if sparse_block_goes_on(block) {
            return self.want_sparse_block(member);
        }
        member.offset = self.position;
        self.skip(&member)?;
        Err(unreadable(member, Reason::Sparse))
    }

    /// Goes behind the payload of an entry, which must be there.
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

    /// Goes to the block behind `len` bytes that lie in the archive. The zeros that fill the last block may be missing.
    fn go_behind(&mut self, len: u64) {
        let end = self.position.saturating_add(len);
        let block_end = end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
        self.position = block_end.min(self.archive_len);
        self.step = if self.position < self.archive_len { Step::Header } else { Step::End };
    }

    fn parse_records(&self, body: &[u8]) -> Result<Records, TarError> {
        Records::parse(body).map_err(|offset| TarError::BadRecord { offset: self.position + offset as u64 })
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
