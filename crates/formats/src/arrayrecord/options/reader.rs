//! Options of a reader. All of them tune the original implementation; this one may ignore them.

use super::super::Error;
use super::grammar::Numbers::{self, Bytes, Integers, Never};
use super::grammar::{COUNT_MAX, Items, Key, refused};

/// The other options are checked and have no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderOptions {
    /// Bytes of the footer that are fetched together.
    pub footer_prefetch_bytes: u64,
}

const INDEX_STORAGE: &str = "index_storage_option";
const FOOTER_PREFETCH: &str = "footer_prefetch_bytes";
const BUFFER: Numbers = Bytes(0, 1 << 30);

const TABLE: [Key; 4] = [
    ("readahead_buffer_size", &["auto"], BUFFER),
    ("max_parallelism", &["auto"], Integers(0, COUNT_MAX)),
    (INDEX_STORAGE, &["", "in_memory", "offloaded"], Never),
    (FOOTER_PREFETCH, &["auto"], BUFFER),
];

impl ReaderOptions {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let items = Items::parse(text, &TABLE)?;
        let footer_prefetch_bytes = items.number(FOOTER_PREFETCH).unwrap_or(1 << 20);
        if items.text(INDEX_STORAGE) == Some("offloaded") && footer_prefetch_bytes > 0 {
            return Err(refused(
                INDEX_STORAGE,
                format!("`offloaded` goes with `{FOOTER_PREFETCH}:0` only"),
            ));
        }
        Ok(Self { footer_prefetch_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_strings_are_taken_as_the_original_takes_them() {
        for (text, footer_prefetch_bytes) in [
            ("", 1 << 20),
            (",,", 1 << 20),
            ("readahead_buffer_size:auto,max_parallelism:auto,footer_prefetch_bytes:auto", 1 << 20),
            ("readahead_buffer_size:16M", 1 << 20),
            ("readahead_buffer_size:1G", 1 << 20),
            ("readahead_buffer_size:-0", 1 << 20),
            ("max_parallelism:0", 1 << 20),
            ("max_parallelism: 2147483647", 1 << 20),
            ("index_storage_option", 1 << 20),
            ("index_storage_option:in_memory,footer_prefetch_bytes:0.4", 0),
            ("footer_prefetch_bytes:16M", 16 << 20),
            ("footer_prefetch_bytes:1G", 1 << 30),
            ("footer_prefetch_bytes:-0", 0),
            ("index_storage_option:offloaded,footer_prefetch_bytes:0", 0),
            ("footer_prefetch_bytes:0,index_storage_option:offloaded", 0),
        ] {
            assert_eq!(
                ReaderOptions::parse(text).unwrap(),
                ReaderOptions { footer_prefetch_bytes },
                "{text}"
            );
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
