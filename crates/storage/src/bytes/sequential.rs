//! An object as a stream, for decoders that read from start to end.

use crate::RangeRead;
use std::io::{self, Read};

/// Reads an object from its start. Wrap it in a buffer: each read is a read of the object.
#[derive(Debug)]
pub struct SequentialRead<'a> {
    object: &'a dyn RangeRead,
    offset: u64,
}

impl<'a> SequentialRead<'a> {
    #[must_use]
    pub fn new(object: &'a dyn RangeRead) -> Self {
        Self { object, offset: 0 }
    }
}

impl Read for SequentialRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.object.size().saturating_sub(self.offset);
        let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let Some(target) = buffer.get_mut(..len) else { return Ok(0) };
        self.object.read_at(self.offset, target).map_err(io::Error::other)?;
        self.offset = self.offset.saturating_add(len as u64);
        Ok(len)
    }
}
