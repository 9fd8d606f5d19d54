//! Names of output files: `<stem of the first input>-<hash>`.
//!
//! The invariant: the name depends only on the inputs and the number of the batch, so that a second
//! run of the same job replaces its own files.

use sha2::{Digest, Sha256};
use shardmill_documents::Lineage;
use shardmill_load::Format;

/// Number of hex digits of the hash in a name. Collisions are negligible among document shards; a
/// table may have millions of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digits {
    Documents = 12,
    Rows = 32,
}

const MAX_CHARACTERS: usize = 80;
/// File systems allow 255 bytes for a name, which also has the hash and an extension.
const MAX_BYTES: usize = 200;

/// The readable part, and hex digits of SHA-256 over the sorted sources and the batch number;
/// random without sources. Sources that a job reads again after a change have a `version`.
#[must_use]
pub(crate) fn file_stem(lineage: &Lineage, version: &str, digits: Digits) -> String {
    let mut sources = lineage.sources.clone();
    sources.sort_unstable();
    let Some(first) = sources.first() else { return uuid::Uuid::new_v4().simple().to_string() };
    let digest = Sha256::digest(format!("{}|{}{version}", sources.join("|"), lineage.batch));
    let hash: String =
        digest.iter().take(digits as usize / 2).map(|byte| format!("{byte:02x}")).collect();
    match readable(first) {
        "" => hash,
        stem => format!("{stem}-{hash}"),
    }
}

/// The stem of an input. Readers of directories skip names that start with `_` or `.`,
/// so these are removed.
fn readable(source: &str) -> &str {
    let stem = Format::stem(without_part(source)).trim_start_matches(['_', '.']);
    let is_too_long = |&(number, (place, mark)): &(usize, (usize, char))| {
        number >= MAX_CHARACTERS || place + mark.len_utf8() > MAX_BYTES
    };
    let end = stem
        .char_indices()
        .enumerate()
        .find(is_too_long)
        .map_or(stem.len(), |(_, (place, _))| place);
    stem.get(..end).unwrap_or_default()
}

/// A source without the number of a batch, `::split_00001`, or the range of blocks, `#0-4`.
fn without_part(source: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_range = |text: &str| {
        text.split_once('-').is_some_and(|(first, end)| is_number(first) && is_number(end))
    };
    let of_batch = source.rsplit_once("::split_").filter(|(_, batch)| is_number(batch));
    of_batch
        .or_else(|| source.rsplit_once('#').filter(|(_, range)| is_range(range)))
        .map_or(source, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(sources: &[&str], batch: usize) -> String {
        file_stem(
            &Lineage {
                batch,
                sources: sources.iter().map(|source| (*source).to_owned()).collect(),
            },
            "",
            Digits::Documents,
        )
    }

    #[test]
    fn same_inputs_and_batch_give_the_same_name_in_any_order() {
        assert_eq!(named(&["a", "b"], 0), named(&["b", "a"], 0));
        assert_ne!(named(&["a", "b"], 0), named(&["a", "b"], 1));
        assert_ne!(named(&["x/a"], 0), named(&["y/a"], 0));
        assert_ne!(named(&[], 0), named(&[], 0));
        let lineage = Lineage { batch: 0, sources: vec!["a".to_owned()] };
        assert_ne!(
            file_stem(&lineage, "", Digits::Documents),
            file_stem(&lineage, "x", Digits::Documents)
        );
    }

    #[test]
    fn a_name_begins_with_the_stem_of_the_first_input() {
        let long = |mark: &str, count: usize| format!("{}.tar", mark.repeat(count));
        let start = |mark: &str, count: usize| format!("{}-", mark.repeat(count));
        let cases = [
            ("in/a.tar.gz", "a-"),
            ("in/a.TAR", "a-"),
            ("a.tar::split_00012", "a-"),
            ("s3://bucket/in/part-0.c000.snappy.parquet#10-24", "part-0.c000.snappy-"),
            ("in/2024.01.parquet", "2024.01-"),
            ("in/2024.01", "2024.01-"),
            ("in/train.array_record-00000-of-00010", "train.array_record-00000-of-00010-"),
            ("in/shard.00000.mds.zstd", "shard.00000-"),
            ("in/._a.jsonl", "a-"),
            ("in/Größe 1.csv", "Größe 1-"),
            ("in/.parquet", ""),
            ("in/__.tar", ""),
        ];
        let cut = [("x", 80), ("é", 80), ("画", 66), ("🦀", 50)]
            .map(|(mark, count)| (long(mark, 300), start(mark, count)));
        let cases = cases
            .map(|(source, start)| (source.to_owned(), start.to_owned()))
            .into_iter()
            .chain(cut);
        for (source, start) in cases {
            let name = named(&[&source], 0);
            let hash = name.strip_prefix(&start).unwrap_or_default();
            assert!(
                hash.len() == 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{source}: {name}"
            );
        }
    }
}
