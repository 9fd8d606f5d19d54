//! The strings of options that readers and writers take: `group_size:1,zstd:5`.

mod writer;

pub use writer::{Compression, WriterOptions};
