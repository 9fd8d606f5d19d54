//! CSV files as a table.
//!
//! Bytes enter, typed columns leave. [`infer`] looks at the start of every file and decides the types for all of them; [`CsvFile::open`] scans one file
//! for the borders of its records and cuts it into blocks; `read` parses the wanted columns of a block. Types, null spellings and quoting are those of
//! `pyarrow.csv`. Called by the `load` crate. The invariant: a record is split into the same fields whether it is sampled, counted or read.
//!
//! The parser is our own. arrow-csv decodes every field of a record before it looks at the projection, names no line in its errors and has no policy for
//! bad lines; it is the oracle of the tests.

mod borders;
mod column;
mod error;
mod file;
mod header;
mod infer;
mod kind;
mod parse;
mod rows;
mod special;
mod tokenize;

pub use error::Error;
pub use file::CsvFile;
pub use infer::infer;

use crate::limit::DecodeLimit;
use crate::records::BadLines;

/// How the files are written. All files of a data set share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsvOptions {
    pub delimiter: u8,
    /// Doubled inside of a quoted field it stands for itself (RFC 4180). `None`: no field is quoted.
    pub quote: Option<u8>,
    /// Whether the first record names the columns. Without it they are `f0`, `f1` and so on, as with pyarrow.
    pub header: bool,
    /// Spellings of null, compared byte by byte.
    pub null_values: Vec<String>,
    /// Whether the spellings of null hold in columns of strings as well. By default an empty field is an empty string there.
    pub strings_can_be_null: bool,
    pub bad_lines: BadLines,
    /// Of a record.
    pub limit: DecodeLimit,
}

/// What `pyarrow.csv` takes for null.
const NULL_VALUES: [&str; 17] =
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"];

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
        }
    }
}

impl CsvOptions {
    fn check(&self) -> Result<(), Error> {
        let is_mark = |byte: u8| byte.is_ascii() && byte != b'\n' && byte != b'\r';
        if !is_mark(self.delimiter) {
            return Err(Error::InvalidOption { option: "delimiter", value: char::from(self.delimiter) });
        }
        match self.quote {
            Some(quote) if !is_mark(quote) || quote == self.delimiter => Err(Error::InvalidOption { option: "quote", value: char::from(quote) }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
