//! Chunks that store their records one after another.

use super::codec::{Zstd, decompress, decompress_up_to, stated_len};
use super::encoder::Compressor;
use super::{Codec, Fault, varint};
use std::borrow::Cow;

/// The data of a simple chunk, split into its parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimpleChunk<'a> {
    codec: Codec,
    sizes: &'a [u8],
    values: &'a [u8],
    decoded_size: usize,
    num_records: usize,
}

impl<'a> SimpleChunk<'a> {
    /// `decoded_size` and `num_records` come from the chunk's header. The caller has bounded both.
    pub(super) fn parse(
        data: &'a [u8],
        num_records: usize,
        decoded_size: usize,
    ) -> Result<Self, Fault> {
        let (&codec, rest) = data.split_first().ok_or(Fault::Malformed("no data"))?;
        let codec = Codec::of(codec)?;
        let (sizes_len, rest) = varint::read(rest)
            .ok_or(Fault::Malformed("length of the sizes is not a valid number"))?;
        let truncated = || Fault::Truncated {
            what: "block of sizes",
            needed: sizes_len,
            found: rest.len() as u64,
        };
        let (sizes, values) = usize::try_from(sizes_len)
            .ok()
            .and_then(|len| rest.split_at_checked(len))
            .ok_or_else(truncated)?;
        let (stated, values) = stated_len(codec, values)?;
        if stated != decoded_size as u64 {
            return Err(Fault::Mismatch {
                what: "length of the values",
                value: stated,
                expected: decoded_size as u64,
            });
        }
        Ok(Self { codec, sizes, values, decoded_size, num_records })
    }

    /// The end of each record in the values; replaces the content of `ends`.
    pub(super) fn ends(&self, zstd: &mut Zstd, ends: &mut Vec<usize>) -> Result<(), Fault> {
        ends.clear();
        let sizes = self.sizes(zstd)?;
        ends.reserve(self.num_records);
        self.each_end(&sizes, |end| {
            ends.push(end);
            Ok(())
        })
    }

    /// The lengths of the records as varints.
    pub(super) fn sizes(&self, zstd: &mut Zstd) -> Result<Cow<'a, [u8]>, Fault> {
        let (len, block) = stated_len(self.codec, self.sizes)?;
        if self.codec == Codec::None {
            // A size has at least one byte.
            return match len >= self.num_records as u64 {
                true => Ok(Cow::Borrowed(block)),
                false => Err(Fault::Mismatch {
                    what: "length of the sizes",
                    value: len,
                    expected: self.num_records as u64,
                }),
            };
        }
        if self.codec == Codec::Zstd
            && let Some(stored) = stored_frame(block, len)
        {
            return Ok(Cow::Borrowed(stored));
        }
        // A size has at most ten bytes.
        let most = self.num_records.saturating_mul(10);
        let mut sizes = vec![0; usize::try_from(len).map_or(most, |len| len.min(most))];
        if decompress(self.codec, block, &mut sizes, zstd).is_err() {
            // The original ignores the stated length.
            sizes = vec![0; most];
            let found = decompress_up_to(self.codec, block, &mut sizes, zstd)?;
            sizes.truncate(found);
        }
        Ok(Cow::Owned(sizes))
    }

    /// Calls `each` with the end of each record in the values.
    pub(super) fn each_end(
        &self,
        sizes: &[u8],
        mut each: impl FnMut(usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (mut end, mut rest) = (0usize, sizes);
        for _ in 0..self.num_records {
            let (size, behind) = varint::read(rest)
                .ok_or(Fault::Malformed("size of a record is not a valid number"))?;
            let next = usize::try_from(size)
                .ok()
                .and_then(|size| end.checked_add(size))
                .filter(|end| *end <= self.decoded_size);
            end = next.ok_or(Fault::Malformed("records are longer than their chunk"))?;
            each(end)?;
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(Fault::Malformed("more sizes than records"));
        }
        if end != self.decoded_size {
            return Err(Fault::Mismatch {
                what: "sum of the records' sizes",
                value: end as u64,
                expected: self.decoded_size as u64,
            });
        }
        Ok(())
    }

    pub(super) fn num_records(&self) -> usize {
        self.num_records
    }

    pub(super) fn decoded_size(&self) -> usize {
        self.decoded_size
    }

    /// The concatenated records, if they are not compressed.
    pub(super) fn plain_values(&self) -> Option<&'a [u8]> {
        (self.codec == Codec::None).then_some(self.values)
    }

    /// Writes the concatenated records to `out`, whose length is the chunk's decoded size.
    pub(super) fn values(&self, out: &mut [u8], zstd: &mut Zstd) -> Result<(), Fault> {
        decompress(self.codec, self.values, out, zstd)
    }
}

/// The content of a zstd frame that is one raw block of `len` bytes, as all writers encode the size
/// of a single record. Decoding it with the library would cost more than the record itself.
fn stored_frame(frame: &[u8], len: u64) -> Option<&[u8]> {
    let len = u8::try_from(len).ok()?;
    // Magic number, a descriptor without checksum whose frame size has one byte, that size, and the
    // header of the last block.
    let [low, middle, high, _] = (u32::from(len) << 3 | 1).to_le_bytes();
    frame
        .strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd, 0x20, len, low, middle, high])
        .filter(|content| content.len() == usize::from(len))
}

/// Appends the data of a simple chunk. `sizes` is scratch.
pub(super) fn encode(
    lengths: &[u64],
    values: &[u8],
    compressor: &mut Compressor,
    scratch: &mut (Vec<u8>, Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (sizes, block) = scratch;
    sizes.clear();
    block.clear();
    lengths.iter().for_each(|length| varint::write(*length, sizes));
    compressor.append(sizes, block)?;
    out.push(compressor.codec().byte());
    varint::write(block.len() as u64, out);
    out.extend_from_slice(block);
    compressor.append(values, out)
}
