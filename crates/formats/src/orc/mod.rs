//! ORC files as a table.
//!
//! [`OrcFile::open`] reads the tail: types, stripes and statistics. `read` fetches the streams of
//! the selected columns of a stripe with few requests and has orc-rust decode them. Used by the
//! `load` crate. The invariant: orc-rust only receives input that was checked here. It recurses
//! into types without a limit, trusts the lengths of lists, and decompresses to any size, and a
//! failed allocation or a stack overflow ends the process; so types, list lengths and sizes are
//! checked first, and streams are decompressed here. Remaining panics are caught.

mod compression;
mod cursor;
mod decimals;
mod error;
mod fetch;
mod file;
mod integers;
mod lengths;
mod present;
mod statistics;
mod stripe;
mod tail;
mod times;
mod types;
mod wire;

pub use error::{DecodeError, Error};
pub use file::OrcFile;

#[cfg(test)]
mod tests;
