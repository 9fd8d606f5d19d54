//! What the ArrayRecord targets share: files with right hashes around numbers that may lie, and
//! what has to hold of any file.

pub mod allocation;
pub mod check;
pub mod container;
#[path = "../memory/mod.rs"]
pub mod memory;
pub mod script;

/// Bytes of an input, taken one part after the other; past the end there are zeros and empty parts,
/// so that every input means something.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    pub fn number(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    /// As many as the next two bytes say, or all that are left.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        let (part, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        part
    }
}
