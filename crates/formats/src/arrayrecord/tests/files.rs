//! Whole files: those of the specification byte for byte, and round trips with every codec.

use super::*;
use crate::limit::DecodeLimit;
use crate::table::TableFile;
use sha2::{Digest, Sha256};

fn uncompressed(group_size: u32) -> WriterOptions {
    WriterOptions { group_size, compression: Compression::None, ..WriterOptions::default() }
}

fn digits() -> Vec<Vec<u8>> {
    (b'0'..=b'9').map(|digit| vec![digit]).collect()
}

#[test]
fn uncompressed_files_are_those_of_the_original_to_the_byte() {
    let padded = WriterOptions { pad_to_block_boundary: true, ..uncompressed(1) };
    let cases: [(Vec<Vec<u8>>, WriterOptions, &str); 7] = [
        (
            vec![],
            uncompressed(1),
            "bb7d9c8ed25aa0ec5f40ee07e444096b2b58697cb675400fdadaedfab1ce2c40",
        ),
        (
            digits(),
            uncompressed(1),
            "77d6a4c6f142fefb8ac3a71181129513d02addad5915d3c59f5fdcc75cfa0be1",
        ),
        (
            digits(),
            uncompressed(3),
            "ecad8396a2d43a03b0646cf850ecc07d70998e5f6a3d1fb383004a9ae6f46004",
        ),
        (digits(), padded, "e672aede04d7c3c2a444b93d063628b32d4ecf40fe267033adcb048eb66903d8"),
        (
            vec![vec![]; 70_000],
            uncompressed(70_000),
            "7e9dfa15314545a9ddb135625f211c1bf74d101372dd75303c9abcae91c11449",
        ),
        (
            vec![vec![b'a'; 70_000], vec![], vec![b'b']],
            uncompressed(1),
            "cd885f89fc11a0f897e348ef2c117d3bf2355cbc2382f8cd601720a383f0a51b",
        ),
        (
            vec![vec![0; 65_408]],
            uncompressed(1),
            "80f4ab2fb5cb58ef01e4c4718a2a201f86b00d48a13a76787b28e6f14d9afe8a",
        ),
    ];
    for (records, options, expected) in cases {
        let bytes = write(&records, &options);
        assert_eq!(format!("{:x}", Sha256::digest(&bytes)), expected, "{options:?}");
        assert_eq!(read_all(&open(bytes).unwrap()).unwrap(), records);
    }
}

#[test]
fn records_of_any_length_come_back_in_every_codec_and_group() {
    let lengths = [0, 1, 65_535, 65_536, 65_537, 300_000, 0, 0, 7];
    let records: Vec<Vec<u8>> =
        lengths.iter().map(|length| (0..=250).cycle().take(*length).collect()).collect();
    let compressions = [
        Compression::None,
        Compression::Snappy,
        Compression::Zstd { level: 3, window_log: 20 },
        Compression::Zstd { level: -5, window_log: 31 },
        Compression::Brotli { level: 3, window_log: None },
        Compression::Brotli { level: 5, window_log: Some(30) },
    ];
    for compression in compressions {
        for group_size in [1, 2, 9, 100] {
            let file = open(write(
                &records,
                &WriterOptions { group_size, compression, ..WriterOptions::default() },
            ))
            .unwrap();
            assert_eq!(read_all(&file).unwrap(), records, "{compression:?} {group_size}");
        }
    }
}

#[test]
fn empty_records_of_a_compressed_chunk_have_positions_of_their_own() {
    let options = WriterOptions { group_size: 256, ..WriterOptions::default() };
    let file = open(write(&vec![vec![]; 512], &options)).unwrap();
    assert_eq!((file.range_of(0).unwrap(), file.range_of(1).unwrap().start), (64..320, 320));
    assert_eq!(file.locate(300), Some((1, 44)));
    assert_eq!(file.locate(512), None);
}

#[test]
fn flipped_bit_is_noticed_wherever_it_matters() {
    let records = digits();
    let bytes = write(&records, &WriterOptions { group_size: 3, ..WriterOptions::default() });
    for place in 64..700 {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        match open(damaged).and_then(|file| read_all(&file)) {
            Ok(read) => assert_eq!(read, records, "byte {place}"),
            Err(error) => assert!(
                matches!(
                    error,
                    Error::Chunk { .. } | Error::Footer { .. } | Error::Postscript { .. }
                ),
                "{error}"
            ),
        }
    }
}

#[test]
fn cut_file_is_refused() {
    let bytes = write(&digits(), &WriterOptions::default());
    for len in [0, 1, 65_535, 65_536, 131_071] {
        assert!(open(bytes[..len].to_vec()).is_err(), "{len}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(open(longer), Err(Error::NotWhole { .. })));
}

#[test]
fn records_that_compress_well_make_blocks_that_fit_into_memory() {
    let records = vec![vec![0; 1 << 20]; 150];
    let table =
        ArrayRecordTable::open(Arc::new(Memory(write(&records, &WriterOptions::default()))))
            .unwrap();
    assert_eq!(table.blocks().iter().map(|block| block.rows).collect::<Vec<_>>(), [64, 64, 22]);
}

#[test]
fn limit_counts_for_each_chunk_and_not_for_those_that_are_read_together() {
    let records: Vec<Vec<u8>> = (0..20).map(|record| vec![record; 900]).collect();
    let limited = |limit| {
        ArrayRecordFile::open_limited(
            Arc::new(Memory(write(&records, &uncompressed(1)))),
            Verify::Full,
            DecodeLimit::new(limit),
        )
    };
    let read = |limit| {
        let (mut found, all) = (Vec::new(), (0..20).collect::<Vec<usize>>());
        limited(limit).unwrap().read_chunks(&all, &mut Scratch::default(), |_chunk, chunk| {
            found.extend(chunk.iter().map(<[u8]>::to_vec));
        })?;
        Ok::<_, Error>(found)
    };
    assert_eq!(read(1000).unwrap(), records);
    assert!(matches!(read(800), Err(Error::Chunk { chunk: 0, .. })));
}
