//! The option strings of readers and writers, such as `group_size:1,zstd:5`.

mod grammar;
mod reader;
mod writer;

pub use reader::ReaderOptions;
pub use writer::{Compression, WriterOptions};
