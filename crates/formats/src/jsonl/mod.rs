//! JSON Lines, with one object per line; or one JSON array of objects. Each object is a row. The
//! format names `json` and `jsonl` both mean this format, and the first bytes of a file decide
//! between its two forms.
//!
//! [`infer`] reads the start of every file and decides the types for all of them;
//! [`JsonlFile::open`] scans one file for its lines and splits it into blocks, and
//! [`JsonlFile::open_inferred`] also looks for fields and values that change the inferred types;
//! `read` parses the selected fields of a block. A field that an object lacks is null; a value that
//! is not a string is its own JSON text where a given schema has a string; `NaN` and infinities are
//! floats, as in Python; a field that a given schema lacks is skipped, and one that an inferred
//! schema lacks is an error. [`Unpacker`](crate::records::Unpacker) decompresses files beforehand.
//! Used by the `load` crate. The invariant: each line that is not blank, and each element of an
//! array, is exactly one row; anything else is an error.
//!
//! The parser is part of this crate because arrow-json truncates 1.5 to 1 in a column of integers,
//! accepts `"5"` for 5, and reports neither line nor field of a rejected value. It serves as the
//! oracle of the tests.

mod borders;
mod column;
mod cursor;
mod fault;
mod file;
mod growth;
mod infer;
mod kind;
mod late;
mod nested;
mod records;
mod scalar;
mod texts;
mod write;

pub use column::parsed_json;
pub use file::JsonlFile;
pub use infer::{Inferred, LateMembers, Sample, infer};
pub use texts::{RecordText, RecordTexts};
pub use write::encode_lines;

use crate::limit::DecodeLimit;
pub use crate::records::Error;
use crate::records::{BadLines, Declared};

/// Options for reading the files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JsonlOptions {
    pub bad_lines: BadLines,
    /// Limit for a line.
    pub limit: DecodeLimit,
    /// In other fields an integer of 64 bits that float64 would round is an error, as is a value
    /// that is not a string where strings are expected; in these the first is rounded like a
    /// fraction, and the second is its own JSON text.
    pub declared: Declared,
    /// Whether fields that the schema lacks are skipped although it was inferred.
    pub skips_unknown: bool,
    /// Whether `NaN` and infinities are values that no column can hold.
    pub refuses_nan: bool,
}

#[cfg(test)]
mod tests;
