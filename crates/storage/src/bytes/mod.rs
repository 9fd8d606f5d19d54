//! Bytes that were read: in memory, joined to requests, or cached on a disk.

pub(crate) mod cache;
pub(crate) mod fetched;
pub(crate) mod fresh;
pub(crate) mod in_memory;
pub(crate) mod requests;
pub(crate) mod sequential;
pub(crate) mod spool;
