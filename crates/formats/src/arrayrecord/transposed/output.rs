//! A buffer that is filled with records from the last byte to the first.

use super::super::Fault;

pub(super) struct Output {
    bytes: Vec<u8>,
    /// Unfilled bytes at the start.
    room: usize,
}

impl Output {
    pub(super) fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], room: len }
    }

    pub(super) fn filled(&self) -> usize {
        self.bytes.len() - self.room
    }

    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// The next bytes to fill.
    pub(super) fn extend(&mut self, len: usize) -> Result<&mut [u8], Fault> {
        let end = self.room;
        self.room =
            end.checked_sub(len).ok_or(Fault::Malformed("records are longer than their chunk"))?;
        Ok(self.bytes.get_mut(self.room..end).unwrap_or_default())
    }

    pub(super) fn put(&mut self, part: &[u8]) -> Result<(), Fault> {
        self.extend(part.len())?.copy_from_slice(part);
        Ok(())
    }

    pub(super) fn put_number(&mut self, mut value: u64) -> Result<(), Fault> {
        let len = (u64::BITS - (value | 1).leading_zeros()).div_ceil(7);
        let bytes = self.extend(len as usize)?;
        for byte in bytes.iter_mut() {
            *byte = (value & 0x7f) as u8 | 0x80;
            value >>= 7;
        }
        if let Some(last) = bytes.last_mut() {
            *last &= 0x7f;
        }
        Ok(())
    }

    /// Only a full buffer is returned.
    pub(super) fn finish(self) -> Result<Vec<u8>, Fault> {
        if self.room == 0 {
            return Ok(self.bytes);
        }
        Err(Fault::Mismatch {
            what: "length of the records",
            value: self.filled() as u64,
            expected: self.bytes.len() as u64,
        })
    }
}
