//! The stored file of a shard: its bytes, decompressed if necessary, and their hashes.

use super::head::{FIRST_BYTES, Head};
use crate::limit::DecodeLimit;
use crate::mds::hashing::Hasher;
use crate::mds::{Compression, Error, FileEntry, HashAlgorithm};
use shardmill_storage::{RangeRead, SequentialRead};
use std::fmt::Display;
use std::io;
use std::sync::Arc;

const HASHED_AT_ONCE: u64 = 1 << 20;

/// The subject of a head above the limit.
const OFFSETS: &str = "the offsets of its samples take";

#[derive(Debug)]
pub(super) struct Stored {
    pub(super) object: Arc<dyn RangeRead>,
    pub(super) compression: Option<Compression>,
    pub(super) limit: DecodeLimit,
}

impl Stored {
    pub(super) fn path(&self) -> &str {
        self.object.path()
    }

    fn damaged(&self, (field, reason): (&'static str, String)) -> Error {
        Error::Shard { path: self.path().to_owned(), field, reason }
    }

    fn undecompressed(&self, reason: &dyn Display) -> Error {
        let compression = self.compression.as_ref().map_or("", Compression::name).to_owned();
        Error::Decompress { path: self.path().to_owned(), compression, reason: reason.to_string() }
    }

    pub(super) fn read_head(&self) -> Result<Head, Error> {
        match &self.compression {
            None => {
                let size = self.object.size();
                let mut start = self.read(0, size.min(FIRST_BYTES))?;
                let len = Head::len(&start).map_err(|fault| self.damaged(fault))?;
                if len > start.len() as u64 && len <= size {
                    self.limit.check(self.path(), len, OFFSETS, || "head".to_owned())?;
                    start = self.read(0, len)?;
                }
                Head::parse(&start, Some(size)).map_err(|fault| self.damaged(fault))
            }
            Some(compression) => {
                let (mut fault, mut too_large) = (None, None);
                let mut wanted = |start: &[u8]| -> io::Result<u64> {
                    let len = Head::len(start)
                        .map_err(|found| io::Error::other(fault.insert(found).1.clone()))?;
                    let checked =
                        self.limit.check(self.path(), len, OFFSETS, || "decompressed".to_owned());
                    checked
                        .map_err(|found| io::Error::other(too_large.insert(found).to_string()))?;
                    Ok(len)
                };
                let mut from = io::BufReader::with_capacity(
                    64 << 10,
                    SequentialRead::new(self.object.as_ref()),
                );
                let start = compression.decompress(&mut from, self.limit, &mut wanted);
                if let Some(found) = too_large {
                    return Err(found.into());
                }
                if let Some(fault) = fault {
                    return Err(self.damaged(fault));
                }
                let start = start.map_err(|error| self.undecompressed(&error))?;
                Head::parse(&start, None).map_err(|fault| self.damaged(fault))
            }
        }
    }

    pub(super) fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
        let range = offset..offset.saturating_add(len);
        Ok(self
            .object
            .read_ranges(std::slice::from_ref(&range))?
            .pop()
            .map(Vec::from)
            .unwrap_or_default())
    }

    /// Reads and decompresses the whole shard. `raw` and `zip` contain the hashes to verify.
    pub(super) fn read_whole(
        &self,
        head: &Head,
        raw: Option<&FileEntry>,
        zip: Option<&FileEntry>,
    ) -> Result<Vec<u8>, Error> {
        let size = head.size();
        if self.compression.is_some() {
            self.limit.check(
                self.path(),
                size.max(self.object.size()),
                "its samples take",
                || "decompressed".to_owned(),
            )?;
        }
        let bytes = self.read(0, self.object.size())?;
        let Some(compression) = &self.compression else {
            self.check_hashes(raw, |hasher| hasher.update(&bytes))?;
            return Ok(bytes);
        };
        self.check_hashes(zip, |hasher| hasher.update(&bytes))?;
        let bytes = compression
            .decompress(&mut bytes.as_slice(), self.limit, &mut |_start| Ok(size))
            .map_err(|error| self.undecompressed(&error))?;
        if bytes.len() as u64 != size {
            let reason = format!("it does not yield the `{size}` bytes that its offsets state");
            return Err(self.undecompressed(&reason));
        }
        let now = Head::parse(&bytes, Some(size)).map_err(|fault| self.damaged(fault))?;
        if now.digest != head.digest {
            return Err(
                self.damaged(("offsets", "they changed after the file was opened".to_owned()))
            );
        }
        self.check_hashes(raw, |hasher| hasher.update(&bytes))?;
        Ok(bytes)
    }

    fn check_hashes(
        &self,
        entry: Option<&FileEntry>,
        feed: impl Fn(&mut Hasher),
    ) -> Result<(), Error> {
        entry.map(known_hashers).unwrap_or_default().into_iter().try_for_each(
            |(name, expected, mut hasher)| {
                feed(&mut hasher);
                check_hash(self.path(), name, expected, hasher)
            },
        )
    }
}

/// Compares the hashes of an entry with the bytes of the stored file, without keeping them. Unknown
/// algorithms are skipped.
///
/// # Errors
/// [`Error::Hash`] for a hash that differs, [`Error::Storage`] for bytes that cannot be read.
pub fn check_file_hashes(object: &dyn RangeRead, entry: &FileEntry) -> Result<(), Error> {
    let mut hashers = known_hashers(entry);
    let (size, mut offset) = (object.size(), 0);
    while offset < size && !hashers.is_empty() {
        let range = offset..(offset + HASHED_AT_ONCE).min(size);
        let bytes = object.read_ranges(std::slice::from_ref(&range))?.pop().unwrap_or_default();
        hashers.iter_mut().for_each(|(.., hasher)| hasher.update(&bytes));
        offset = range.end;
    }
    hashers
        .into_iter()
        .try_for_each(|(name, expected, hasher)| check_hash(object.path(), name, expected, hasher))
}

fn check_hash(path: &str, algorithm: &str, expected: &str, hasher: Hasher) -> Result<(), Error> {
    let found = hasher.hex();
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(Error::Hash {
        path: path.to_owned(),
        algorithm: algorithm.to_owned(),
        expected: expected.to_owned(),
        found,
    })
}

/// Name, expected digest and hasher of each supported hash.
fn known_hashers(entry: &FileEntry) -> Vec<(&str, &str, Hasher)> {
    let known = entry.hashes.iter().filter_map(|(name, expected)| {
        Some((name.as_str(), expected.as_str(), Hasher::new(HashAlgorithm::parse(name)?)))
    });
    known.collect()
}
