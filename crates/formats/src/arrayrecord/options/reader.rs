//! Options of a reader. All of them tune the original implementation; this one may ignore them.

use super::super::Error;
use super::grammar::{COUNT_MAX, items};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderOptions {
    /// Bytes of chunks that are fetched together when records are read in order; 0 means one chunk.
    pub readahead_buffer_size: u64,
    /// Concurrent fetches when records are read in order; 0 decodes in the calling thread, `None` lets the reader choose.
    pub max_parallelism: Option<u32>,
    pub index_storage: IndexStorage,
    /// Bytes of the footer that are fetched together.
    pub footer_prefetch_bytes: u64,
}

/// Where the positions of chunks are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexStorage {
    InMemory,
    /// In the file: each look-up reads the footer again.
    Offloaded,
}

const READAHEAD: &str = "readahead_buffer_size";
const PARALLELISM: &str = "max_parallelism";
const INDEX_STORAGE: &str = "index_storage_option";
const FOOTER_PREFETCH: &str = "footer_prefetch_bytes";

const BUFFER_MAX: u64 = 1 << 30;

impl Default for ReaderOptions {
    fn default() -> Self {
        Self { readahead_buffer_size: 0, max_parallelism: None, index_storage: IndexStorage::InMemory, footer_prefetch_bytes: 1 << 20 }
    }
}

impl ReaderOptions {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut options = Self::default();
        for item in items(text, &[READAHEAD, PARALLELISM, INDEX_STORAGE, FOOTER_PREFETCH])? {
            match item.key {
                READAHEAD => options.readahead_buffer_size = item.unless_auto(|item| item.bytes(0..=BUFFER_MAX))?.unwrap_or(0),
                PARALLELISM => options.max_parallelism = item.unless_auto(|item| item.integer(0..=COUNT_MAX))?,
                INDEX_STORAGE => {
                    let values = [("", IndexStorage::InMemory), ("in_memory", IndexStorage::InMemory), ("offloaded", IndexStorage::Offloaded)];
                    options.index_storage = item.one_of(&values)?;
                }
                _ => options.footer_prefetch_bytes = item.unless_auto(|item| item.bytes(0..=BUFFER_MAX))?.unwrap_or(1 << 20),
            }
        }
        if options.index_storage == IndexStorage::Offloaded && options.footer_prefetch_bytes > 0 {
            let fault = format!("`offloaded` goes with `{FOOTER_PREFETCH}:0` only");
            return Err(Error::Option { option: INDEX_STORAGE.to_owned(), fault });
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_strings_are_taken_as_the_original_takes_them() {
        let default = ReaderOptions::default;
        let offloaded = || ReaderOptions { index_storage: IndexStorage::Offloaded, footer_prefetch_bytes: 0, ..default() };
        for (text, expected) in [
            ("", default()),
            (",,", default()),
            ("readahead_buffer_size:auto,max_parallelism:auto,footer_prefetch_bytes:auto", default()),
            ("readahead_buffer_size:16M", ReaderOptions { readahead_buffer_size: 16 << 20, ..default() }),
            ("readahead_buffer_size:1G", ReaderOptions { readahead_buffer_size: 1 << 30, ..default() }),
            ("readahead_buffer_size:-0", default()),
            ("max_parallelism:0", ReaderOptions { max_parallelism: Some(0), ..default() }),
            ("max_parallelism: 2147483647", ReaderOptions { max_parallelism: Some(COUNT_MAX), ..default() }),
            ("index_storage_option", default()),
            ("index_storage_option:in_memory,footer_prefetch_bytes:0.4", ReaderOptions { footer_prefetch_bytes: 0, ..default() }),
            ("index_storage_option:offloaded,footer_prefetch_bytes:0", offloaded()),
            ("footer_prefetch_bytes:0,index_storage_option:offloaded", offloaded()),
        ] {
            assert_eq!(ReaderOptions::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn strings_that_the_original_refuses_are_refused() {
        for text in [
            "default",
            "group_size:1",
            "readahead_buffer_size=0",
            "readahead_buffer_size",
            "readahead_buffer_size:1.1G",
            "readahead_buffer_size:-1",
            "readahead_buffer_size:16MB",
            "readahead_buffer_size:0,readahead_buffer_size:0",
            "max_parallelism",
            "max_parallelism:-1",
            "max_parallelism:2147483648",
            "index_storage_option:disk",
            "index_storage_option:offloaded",
            "index_storage_option:offloaded,footer_prefetch_bytes:auto",
            "footer_prefetch_bytes",
            "footer_prefetch_bytes:2G",
        ] {
            assert!(matches!(ReaderOptions::parse(text), Err(Error::Option { .. })), "{text}");
        }
    }
}
