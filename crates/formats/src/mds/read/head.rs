//! The start of a shard: the number of samples, their offsets, and the config.

use crate::mds::config::{FieldFault, ShardConfig};

/// The part before the samples.
#[derive(Debug)]
pub(super) struct Head {
    /// One more than samples; ascending, none past the end of the file.
    pub(super) offsets: Vec<u32>,
    pub(super) config: ShardConfig,
    /// Digest of the head.
    pub(super) digest: u128,
}

/// Covers the head of most shards.
pub(super) const FIRST_BYTES: u64 = 64 << 10;

/// No data set has this many columns.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

impl Head {
    /// Length of the head, as far as its first bytes tell.
    pub(super) fn len(start: &[u8]) -> Result<u64, FieldFault> {
        let (Some(samples), Some(first)) = (word(start, 0), word(start, 4)) else { return Ok(8) };
        let table = 8 + 4 * u64::from(samples);
        if u64::from(first) < table {
            return Err((
                "offset 0",
                format!("`{first}` lies within the offsets of `{samples}` samples"),
            ));
        }
        // A compressed file of a few bytes may decompress to any size;
        // the caller limits the offsets.
        if u64::from(first) - table > MAX_CONFIG_BYTES {
            return Err((
                "offset 0",
                format!("`{first}` is too far from the start for `{samples}` samples"),
            ));
        }
        Ok(u64::from(first))
    }

    /// `start` contains at least the head. `size` is the size of the whole shard, if known;
    /// otherwise the last offset states it.
    pub(super) fn parse(start: &[u8], size: Option<u64>) -> Result<Self, FieldFault> {
        let len = Self::len(start)?;
        let samples =
            word(start, 0).ok_or_else(|| ("samples", "the file ends before it".to_owned()))?;
        let size = size.unwrap_or(u64::MAX);
        let head = usize::try_from(len).ok().and_then(|len| start.get(..len));
        let head = head
            .filter(|_| len <= size)
            .ok_or_else(|| ("offset 0", format!("`{len}` is past the end of the file")))?;
        // The head contains this many words, so the allocation is bounded by bytes already read.
        let table_end =
            usize::try_from(samples).unwrap_or(usize::MAX).saturating_mul(4).saturating_add(8);
        let table = head.get(4..table_end).unwrap_or_default();
        let offsets: Vec<u32> = table.chunks_exact(4).filter_map(|chunk| word(chunk, 0)).collect();
        if let Some(number) = offsets.windows(2).position(|pair| !pair.is_sorted()) {
            return Err(("offsets", format!("sample `{number}` ends before it begins")));
        }
        let end = offsets.last().map_or(0, |end| u64::from(*end));
        if size != u64::MAX && end != size {
            return Err(("offsets", format!("the last is `{end}`, the file ends at `{size}`")));
        }
        let config = ShardConfig::parse(head.get(table_end..).unwrap_or_default())?;
        Ok(Self { offsets, config, digest: xxhash_rust::xxh3::xxh3_128(head) })
    }

    pub(super) fn samples(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Size of the uncompressed shard.
    pub(super) fn size(&self) -> u64 {
        self.offsets.last().map_or(0, |end| u64::from(*end))
    }
}

/// The number at `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::Head;

    #[test]
    fn head_has_a_length_for_any_number_of_samples() {
        for samples in [0_u32, 1, 33_554_431, 40_000_000, 1 << 29] {
            let first = 8 + 4 * samples + 500;
            let start = [samples.to_le_bytes(), first.to_le_bytes()].concat();
            assert_eq!(Head::len(&start).unwrap(), u64::from(first), "{samples}");
        }
        let far = [0_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        assert!(Head::len(&far).is_err());
    }
}
