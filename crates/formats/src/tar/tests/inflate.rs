//! Gzip archives: concatenated, truncated and damaged streams.

use std::io::{self, Write};

use flate2::Compression as Level;
use flate2::write::GzEncoder;

use super::super::{Compression, TarError, inflate, sniff_compression};
use super::{archive_of, walk};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Level::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Bytes that do not compress well, so that there are many deflate blocks to damage.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0] & 0x3f
    };
    (0..len).map(|_| next()).collect()
}

fn inflated(compressed: &[u8]) -> (Vec<u8>, Result<u64, TarError>) {
    let mut out = Vec::new();
    let result = inflate(Compression::Gzip, compressed, &mut out);
    (out, result)
}

#[test]
fn concatenated_streams_are_joined_and_zeros_after_them_ignored() {
    let (first, second) = (noise(200_000), noise(70_000));
    let mut compressed = [gzip(&first), gzip(b""), gzip(&second)].concat();
    for zeros in [0, 1, 511, 100_000] {
        let len = compressed.len();
        compressed.resize(len + zeros, 0);
        let (out, result) = inflated(&compressed);
        assert_eq!(result.unwrap(), 270_000);
        assert_eq!(out, [&first[..], &second].concat());
        compressed.truncate(len);
    }
}

#[test]
fn cut_stream_keeps_what_was_inflated() {
    let bytes = noise(150_000);
    let compressed = gzip(&bytes);
    for len in (0..compressed.len()).step_by(997).chain([0, 1, 9, compressed.len() - 1]) {
        let (out, result) = inflated(&compressed[..len]);
        let Err(TarError::TruncatedStream { inflated, .. }) = result else {
            panic!("cut at {len}: {result:?}");
        };
        assert_eq!(inflated, out.len() as u64);
        assert!(bytes.starts_with(&out));
        // Deflate holds back at most one incomplete symbol.
        assert!(out.len() * 10 >= len.saturating_sub(2000) * 10, "cut at {len}: {}", out.len());
    }
}

#[test]
fn damaged_stream_keeps_what_was_inflated() {
    let bytes = noise(60_000);
    let len = 60_000_u16;
    // A gzip header, one stored block, and a block of an invalid type.
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let lens = [len.to_le_bytes(), (!len).to_le_bytes()].concat();
    let compressed = [&header[..], &[0], &lens, &bytes, &[7], b"rest"].concat();
    let (out, result) = inflated(&compressed);
    assert!(matches!(result, Err(TarError::BadStream { inflated: 60_000, .. })));
    assert_eq!(out, bytes);
}

#[test]
fn one_changed_byte_is_reported_and_never_panics() {
    let bytes = noise(3000);
    let mut compressed = gzip(&bytes);
    let last_of_data = compressed.len() - 9;
    // Flags, time and system of the header are not checked; the data starts at 10.
    for at in 10..compressed.len() {
        compressed[at] ^= 0x10;
        let (out, result) = inflated(&compressed);
        match result {
            Err(
                TarError::BadStream { inflated, .. } | TarError::TruncatedStream { inflated, .. },
            ) => {
                assert_eq!(inflated, out.len() as u64);
            }
            // The padding bits in the last byte of the data are ignored.
            Ok(_) => assert_eq!((at, &out), (last_of_data, &bytes)),
            other => panic!("changed at {at}: {other:?}"),
        }
        compressed[at] ^= 0x10;
    }
}

#[test]
fn wrong_checksum_is_damage() {
    let mut compressed = gzip(b"body");
    let crc_at = compressed.len() - 8;
    compressed[crc_at] ^= 1;
    let (out, result) = inflated(&compressed);
    assert!(matches!(result, Err(TarError::BadStream { inflated: 4, .. })));
    assert_eq!(out, b"body");
}

#[test]
fn garbage_after_a_stream_is_damage() {
    let (out, result) = inflated(&[gzip(b"body"), b"garbage".to_vec()].concat());
    assert!(matches!(result, Err(TarError::BadStream { inflated: 4, .. })));
    assert_eq!(out, b"body");
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[test]
fn zstd_frames_are_joined_and_skippable_ones_skipped() {
    let (first, second) = (noise(300_000), noise(7));
    let skippable = b"\x50\x2a\x4d\x18\x04\0\0\0skip".to_vec();
    let mut out = Vec::new();
    let frames = [skippable, zstd(&first), zstd(b""), zstd(&second), vec![0; 600]].concat();
    assert_eq!(inflate(Compression::Zstd, frames.as_slice(), &mut out).unwrap(), 300_007);
    assert_eq!(out, [&first[..], &second].concat());
}

#[test]
fn cut_or_changed_zstd_stream_is_an_error_that_counts_its_bytes() {
    let bytes = noise(400_000);
    let compressed = zstd(&bytes);
    for len in (0..compressed.len()).step_by(9973).chain([3, compressed.len() - 1]) {
        let mut out = Vec::new();
        let Err(TarError::TruncatedStream { inflated, .. }) =
            inflate(Compression::Zstd, &compressed[..len], &mut out)
        else {
            panic!("cut at {len}");
        };
        assert_eq!(inflated, out.len() as u64);
        assert!(bytes.starts_with(&out));
    }
    let garbage = [compressed, b"garbage".to_vec()].concat();
    let error = inflate(Compression::Zstd, garbage.as_slice(), io::sink()).unwrap_err();
    assert!(
        matches!(
            error,
            TarError::BadStream { compression: Compression::Zstd, inflated: 400_000, .. }
        ),
        "{error:?}"
    );
    let refused = inflate(Compression::Xz, &b"\xfd7zXZ\0"[..], io::sink());
    assert!(matches!(refused, Err(TarError::Compression { compression: Compression::Xz })));
}

#[test]
fn samples_before_a_cut_are_readable() {
    let bytes = noise(100_000);
    let members: Vec<_> =
        bytes.chunks(5000).enumerate().map(|(i, body)| (format!("{i}.bin"), body)).collect();
    let archive = archive_of(&members);
    let compressed = gzip(&archive);
    let (out, result) = inflated(&compressed[..compressed.len() / 2]);
    assert!(matches!(result, Err(TarError::TruncatedStream { .. })));
    let walked = walk(&out);
    assert!(!walked.members.is_empty());
    let whole = walk(&archive).sound();
    assert_eq!(walked.members, whole[..walked.members.len()]);
}

#[test]
fn failing_reader_and_writer_keep_their_cause() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert!(matches!(
        inflate(Compression::Gzip, Broken, io::sink()),
        Err(TarError::ReadStream { inflated: 0, source, .. })
            if source.kind() == io::ErrorKind::TimedOut
    ));
    assert!(matches!(
        inflate(Compression::Gzip, gzip(b"body").as_slice(), Broken),
        Err(TarError::WriteInflated { inflated: 0, source })
            if source.kind() == io::ErrorKind::StorageFull
    ));
}

#[test]
fn compression_is_detected_by_content() {
    for (prefix, compression) in [
        (&gzip(b"")[..], Compression::Gzip),
        (b"\x28\xb5\x2f\xfd\0", Compression::Zstd),
        (b"\x50\x2a\x4d\x18\x04\0\0\0", Compression::Zstd),
        (b"BZh91AY&SY", Compression::Bzip2),
        (b"BZh9\x17\x72\x45\x38\x50\x90", Compression::Bzip2),
        (b"\xfd7zXZ\0", Compression::Xz),
        (b"BZh9.jpg\0\0", Compression::None),
        (b"a.jpg", Compression::None),
        (b"", Compression::None),
    ] {
        assert_eq!(sniff_compression(prefix), compression, "{prefix:?}");
    }
}
