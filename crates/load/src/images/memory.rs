//! Memory that the consumer of batches provides for pixels, such as page-locked memory.
//!
//! The invariant: pixels are written into this memory once, and delivered in it without a copy.

use crate::{Error, Result};
use arrow_buffer::Buffer;
use bytes::Bytes;
use std::fmt::Debug;

/// Where memory of this kind comes from. Threads that render images call it.
pub trait HostMemory: Debug + Send + Sync {
    /// `bytes` bytes, aligned for every number. They may have any values.
    ///
    /// # Errors
    /// Why the memory cannot be provided.
    fn lend(&self, bytes: usize) -> std::result::Result<Box<dyn LentMemory>, String>;
}

/// A piece of it. Dropping it gives it back.
pub trait LentMemory: AsRef<[u8]> + AsMut<[u8]> + Debug + Send {}

/// Values of one type in lent memory, of which `len` bytes are in use.
#[derive(Debug)]
pub(super) struct LentValues {
    memory: Box<dyn LentMemory>,
    len: usize,
}

impl LentValues {
    /// # Errors
    /// [`Error::HostMemory`].
    pub(super) fn new(memory: &dyn HostMemory, bytes: usize) -> Result<Self> {
        let lent = memory
            .lend(bytes)
            .map_err(|reason| Error::HostMemory { bytes, reason: reason.into() })?;
        Ok(Self { memory: lent, len: 0 })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        (*self.memory).as_ref().get(..self.len).unwrap_or_default()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Adds this many zeros, and returns them; none if the memory is full.
    pub(super) fn grow(&mut self, count: usize) -> &mut [u8] {
        let added = self.added(count);
        added.fill(0);
        added
    }

    pub(super) fn append(&mut self, more: &[u8]) {
        let added = self.added(more.len());
        added.iter_mut().zip(more).for_each(|(byte, value)| *byte = *value);
    }

    fn added(&mut self, count: usize) -> &mut [u8] {
        let before = self.len;
        let added = (*self.memory)
            .as_mut()
            .get_mut(before..before.saturating_add(count))
            .unwrap_or_default();
        self.len += added.len();
        added
    }

    /// The values, and with them the memory. Without values, the memory is given back: an empty
    /// slice of `Bytes` does not hold its owner.
    pub(super) fn into_buffer(self) -> Buffer {
        let len = self.len;
        if len == 0 {
            return Buffer::from(Vec::<u8>::new());
        }
        Buffer::from(Bytes::from_owner(Owner(self.memory)).slice(..len))
    }
}

struct Owner(Box<dyn LentMemory>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}
