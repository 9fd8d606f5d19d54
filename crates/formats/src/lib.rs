//! Parsers and writers of the file formats, one directory per format.
//!
//! Used by the engine and the Python binding. A parser does no I/O of its own: it requests byte
//! ranges, and never trusts a length or an offset that it reads.

pub mod arrayrecord;
pub mod caught;
pub mod csv;
pub mod json;
pub mod jsonl;
pub mod limit;
pub mod mds;
pub mod orc;
pub mod parquet;
pub mod records;
pub mod signature;
pub mod table;
pub mod tar;
mod token_error;
pub mod token_files;
