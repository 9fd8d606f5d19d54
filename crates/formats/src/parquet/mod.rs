//! Parquet files as Arrow record batches, and back.
//!
//! Byte ranges of a file enter, record batches leave ([`ParquetFile`]); record batches enter, a
//! file leaves ([`ParquetWriter`]). [`ParquetTable`] serves data sets, [`ParquetBatches`] the
//! curate source. The invariant: no type of the `parquet` crate leaves this directory, and no
//! input, however damaged, panics through it.
//!
//! ```text
//! table.rs read.rs --ranges--> object_reader.rs
//!     --pages whose sizes and checksums hold--> the parquet crate --> batches
//!
//! gauge.rs, thrift.rs: decoded sizes, before memory is allocated
//! page_damage.rs: which page a failure comes from
//! footer.rs: metadata that the decoder would refuse
//! exact/: values that it would change
//! stored_schema.rs: types that it would lose
//! statistics/ bloom.rs page_index.rs: what is ruled out before a page is read
//! write.rs stored_types.rs write_row_groups.rs write_checksums.rs: the way back
//! ```

mod bloom;
mod error;
mod exact;
mod footer;
mod gauge;
mod layout;
mod leaves;
mod object_reader;
mod page_damage;
mod page_index;
mod read;
mod shape;
mod statistics;
mod stored_schema;
mod stored_types;
mod table;
mod thrift;
mod thrift_fields;
mod write;
mod write_checksums;
mod write_row_groups;

pub use error::Error;
pub use layout::{ColumnChunk, RowGroup};
pub use read::{ParquetBatches, ParquetFile};
pub use stored_types::as_stored;
pub use table::ParquetTable;
pub use write::{ParquetCompression, ParquetWriter, ParquetWriterOptions};
pub use write_row_groups::{EncodedRowGroup, RowGroupEncoder, RowGroupEncoders, RowGroupFile};
