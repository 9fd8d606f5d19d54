//! The hash of chunk headers, chunk data and block headers: HighwayHash with the key of Riegeli.

use highway::{HighwayHash, HighwayHasher, Key};

/// "Riegeli/" and "records\n", twice.
const KEY: Key = Key([
    0x2f69_6c65_6765_6952,
    0x0a73_6472_6f63_6572,
    0x2f69_6c65_6765_6952,
    0x0a73_6472_6f63_6572,
]);

pub(super) fn hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(KEY).hash64(bytes)
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn hashes_are_those_of_the_original() {
        assert_eq!(hash(b""), 0x72c3_b1e9_c013_9fe1);
        assert_eq!(hash(&[0; 16]), 0x6700_dec2_4d16_c530);
        assert_eq!(hash(b"shardmill"), 0xbee3_9956_503f_6183);
        let counted: Vec<u8> = (0..100).collect();
        assert_eq!(hash(&counted), 0xe809_4874_65a4_4f74);
    }
}
