//! Combines the headers of a file: its own block, the preceding extension headers and the global records.
//!
//! Called by the walk. The size of an [`Entry`] is also the size by which the walk skips: with two sizes, readers could be made to see different
//! files.

use super::error::Reason;
use super::header::{Header, Kind};
use super::pax::Records;
use super::{BLOCK, Member};

/// Content of the extension headers for the next file.
#[derive(Debug, Default)]
pub(super) struct Extensions {
    pub(super) header_offset: Option<u64>,
    pub(super) long_name: Option<Vec<u8>>,
    pub(super) has_long_link: bool,
    pub(super) records: Option<Records>,
}

/// An entry of the archive, and how to continue.
pub(super) struct Entry {
    pub(super) member: Member,
    pub(super) verdict: Verdict,
}

pub(super) enum Verdict {
    Offer,
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
    pub(super) fn describe(self, header: &Header<'_>, globals: &Records, position: u64) -> Entry {
        let records = self.records.unwrap_or_default();
        // RUSTSEC-2026-0068: a reader that skips by the block's size and ignores the record's gets out of step.
        let size = match header.kind {
            Kind::WithoutPayload => 0,
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
        let verdict = match header.kind {
            Kind::Sparse if header.sparse_map_goes_on() => Verdict::SparseMap,
            Kind::OldRegular if name.ends_with('/') => Verdict::PassOver,
            Kind::WithoutPayload | Kind::Other => Verdict::PassOver,
            Kind::Continuation => Verdict::Refuse(Reason::Continuation),
            _ if is_sparse => Verdict::Refuse(Reason::Sparse),
            _ if !is_text => Verdict::Refuse(Reason::NameNotUtf8),
            _ if name.is_empty() || name.contains('\0') => Verdict::Refuse(Reason::NoName),
            _ => Verdict::Offer,
        };
        let member = Member { name, header_offset: self.header_offset.unwrap_or(position), offset: position.saturating_add(BLOCK), size };
        Entry { member, verdict }
    }
}
