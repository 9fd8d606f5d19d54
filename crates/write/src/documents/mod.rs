//! Files of interleaved documents.

mod extension;
mod parquet;
mod tar;

pub use parquet::ParquetDocuments;
pub use tar::TarDocuments;
