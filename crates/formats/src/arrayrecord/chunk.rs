//! The header of a chunk: its kind, its length, and the hash of its data.

use super::hash::hash;
use super::{Fault, block};

pub(super) const SIGNATURE: u8 = b's';
pub(super) const PADDING: u8 = b'p';
pub(super) const SIMPLE: u8 = b'r';
pub(super) const TRANSPOSED: u8 = b't';

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub data_size: u64,
    pub data_hash: u64,
    pub kind: u8,
    pub num_records: u64,
    /// Sum of the lengths of the records.
    pub decoded_size: u64,
}

impl ChunkHeader {
    pub(super) fn of(kind: u8, num_records: u64, decoded_size: u64, data: &[u8]) -> Self {
        Self {
            data_size: data.len() as u64,
            data_hash: hash(data),
            kind,
            num_records,
            decoded_size,
        }
    }

    pub(super) fn parse(bytes: &[u8; 40], check: bool) -> Result<Self, Fault> {
        let ([stated, data_size, data_hash, kind, decoded_size], []) = bytes.as_chunks::<8>()
        else {
            return Err(Fault::Malformed("chunk header"));
        };
        if check && u64::from_le_bytes(*stated) != hash(bytes.get(8..).unwrap_or_default()) {
            return Err(Fault::Hash("chunk header"));
        }
        let kind_and_records = u64::from_le_bytes(*kind);
        Ok(Self {
            data_size: u64::from_le_bytes(*data_size),
            data_hash: u64::from_le_bytes(*data_hash),
            kind: kind[0],
            num_records: kind_and_records >> 8,
            decoded_size: u64::from_le_bytes(*decoded_size),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; 40] {
        let fields = [
            self.data_size,
            self.data_hash,
            u64::from(self.kind) | self.num_records << 8,
            self.decoded_size,
        ];
        let mut bytes = [0; 40];
        let (stated, content) = bytes.split_at_mut(8);
        for (place, field) in content.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        stated.copy_from_slice(&hash(content).to_le_bytes());
        bytes
    }

    /// Where a chunk that begins at `begin` ends.
    pub(super) fn end(&self, begin: u64) -> Result<u64, Fault> {
        block::chunk_end(begin, self.data_size, self.num_records)
            .ok_or(Fault::Malformed("chunk that is longer than any file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_of_the_signature_is_that_of_every_file() {
        let bytes = ChunkHeader::of(SIGNATURE, 0, 0, &[]).to_bytes();
        assert_eq!(bytes[..8], 0xa9e1_8792_3cc2_ba91_u64.to_le_bytes());
        assert_eq!(
            ChunkHeader::parse(&bytes, true).unwrap(),
            ChunkHeader::of(SIGNATURE, 0, 0, &[])
        );
    }
}
