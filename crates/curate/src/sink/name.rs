//! Names of output files.
//!
//! The invariant: the name depends only on the inputs and the number of the batch, so that a second run of the same job replaces its own files.

use crate::chunk::Lineage;
use sha2::{Digest, Sha256};

/// Number of hex digits of the hash in a name. Collisions are negligible among document shards; a table may have millions of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digits {
    Documents = 12,
    Rows = 32,
}

/// Hex digits of SHA-256 over the sorted sources and the batch number; random without sources. Sources that a job reads again in another version have
/// a `version`.
#[must_use]
pub(crate) fn file_stem(lineage: &Lineage, version: &str, digits: Digits) -> String {
    if lineage.sources.is_empty() {
        return uuid::Uuid::new_v4().simple().to_string();
    }
    let mut sources = lineage.sources.clone();
    sources.sort_unstable();
    let digest = Sha256::digest(format!("{}|{}{version}", sources.join("|"), lineage.batch));
    digest.iter().take(digits as usize / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_inputs_and_batch_give_the_same_name_in_any_order() {
        let lineage = |sources: &[&str], batch| Lineage { batch, sources: sources.iter().map(|source| (*source).to_owned()).collect() };
        assert_eq!(file_stem(&lineage(&["a", "b"], 0), "", Digits::Documents), file_stem(&lineage(&["b", "a"], 0), "", Digits::Documents));
        assert_ne!(file_stem(&lineage(&["a", "b"], 0), "", Digits::Documents), file_stem(&lineage(&["a", "b"], 1), "", Digits::Documents));
        assert_eq!(file_stem(&lineage(&["a"], 0), "", Digits::Documents).len(), 12);
        assert_ne!(file_stem(&lineage(&[], 0), "", Digits::Documents), file_stem(&lineage(&[], 0), "", Digits::Documents));
        assert_ne!(file_stem(&lineage(&["a"], 0), "", Digits::Documents), file_stem(&lineage(&["a"], 0), "x", Digits::Documents));
    }
}
