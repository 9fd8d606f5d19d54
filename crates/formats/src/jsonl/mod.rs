//! JSON Lines: one object a line, a row each; or one JSON array of objects, each element a row. The format names `json` and `jsonl` both mean it, and the
//! first bytes of a file tell which of the two it is.
//!
//! Bytes enter, typed columns leave. [`infer`] looks at the start of every file and decides the types for all of them; [`JsonlFile::open`] scans one file
//! for its lines and cuts it into blocks; `read` parses the wanted fields of a block. A field that an object lacks is null; one that the schema lacks is
//! skipped, also when it first appears behind the sample. [`Unpacker`] makes plain files of compressed ones before that. Called by the `load` crate. The invariant: each line that is not blank, and each element of an array, is exactly one row; what is neither is an error.
//!
//! The parser is our own. arrow-json cuts 1.5 to 1 in a column of integers and takes `"5"` for 5, and names neither line nor field when it refuses a value;
//! it is the oracle of the tests.

mod borders;
mod column;
mod cursor;
mod error;
mod fault;
mod file;
mod infer;
mod kind;
mod nested;
mod parse;
mod records;
mod scalar;
mod unpacked;
mod write;

pub use error::Error;
pub use file::JsonlFile;
pub use infer::infer;
pub use unpacked::Unpacker;
pub use write::{Unwritable, ValueEncoder, encode_lines, holds};

use crate::limit::DecodeLimit;
use crate::records::BadLines;

/// How the files are read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JsonlOptions {
    pub bad_lines: BadLines,
    /// Of a line.
    pub limit: DecodeLimit,
}

#[cfg(test)]
mod tests;
