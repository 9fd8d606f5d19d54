//! What a writer can be told.

/// How the chunks of a file are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// Records of a chunk.
    pub group_size: u32,
    pub compression: Compression,
    /// Each chunk begins a block, behind padding.
    pub pad_to_block_boundary: bool,
    /// Bytes of a bucket of transposed chunks; `None` for simple chunks.
    pub transpose_bucket_size: Option<u64>,
}

/// Of the data of chunks, with what the codec is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    None,
    Brotli { level: u8, window_log: Option<u8> },
    Zstd { level: i32, window_log: u8 },
    Snappy,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { group_size: 1, compression: Compression::Zstd { level: 3, window_log: 20 }, pad_to_block_boundary: false, transpose_bucket_size: None }
    }
}

impl WriterOptions {
    pub fn recorded(&self) -> String {
        "group_size:1,transpose:false,pad_to_block_boundary:false,uncompressed,max_parallelism:1".to_owned()
    }
}
