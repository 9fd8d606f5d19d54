//! Parsers and writers of the file formats, one folder a format.
//!
//! Bytes of a file enter, what they describe leaves; called by the engine and the binding. A parser does no I/O of its own: it says which byte ranges it
//! needs and never trusts a length or an offset that it reads.

pub mod arrayrecord;
pub mod caught;
pub mod csv;
pub mod jsonl;
pub mod limit;
pub mod mds;
pub mod orc;
pub mod parquet;
pub mod records;
pub mod signature;
pub mod table;
pub mod tar;
