//! Digests of files, for the index of a directory.

use shardmill_formats::mds::{HashAlgorithm, Hasher};
use shardmill_storage::{AnyStore, Result, Store};

/// Size of the pieces in which a file is read; each of them is a request to a store.
const PIECE_BYTES: u64 = 8 << 20;

/// Digests of a file, in hexadecimal digits, in the order of the algorithms.
///
/// # Errors
/// When the file cannot be read.
pub fn file_hashes(path: &str, algorithms: &[HashAlgorithm]) -> Result<Vec<String>> {
    if algorithms.is_empty() {
        return Ok(Vec::new());
    }
    let file = AnyStore.open(path)?;
    let mut hashers: Vec<Hasher> = algorithms.iter().copied().map(Hasher::new).collect();
    let mut piece = Vec::new();
    let mut offset = 0;
    while offset < file.size() {
        let len = (file.size() - offset).min(PIECE_BYTES);
        piece.resize(usize::try_from(len).unwrap_or_default(), 0);
        file.read_at(offset, &mut piece)?;
        hashers.iter_mut().for_each(|hasher| hasher.update(&piece));
        offset += len;
    }
    Ok(hashers.into_iter().map(Hasher::hex).collect())
}
