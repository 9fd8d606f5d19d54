//! Individually compressed buckets and the buffers that they contain.

use super::super::codec::{Zstd, decompress};
use super::super::{Codec, Fault};
use super::{split_off, stated};
use std::borrow::Cow;

/// The concatenated decompressed buckets.
pub(super) struct Buckets<'a> {
    bytes: Cow<'a, [u8]>,
    lens: Vec<usize>,
}

impl<'a> Buckets<'a> {
    /// Reads the buckets at the start of `data`, which must decompress to at most `limit` bytes.
    /// Also returns the rest of `data`.
    pub(super) fn read(
        codec: Codec,
        data: &'a [u8],
        compressed_lens: &[u64],
        limit: u64,
        zstd: &mut Zstd,
    ) -> Result<(Self, &'a [u8]), Fault> {
        let mut rest = data;
        let mut blocks = Vec::with_capacity(compressed_lens.len());
        let mut lens = Vec::with_capacity(compressed_lens.len());
        let mut total = 0u64;
        for &compressed_len in compressed_lens {
            let (block, behind) = split_off("bucket", compressed_len, rest)?;
            let (len, input) = stated(codec, block)?;
            total = total.saturating_add(len);
            let too_large = Fault::TooLarge { what: "length of the buckets", value: total, limit };
            lens.push(usize::try_from(len).ok().filter(|_| total <= limit).ok_or(too_large)?);
            blocks.push(input);
            rest = behind;
        }
        if codec == Codec::None {
            let bytes = data.get(..data.len() - rest.len()).unwrap_or_default();
            return Ok((Self { bytes: Cow::Borrowed(bytes), lens }, rest));
        }
        let mut bytes = vec![0; lens.iter().sum()];
        let mut room = bytes.as_mut_slice();
        for (input, len) in blocks.into_iter().zip(&lens) {
            let (output, behind) =
                room.split_at_mut_checked(*len).ok_or(Fault::Malformed("buckets"))?;
            decompress(codec, input, output, zstd)?;
            room = behind;
        }
        Ok((Self { bytes: Cow::Owned(bytes), lens }, rest))
    }

    /// Splits the buckets into buffers. A buffer may not cross buckets, and every byte must belong
    /// to a buffer.
    pub(super) fn buffers(&self, lens: &[u64]) -> Result<Vec<&[u8]>, Fault> {
        let mut rest = self.bytes.as_ref();
        let mut ahead = self.lens.iter();
        let mut in_bucket = ahead.next().copied().unwrap_or(0);
        let mut buffers = Vec::with_capacity(lens.len());
        if !lens.is_empty() && self.lens.is_empty() {
            return Err(Fault::Malformed("buffers without a bucket"));
        }
        for &len in lens {
            let (buffer, _in_bucket) =
                split_off("buffer", len, rest.get(..in_bucket).unwrap_or_default())?;
            buffers.push(buffer);
            rest = rest.get(buffer.len()..).unwrap_or_default();
            in_bucket -= buffer.len();
            while in_bucket == 0
                && let Some(next) = ahead.next()
            {
                in_bucket = *next;
            }
        }
        if in_bucket > 0 || ahead.next().is_some() {
            return Err(Fault::Malformed("buckets have bytes that are in no buffer"));
        }
        Ok(buffers)
    }
}
