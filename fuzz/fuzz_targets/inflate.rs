//! Any bytes as a compressed archive: inflating ends, counts what it wrote, and writes the same
//! before a damage however the bytes arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_formats::tar::{Compression, TarError, inflate};
use std::io::{self, Read};

/// Gives one byte at a time, which moves every boundary inside the decoder.
struct OneByOne<'a>(&'a [u8]);

impl Read for OneByOne<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = buffer.len().min(1);
        self.0.read(&mut buffer[..len])
    }
}

fn outcome(compression: Compression, reader: impl Read) -> (Vec<u8>, bool) {
    let mut written = Vec::new();
    let result = inflate(compression, reader, &mut written);
    let counted = match &result {
        Ok(inflated) => *inflated,
        Err(TarError::TruncatedStream { inflated, .. } | TarError::BadStream { inflated, .. }) => {
            *inflated
        }
        Err(other) => panic!("memory does not fail: {other}"),
    };
    assert_eq!(counted, written.len() as u64);
    (written, result.is_ok())
}

fuzz_target!(|archive: &[u8]| {
    for compression in [Compression::Gzip, Compression::Zstd] {
        let (at_once, is_whole) = outcome(compression, archive);
        let (slowly, is_whole_slowly) = outcome(compression, OneByOne(archive));
        assert_eq!(is_whole, is_whole_slowly);
        if is_whole {
            assert_eq!(at_once, slowly);
        }
    }
});
