//! Tests of single compressed blocks.

use crate::arrayrecord::Compression;
use crate::arrayrecord::codec::{Zstd, decompress, stated_len};
use crate::arrayrecord::encoder::Compressor;

#[test]
fn bytes_after_a_compressed_block_are_refused() {
    let compressions = [
        Compression::Snappy,
        Compression::Zstd { level: 3, window_log: 20 },
        Compression::Brotli { level: 3, window_log: None },
        Compression::Brotli { level: 3, window_log: Some(30) },
    ];
    for compression in compressions {
        for payload in [b"".as_slice(), b"text text text text", &[7; 5000]] {
            let mut compressor = Compressor::new(compression).unwrap();
            let mut block = Vec::new();
            compressor.append(payload, &mut block).unwrap();
            let decode = |block: &[u8]| {
                let (len, input) = stated_len(compressor.codec(), block).unwrap();
                let mut output = vec![0; usize::try_from(len).unwrap()];
                decompress(compressor.codec(), input, &mut output, &mut Zstd::default())
                    .map(|()| output)
            };
            assert_eq!(decode(&block).unwrap(), payload);
            for behind in [&[0][..], &[3], &[0xff; 9]] {
                assert!(decode(&[&block, behind].concat()).is_err(), "{compression:?} {behind:?}");
            }
        }
    }
}
