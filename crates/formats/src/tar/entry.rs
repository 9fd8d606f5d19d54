//! Combines the headers of a file: its own block, the preceding extension headers
//! and the global records.
//!
//! Called by the walk. The size of an [`Entry`] is also the size by which the walk skips: with two
//! sizes, readers could be made to see different files.

use super::error::Reason;
use super::header::{Header, Kind};
use super::pax::Records;
use super::{BLOCK, Entry, Link, Member};

/// Content of the extension headers for the next file.
#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) header_offset: Option<u64>,
    pub(super) long_name: Option<Vec<u8>>,
    pub(super) long_link: Option<Vec<u8>>,
    pub(super) records: Option<Records>,
}

/// A header with its extensions, and how the walk continues.
pub(super) struct Described {
    pub(super) member: Member,
    pub(super) verdict: Verdict,
}

pub(super) enum Verdict {
    Offer,
    Link {
        target: String,
        is_symbolic: bool,
    },
    Directory,
    PassOver,
    Refuse(Reason),
    /// Blocks with the rest of the sparse map come before the payload.
    SparseMap,
}

impl Extensions {
    /// The name for a message, when the file's own header is missing.
    pub(super) fn name(&self) -> Option<String> {
        let path = self.records.as_ref().and_then(|records| records.path.as_ref());
        let name = path.or(self.long_name.as_ref())?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Combines the extensions with the header at `position` that they describe.
    pub(super) fn describe(
        self,
        header: &Header<'_>,
        globals: &Records,
        position: u64,
    ) -> Described {
        let records = self.records.unwrap_or_default();
        // RUSTSEC-2026-0068: a reader that skips by the block's size and ignores the record's gets
        // out of step.
        let size = match header.kind {
            kind if !kind.has_payload() => 0,
            _ => records.size.or(globals.size).unwrap_or(header.size),
        };
        let is_sparse = header.kind == Kind::Sparse || records.is_sparse || globals.is_sparse;
        let name = records
            .sparse_name
            .filter(|_| is_sparse)
            .or(records.path)
            .or(self.long_name)
            .or_else(|| globals.path.clone())
            .unwrap_or_else(|| header.name());
        let (name, is_text) = match String::from_utf8(name) {
            Ok(name) => (name, true),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
        };
        let target = || {
            let stated = records.link_path.or(self.long_link).or_else(|| globals.link_path.clone());
            let target = stated.unwrap_or_else(|| header.link_name());
            String::from_utf8_lossy(&target).into_owned()
        };
        let verdict = match header.kind {
            Kind::Sparse if header.sparse_map_goes_on() => Verdict::SparseMap,
            Kind::OldRegular if name.ends_with('/') => Verdict::Directory,
            Kind::Directory => Verdict::Directory,
            Kind::Device | Kind::Other => Verdict::PassOver,
            Kind::Continuation => Verdict::Refuse(Reason::Continuation),
            kind if is_sparse && kind.has_payload() => Verdict::Refuse(Reason::Sparse),
            _ if !is_text => Verdict::Refuse(Reason::NameNotUtf8),
            _ if name.is_empty() || name.contains('\0') => Verdict::Refuse(Reason::NoName),
            kind @ (Kind::HardLink | Kind::SymbolicLink) => {
                Verdict::Link { target: target(), is_symbolic: kind == Kind::SymbolicLink }
            }
            _ => Verdict::Offer,
        };
        let member = Member {
            name,
            header_offset: self.header_offset.unwrap_or(position),
            offset: position.saturating_add(BLOCK),
            size,
        };
        Described { member, verdict }
    }
}

impl Described {
    /// What the walk returns; `None` for a device.
    pub(super) fn offered(self) -> Result<Option<Entry>, (Member, Reason)> {
        let Self { member, verdict } = self;
        match verdict {
            Verdict::Offer => Ok(Some(Entry::File(member))),
            Verdict::Link { target, is_symbolic } => {
                Ok(Some(Entry::Link(Link { member, target, is_symbolic })))
            }
            Verdict::Directory => Ok(Some(Entry::Directory(member.name))),
            Verdict::Refuse(reason) => Err((member, reason)),
            Verdict::PassOver | Verdict::SparseMap => Ok(None),
        }
    }
}
