//! Arbitrary bytes and damaged TIFFs: no panic, no request outside of the payload, no copy larger
//! than its source and head.

use proptest::prelude::*;

use super::LAYOUTS;
use super::builder::*;
use crate::size::{SizeProbe, image_size};
use crate::tiff::{PageCopy, extract_page, tags, tiff_index};

/// A file with all features that the extraction supports.
fn rich(layout: usize) -> Vec<u8> {
    let mut builder = Builder::new(LAYOUTS[layout]);
    let at = builder.data(&[5; 300]);
    let interop = builder.directory(&[(1, 2, vec![82, 57, 56, 0])]);
    let exif = builder
        .directory(&[(37510, 7, vec![66; 21]), (tags::INTEROP_IFD, tags::LONG, vec![interop])]);
    for compression in [1, 6, 7] {
        let mut tags = gray(10, 3, &[at, at + 100, at + 50], &[100, 20, 10]);
        tags[3].2 = vec![compression];
        tags.extend([
            (347, 7, vec![3; 40]),
            (tags::JPEG_INTERCHANGE, tags::LONG, vec![at]),
            (tags::JPEG_INTERCHANGE_LENGTH, tags::LONG, vec![120]),
            (tags::JPEG_Q_TABLES, tags::LONG, vec![at, at, at]),
            (tags::JPEG_AC_TABLES, tags::LONG, vec![at + 9]),
            (tags::EXIF_IFD, tags::LONG, vec![exif]),
        ]);
        builder.page(&tags);
    }
    builder.bytes
}

fn check(payload: &[u8]) {
    let len = payload.len() as u64;
    let mut probe = SizeProbe::new(len);
    while let Some(range) = probe.needs() {
        assert!(range.start < range.end && range.end <= len);
        probe.push(&payload[range.start as usize..range.end as usize]);
    }
    assert_eq!(probe.finish(), image_size(payload));
    let Ok((index, _)) = index(payload) else {
        return;
    };
    assert!(index.len() <= payload.len() / 6);
    for k in 0..index.len().min(5) {
        let Ok(plan) = plan(payload, k) else {
            assert!(extract_page(payload, k).is_err());
            continue;
        };
        let copy = extract_page(payload, k).expect("planned");
        assert_eq!(copy.len() as u64, plan.len(len));
        if let PageCopy::Pieces { head, .. } = plan {
            assert!(copy.len() <= head.len() + payload.len());
            let copied = tiff_index(&copy).expect("a TIFF");
            assert_eq!(copied.len(), 1);
            assert_eq!(
                copied.page(0).expect("a page").size().ok(),
                index.page(k).expect("a page").size().ok()
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_no_harm(payload in prop::collection::vec(any::<u8>(), 0..400)) {
        check(&payload);
    }

    #[test]
    fn arbitrary_bytes_after_a_magic_number_do_no_harm(
        magic in prop::sample::select(vec![
            &b"II*\0\x08\0\0\0"[..],
            b"MM\0*\0\0\0\x08",
            b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0",
            b"\xff\xd8\xff",
            b"GIF89a",
            b"BM",
            b"RIFF\0\0\0\0WEBPVP8 ",
            b"RIFF\0\0\0\0WEBPVP8L",
            b"RIFF\0\0\0\0WEBPVP8X",
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR",
            b"\0\0\0\x18ftypavif\0\0\0\0mif1avif",
            b"8BPS\0\x01",
            b"P6 ",
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        check(&[magic, &rest].concat());
    }

    #[test]
    fn damaged_tiffs_do_no_harm(
        layout in 0..4_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut payload = rich(layout);
        for (at, byte) in damage {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        if is_cut {
            payload.truncate(cut.index(payload.len()));
        }
        check(&payload);
    }
}

#[test]
fn undamaged_rich_files_are_copied_whole() {
    for layout in 0..LAYOUTS.len() {
        let payload = rich(layout);
        check(&payload);
        for k in 0..3 {
            assert!(extract_page(&payload, k).is_ok(), "{layout} {k}");
        }
    }
}
