//! Identifies a data set for a saved state by names, sizes, blocks and footers of its files,
//! independent of their location.

use crate::dataset::{Dataset, OpenFile};
use sha2::{Digest, Sha256};

/// Of all files, as 32 hexadecimal digits.
#[must_use]
pub fn of_dataset(dataset: &Dataset) -> String {
    let mut hash = Sha256::new();
    for file in dataset.files() {
        hash.update(of_file(file));
    }
    hex(&hash.finalize(), 16)
}

/// Of each file, in the order of the data set, as eight hexadecimal digits,
/// to find files that differ.
#[must_use]
pub fn of_files(dataset: &Dataset) -> Vec<String> {
    dataset.files().iter().map(|file| hex(&of_file(file), 4)).collect()
}

fn of_file(file: &OpenFile) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(file.relative.as_bytes());
    hash.update([0]);
    hash.update(file.size.to_le_bytes());
    hash.update(file.table.digest().to_le_bytes());
    for block in file.table.blocks() {
        hash.update(block.rows.to_le_bytes());
    }
    if let Some(live) = file.live_bits() {
        hash.update([1]);
        live.set_indices().fold((), |(), row| hash.update((row as u64).to_le_bytes()));
    }
    hash.finalize().to_vec()
}

fn hex(bytes: &[u8], len: usize) -> String {
    bytes.iter().take(len).map(|byte| format!("{byte:02x}")).collect()
}
