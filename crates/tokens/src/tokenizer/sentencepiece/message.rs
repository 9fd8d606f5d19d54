//! Protocol buffers, as far as a `.model` needs them: fields in order, borrowed from the bytes.

use crate::error::{Error, Result};

/// A value of a field. Groups are obsolete, and refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64,
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message.
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begins in the file.
    start: usize,
}

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, at: 0, start }
    }

    /// Where the next field begins in the file.
    pub(super) fn offset(&self) -> usize {
        self.start + self.at
    }

    /// The number and value of the next field.
    pub(super) fn next(&mut self, path: &str) -> Result<Option<(u64, Field<'a>)>> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let offset = self.offset();
        let damaged = |problem| Error::Damaged { path: path.to_owned(), offset, problem };
        let key = self.varint().ok_or_else(|| damaged("a field number is incomplete"))?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint().ok_or_else(|| damaged("a number is incomplete"))?),
            1 => self
                .take(8)
                .map(|_| Field::Fixed64)
                .ok_or_else(|| damaged("a number is incomplete"))?,
            2 => {
                let length = self.varint().ok_or_else(|| damaged("a length is incomplete"))?;
                let bytes = usize::try_from(length).ok().and_then(|length| self.take(length));
                Field::Bytes(bytes.ok_or_else(|| damaged("a field is longer than the file"))?)
            }
            5 => {
                let bytes = self
                    .take(4)
                    .and_then(|bytes| bytes.try_into().ok())
                    .ok_or_else(|| damaged("a number is incomplete"))?;
                Field::Fixed32(u32::from_le_bytes(bytes))
            }
            _ => return Err(damaged("a field has an unknown type")),
        };
        if key >> 3 == 0 {
            return Err(damaged("a field has number 0"));
        }
        Ok(Some((key >> 3, field)))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_truncation_is_an_error_or_an_earlier_end() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x03, b'a', b'b', b'c', 0x1d, 0, 0, 0x80, 0x3f];
        let fields = |bytes| {
            let mut message = Message::new(bytes, 0);
            let mut fields = Vec::new();
            while let Some(field) = message.next("m")? {
                fields.push(field);
            }
            Ok::<_, Error>(fields)
        };
        let all = fields(&bytes).unwrap();
        assert_eq!(
            all,
            [(1, Field::Varint(150)), (2, Field::Bytes(b"abc")), (3, Field::Fixed32(0x3f80_0000))]
        );
        for end in 0..bytes.len() {
            match fields(&bytes[..end]) {
                Ok(found) => assert_eq!(found, all[..found.len()]),
                Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{error}"),
            }
        }
        assert!(fields(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_err());
    }
}
