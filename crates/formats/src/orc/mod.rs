//! ORC files as a table.
//!
//! Byte ranges enter, typed columns leave. [`OrcFile::open`] reads the tail: types, stripes and statistics. `read` fetches the streams of the wanted
//! columns of a stripe in few requests and has orc-rust decode them. Called by the `load` crate. The invariant: orc-rust sees only what was checked here.
//! It recurses into types without a limit, trusts the lengths of lists, and unpacks to any size, and an allocation that fails or a stack that overflows
//! ends the process; so types, list lengths and sizes are judged first, and streams are unpacked by us. What panics nevertheless is caught.

mod compression;
mod error;
mod fetch;
mod file;
mod lengths;
mod statistics;
mod stripe;
mod tail;
mod types;
mod wire;

pub use error::{DecodeError, Error};
pub use file::OrcFile;

#[cfg(test)]
mod tests;
