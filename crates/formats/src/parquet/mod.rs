//! Parquet files as Arrow record batches, and back.
//!
//! Byte ranges of a file enter, record batches leave ([`ParquetFile`]); record batches enter, a file leaves ([`ParquetWriter`]). Called by the curate
//! source and sink. The invariant: no type of the `parquet` crate leaves this folder, and no input, however damaged, panics through it.

mod bloom;
mod error;
mod gauge;
mod layout;
mod object;
mod page_checksums;
mod page_index;
mod pages;
mod read;
mod row_groups;
mod shape;
mod statistics;
mod table;
mod thrift;
mod thrift_fields;
mod write;

pub use error::Error;
pub use layout::{ColumnChunk, RowGroup};
pub use read::{ParquetBatches, ParquetFile};
pub use row_groups::{EncodedRowGroup, RowGroupEncoder, RowGroupEncoders, RowGroupFile};
pub use table::ParquetTable;
pub use write::{ParquetCompression, ParquetWriter, ParquetWriterOptions};
