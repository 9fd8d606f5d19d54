//! CSV files as a table.
//!
//! [`infer`] reads the start of every file and decides the types for all of them; [`CsvFile::open`]
//! scans one file for the borders of its records and splits it into blocks, and
//! [`CsvFile::open_inferred`] also looks for values that change the inferred types; `read` parses
//! the selected columns of a block. Types, null spellings and quoting follow `pyarrow.csv`. Used by
//! the `load` crate. The invariant: a record is split into the same fields whether it is sampled,
//! counted or read.
//!
//! The parser is part of this crate because arrow-csv decodes every field of a record before it
//! applies the projection, does not report lines in its errors, and has no policy for bad lines. It
//! serves as the oracle of the tests.

mod borders;
mod column;
mod file;
mod header;
mod infer;
mod kind;
mod late;
mod rows;
mod special;
mod tokenize;

pub use file::CsvFile;
pub use infer::{Inferred, LateColumns, Sample, infer};

use crate::limit::DecodeLimit;
pub use crate::records::Error;
use crate::records::{BadLines, Declared};

/// Options for reading CSV files. All files of a data set share them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsvOptions {
    pub delimiter: u8,
    /// Doubled inside of a quoted field it represents itself (RFC 4180).
    /// `None`: fields are never quoted.
    pub quote: Option<u8>,
    /// Whether the first record contains the column names. Otherwise they are `f0`, `f1` and so on,
    /// as with pyarrow.
    pub header: bool,
    /// Spellings of null, compared byte by byte.
    pub null_values: Vec<String>,
    /// Whether null spellings also apply to string columns. By default an empty field is an empty
    /// string there.
    pub strings_can_be_null: bool,
    pub bad_lines: BadLines,
    /// Limit for a record.
    pub limit: DecodeLimit,
    /// In other columns an integer of 64 bits that float64 would round is an error; in these it is
    /// rounded like a fraction.
    pub declared: Declared,
}

/// The null spellings of `pyarrow.csv`.
const NULL_VALUES: [&str; 17] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null",
];

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            header: true,
            null_values: NULL_VALUES.iter().map(ToString::to_string).collect(),
            strings_can_be_null: false,
            bad_lines: BadLines::Error,
            limit: DecodeLimit::default(),
            declared: Declared::All,
        }
    }
}

impl CsvOptions {
    fn check(&self) -> Result<(), Error> {
        let is_mark = |byte: u8| byte.is_ascii() && byte != b'\n' && byte != b'\r';
        if !is_mark(self.delimiter) {
            return Err(Error::InvalidOption {
                option: "delimiter",
                value: char::from(self.delimiter),
            });
        }
        match self.quote {
            Some(quote) if !is_mark(quote) || quote == self.delimiter => {
                Err(Error::InvalidOption { option: "quote", value: char::from(quote) })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
