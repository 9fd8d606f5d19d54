//! A small object that was read whole into memory.

use crate::bytes::fresh;
use crate::{Error, Identity, RangeRead, Result};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of one version of an object; reading them needs no request.
#[derive(Debug)]
pub struct InMemory {
    path: String,
    identity: Identity,
    bytes: Bytes,
    /// Read instead of the memory when the caller bypasses caches.
    origin: Option<Arc<dyn RangeRead>>,
}

/// A file up to this size is read with one request.
const SMALL_BYTES: u64 = 1 << 20;

/// Reads `object` into memory if it is small: one request instead of one for each of its parts.
///
/// # Errors
/// As [`RangeRead::read_at`].
pub fn whole_if_small(object: Arc<dyn RangeRead>) -> Result<Arc<dyn RangeRead>> {
    if object.size() > SMALL_BYTES {
        return Ok(object);
    }
    let origin = object.is_remote().then(|| Arc::clone(&object));
    Ok(Arc::new(InMemory { origin, ..InMemory::of(object.as_ref())? }))
}

impl InMemory {
    /// Reads all of `object`.
    ///
    /// # Errors
    /// As [`RangeRead::read_at`].
    pub fn of(object: &dyn RangeRead) -> Result<Self> {
        let identity = object.identity();
        let whole = 0..identity.size;
        let bytes = object.read_ranges(std::slice::from_ref(&whole))?.pop().unwrap_or_default();
        Ok(Self { path: object.path().to_owned(), identity, bytes, origin: None })
    }

    fn distrusted(&self) -> Option<&dyn RangeRead> {
        self.origin.as_deref().filter(|_| fresh::is_wanted())
    }

    fn range(&self, offset: u64, len: usize) -> Result<Range<usize>> {
        let start = usize::try_from(offset)
            .ok()
            .filter(|start| start.checked_add(len).is_some_and(|end| end <= self.bytes.len()));
        let short = || Error::ShortRead {
            path: self.path.clone(),
            offset,
            len,
            end: offset.saturating_add(len as u64),
        };
        start.map(|start| start..start + len).ok_or_else(short)
    }
}

impl RangeRead for InMemory {
    fn path(&self) -> &str {
        &self.path
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if let Some(origin) = self.distrusted() {
            return origin.read_at(offset, buffer);
        }
        let range = self.range(offset, buffer.len())?;
        buffer.copy_from_slice(self.bytes.get(range).unwrap_or_default());
        Ok(())
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(origin) = self.distrusted() {
            return origin.read_ranges(ranges);
        }
        let read = |range: &Range<u64>| {
            Ok(self.bytes.slice(self.range(range.start, crate::len_within(self, range)?)?))
        };
        ranges.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalFile;

    #[test]
    fn ranges_are_those_of_the_object_and_none_is_past_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a").display().to_string();
        std::fs::write(&path, b"0123456789").unwrap();
        let object = InMemory::of(&LocalFile::open(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(object.read_ranges(&[2..4, 10..10]).unwrap(), [&b"23"[..], b""]);
        assert!(matches!(object.read_at(8, &mut [0; 3]), Err(Error::ShortRead { end: 11, .. })));
        assert!(matches!(object.read_ranges(&[0..1, 9..11]), Err(Error::ShortRead { .. })));
        assert_eq!(object.size(), 10);
    }
}
