//! Rebuilds the index entry of a shard from its file.

use super::file::{MdsFile, MdsOptions};
use super::stored::Stored;
use crate::limit::DecodeLimit;
use crate::mds::{Compression, Error, FileEntry, HashAlgorithm, ShardEntry};
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// The description of a shard according to its file.
#[derive(Debug, Clone)]
pub struct RebuiltShard {
    pub entry: ShardEntry,
    /// The config names a compression, but the file is not compressed: it is a copy left by a
    /// reader, and the original is missing.
    pub is_uncompressed_copy: bool,
}

/// Reads a whole shard, checks every sample, and computes the hashes named in its config.
/// `basename` is its name below the index.
///
/// # Errors
/// For a shard that is damaged, and a hash algorithm that is not supported.
pub fn rebuild_shard(object: Arc<dyn RangeRead>, basename: &str) -> Result<RebuiltShard, Error> {
    let file = MdsFile::open(Arc::clone(&object), &MdsOptions::default())?;
    file.verify()?;
    let (head, stored) = (
        file.head(),
        Stored {
            compression: Compression::of_path(object.path()),
            limit: DecodeLimit::default(),
            object,
        },
    );
    let config = head.config.clone();
    // An index entry with such a config could not be read.
    let stated = config.compression.as_ref().map(Compression::extension);
    if let Some(found) =
        stored.compression.as_ref().filter(|found| stated != Some(found.extension()))
    {
        let reason = format!(
            "its config names `{}`, the file is compressed with `{}`",
            stated.unwrap_or("null"),
            found.extension()
        );
        return Err(Error::Shard { path: stored.path().to_owned(), field: "compression", reason });
    }
    let algorithm = |name: &String| {
        let refused = || Error::Option {
            option: "hashes",
            value: name.clone(),
            reason: "there is no such algorithm",
        };
        HashAlgorithm::parse(name).ok_or_else(refused)
    };
    let algorithms = config.hashes.iter().map(algorithm).collect::<Result<Vec<_>, _>>()?;
    let describe = |basename: &str, bytes: &[u8]| FileEntry {
        basename: basename.to_owned(),
        bytes: bytes.len() as u64,
        hashes: algorithms
            .iter()
            .map(|algorithm| (algorithm.name().to_owned(), algorithm.hex(bytes)))
            .collect(),
    };
    let raw = stored.read_whole(head, None, None)?;
    let samples = head.samples() as u64;
    let Some(compression) = &stored.compression else {
        let is_uncompressed_copy = config.compression.is_some();
        return Ok(RebuiltShard {
            entry: ShardEntry {
                config,
                raw_data: describe(basename, &raw),
                zip_data: None,
                samples,
            },
            is_uncompressed_copy,
        });
    };
    let raw_name = basename
        .strip_suffix(compression.extension())
        .and_then(|name| name.strip_suffix('.'))
        .unwrap_or(basename);
    let zip_data = Some(describe(basename, &stored.read(0, stored.object.size())?));
    Ok(RebuiltShard {
        entry: ShardEntry { config, raw_data: describe(raw_name, &raw), zip_data, samples },
        is_uncompressed_copy: false,
    })
}
