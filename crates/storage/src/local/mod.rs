//! Files of this machine: reads, publication under final names, locks.

pub(crate) mod append_list;
pub(crate) mod claims;
pub(crate) mod disk;
pub(crate) mod file;
pub(crate) mod mapped;
pub(crate) mod publish;
pub(crate) mod rename;
pub(crate) mod scratch;
pub(crate) mod unpublished;
pub(crate) mod writeback;
