//! The layout of an index file, which is written once from front to back, and its validation.
//!
//! ```text
//! | magic: 8 | parts, containers and directories of the sets | footer: JSON | tail: 32 |
//! tail: | footer length: u64 | xxh3 of the footer: u64 | version: u32 | 0: u32 | magic: 8 |
//! ```
//!
//! The footer contains the xxh3 of all preceding bytes.

use super::dense::DenseSet;
use super::sparse::SparseSet;
use crate::keys::{IdSchema, WideClass};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_storage::{AnyStore, Replace, Staged, Store, Unpublished};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

const MAGIC: &[u8; 8] = b"SMIDIDX1";
pub const INDEX_VERSION: u32 = 1;
const TAIL_LEN: usize = 32;
/// Larger files are not read completely when they are opened.
const CHECKED_LEN: usize = 64 << 20;

/// The footer of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Footer {
    pub schema: IdSchema,
    pub secret: [u64; 4],
    /// Number of rows that were added, including those without an id.
    pub rows: u64,
    pub nulls: u64,
    /// Of the bytes before the footer.
    pub checksum: u64,
    pub dense: DenseSet,
    pub narrow: Option<SparseSet>,
    pub wide: Vec<(WideClass, SparseSet)>,
}

impl Footer {
    pub(super) fn count(&self) -> u64 {
        let sparse = self.narrow.iter().chain(self.wide.iter().map(|(_, set)| set));
        self.dense.count.saturating_add(sparse.map(SparseSet::len).sum())
    }
}

/// An index file that is being written.
pub(super) struct IndexWriter {
    path: String,
    staged: Box<dyn Staged>,
    checksum: Xxh3Default,
    offset: u64,
}

impl IndexWriter {
    pub(super) fn create(path: &str) -> Result<Self> {
        let staged = AnyStore.stage(path, &Unpublished::default())?;
        let mut writer =
            Self { path: path.to_owned(), staged, checksum: Xxh3Default::new(), offset: 0 };
        writer.append(MAGIC)?;
        Ok(writer)
    }

    /// Returns the offset of the bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let start = self.offset;
        self.checksum.update(bytes);
        self.write(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(start)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.staged
            .write_all(bytes)
            .map_err(|source| Error::WriteIndex { path: self.path.clone(), source })
    }

    pub(super) fn publish(mut self, mut footer: Footer) -> Result<()> {
        footer.checksum = self.checksum.digest();
        let json = serde_json::to_vec(&footer)
            .map_err(|error| Error::WriteIndex { path: self.path.clone(), source: error.into() })?;
        self.write(&json)?;
        let tail = [
            (json.len() as u64).to_le_bytes(),
            xxh3_64(&json).to_le_bytes(),
            u64::from(INDEX_VERSION).to_le_bytes(),
            *MAGIC,
        ]
        .concat();
        self.write(&tail)?;
        Ok(self.staged.publish(Replace::Atomically)?)
    }
}

/// The footer of a file with a sound structure: no probe of it reads outside of the file. The
/// content of small files is verified as well.
pub(super) fn checked_footer(path: &str, file: &[u8]) -> Result<Footer> {
    let damaged = |reason| Error::DamagedIndex { path: path.to_owned(), reason };
    let not_an_index = || Error::NotAnIndex { path: path.to_owned() };
    if file.first_chunk() != Some(MAGIC) {
        return Err(not_an_index());
    }
    let (front, tail) = file
        .len()
        .checked_sub(TAIL_LEN)
        .and_then(|end| file.split_at_checked(end))
        .ok_or_else(|| damaged("it is truncated"))?;
    let number = |place: usize| {
        tail.get(8 * place..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .map(u64::from_le_bytes)
            .unwrap_or_default()
    };
    if tail.last_chunk() != Some(MAGIC) {
        return Err(damaged("it is truncated"));
    }
    let version = number(2);
    if version != u64::from(INDEX_VERSION) {
        return Err(Error::IndexVersion {
            path: path.to_owned(),
            version: u32::try_from(version).unwrap_or(u32::MAX),
        });
    }
    let footer_len = usize::try_from(number(0)).ok().and_then(|len| front.len().checked_sub(len));
    let (content, json) = footer_len
        .and_then(|end| front.split_at_checked(end))
        .ok_or_else(|| damaged("its footer is longer than it is"))?;
    if xxh3_64(json) != number(1) {
        return Err(damaged("its footer does not have the checksum it states"));
    }
    let footer: Footer =
        serde_json::from_slice(json).map_err(|_foreign| damaged("its footer cannot be read"))?;
    let len = content.len() as u64;
    let sparse = footer
        .narrow
        .iter()
        .map(|set| set.check(64, len))
        .chain(footer.wide.iter().map(|(_, set)| set.check(128, len)));
    if footer.schema.columns().is_empty()
        || footer.dense.check(content).is_err()
        || sparse.into_iter().any(|checked| checked.is_err())
    {
        return Err(damaged("its parts do not fit into it"));
    }
    if content.len() <= CHECKED_LEN {
        check_content(path, content, &footer)?;
    }
    Ok(footer)
}

fn check_content(path: &str, content: &[u8], footer: &Footer) -> Result<()> {
    if xxh3_64(content) == footer.checksum {
        return Ok(());
    }
    Err(Error::DamagedIndex {
        path: path.to_owned(),
        reason: "its content does not have the checksum it states",
    })
}

/// Reads the whole file.
pub(super) fn verify(path: &str, file: &[u8], footer: &Footer) -> Result<()> {
    let tail = file.len().checked_sub(TAIL_LEN).and_then(|start| file.get(start..));
    let footer_len = tail
        .and_then(|tail| tail.first_chunk())
        .map(|len| u64::from_le_bytes(*len))
        .unwrap_or_default();
    let content = usize::try_from(footer_len)
        .ok()
        .and_then(|len| file.len().checked_sub(TAIL_LEN + len))
        .and_then(|end| file.get(..end));
    check_content(path, content.unwrap_or_default(), footer)
}
