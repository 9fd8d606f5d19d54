//! Files that no valid writer produces.

use super::LAYOUTS;
use super::builder::*;
use crate::error::{Error, Result};
use crate::size::image_size;
use crate::tiff::{PageExtraction, TiffWalk, extract_page, tags, tiff_index};

#[test]
fn chain_that_loops_ends_at_the_visited_directory() -> Result<()> {
    for layout in LAYOUTS {
        let mut builder = Builder::new(layout);
        let at = builder.data(&[3; 4]);
        let first = builder.page(&gray(4, 1, &[at], &[4]));
        builder.page(&gray(5, 1, &[at], &[4]));
        builder.link_to(first);
        assert_eq!(tiff_index(&builder.bytes)?.len(), 2);
        assert_eq!(strips(&extract_page(&builder.bytes, 1)?), [[3; 4]]);
        let error = extract_page(&builder.bytes, 2).unwrap_err();
        assert_eq!(error, Error::PageBeyondEnd { page: 2, pages: 2 });
    }
    Ok(())
}

#[test]
fn page_that_links_to_itself_is_copied_without_the_loop() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let only = builder.page(&gray(4, 1, &[8], &[4]));
    builder.link_to(only);
    let copy = extract_page(&builder.bytes, 0)?;
    assert_ne!(copy, builder.bytes);
    assert_eq!(extract_page(&copy, 0)?, copy);
    Ok(())
}

#[test]
fn offset_beyond_the_end_leaves_earlier_pages_usable() -> Result<()> {
    for layout in LAYOUTS {
        for offset in [u64::from(u32::MAX), 100_000] {
            let mut builder = Builder::new(layout);
            let at = builder.data(&[3; 4]);
            builder.page(&gray(4, 1, &[at], &[4]));
            builder.link_to(offset);
            let index = tiff_index(&builder.bytes)?;
            assert_eq!(index.len(), 1);
            assert_eq!(strips(&extract_page(&builder.bytes, 0)?), [[3; 4]]);
            for page in [1, 7] {
                assert_eq!(
                    extract_page(&builder.bytes, page).unwrap_err(),
                    Error::DirectoryOutOfFile {
                        page,
                        broken_page: 1,
                        offset,
                        needed: layout.count_len(),
                        payload_len: builder.bytes.len() as u64
                    }
                );
            }
        }
    }
    Ok(())
}

#[test]
fn truncated_directory_breaks_the_chain_there() -> Result<()> {
    for layout in LAYOUTS {
        let payload = gray_pages(layout, 2, 1);
        // Without the offset of a next directory the last page is complete, as in libtiff.
        let tail = layout.offset_len() as usize;
        assert_eq!(tiff_index(&payload[..payload.len() - tail])?.len(), 2);
        let cut = &payload[..payload.len() - tail - 1];
        let index = tiff_index(cut)?;
        assert_eq!(index.len(), 1);
        assert!(matches!(index.page(1), Err(Error::DirectoryOutOfFile { broken_page: 1, .. })));
    }
    Ok(())
}

#[test]
fn entry_count_beyond_the_payload_is_refused_before_allocation() -> Result<()> {
    for layout in LAYOUTS {
        let mut payload = gray_pages(layout, 1, 1);
        let (_, at) = crate::tiff::layout::Layout::parse(&payload).expect("header");
        let count_len = layout.count_len() as usize;
        payload[at as usize..][..count_len].fill(0xff);
        assert!(matches!(image_size(&payload), Err(Error::DirectoryOutOfFile { .. })));
        assert!(tiff_index(&payload)?.is_empty());
    }
    Ok(())
}

/// Overwrites the count of a tag in the first page.
fn set_count(payload: &mut [u8], tag: u16, count: u64) {
    let (layout, at) = crate::tiff::layout::Layout::parse(payload).expect("header");
    let entry_len = layout.entry_len() as usize;
    let mut entry = (at + layout.count_len()) as usize;
    while layout.endian.u16(&payload[entry..]) != Some(tag) {
        entry += entry_len;
    }
    let mut bytes = Vec::new();
    if layout.is_big {
        layout.endian.put_u64(&mut bytes, count);
    } else {
        layout.endian.put_u32(&mut bytes, count as u32);
    }
    payload[entry + 4..][..bytes.len()].copy_from_slice(&bytes);
}

#[test]
fn huge_value_counts_are_refused_before_allocation() {
    for layout in LAYOUTS {
        for count in [u64::from(u32::MAX), u64::MAX, u64::MAX / 4 + 2, 1 << 62] {
            let count = if layout.is_big { count } else { count | 0x4000_0000 };
            let mut payload = gray_pages(layout, 2, 3);
            set_count(&mut payload, tags::STRIP_OFFSETS, count);
            let error = extract_page(&payload, 0).unwrap_err();
            assert!(matches!(error, Error::ValueOutOfFile { page: 0, tag: 273, .. }), "{error}");
            // The other page is not affected.
            assert!(extract_page(&payload, 1).is_ok());
        }
    }
}

#[test]
fn private_tag_outside_the_payload_is_left_out() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let mut tags = gray(4, 1, &[8], &[4]);
    tags.push((65000, 7, vec![1; 20]));
    builder.page(&tags);
    builder.page(&gray(4, 1, &[8], &[4]));
    set_count(&mut builder.bytes, 65000, 1 << 30);
    assert_eq!(tag(&extract_page(&builder.bytes, 0)?, 65000), None);
    Ok(())
}

#[test]
fn entries_of_unknown_type_are_left_out() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[1]);
    let mut tags = gray(4, 1, &[8], &[4]);
    tags.push((65000, 99, vec![1]));
    tags.push((65001, 0, vec![1]));
    builder.page(&tags);
    builder.page(&tags);
    let copy = extract_page(&builder.bytes, 0)?;
    assert_eq!((tag(&copy, 65000), tag(&copy, 65001)), (None, None));
    assert_eq!(strips(&copy).len(), 1);
    Ok(())
}

#[test]
fn needed_tag_of_unknown_or_directory_type_is_refused() {
    for kind in [0, 99, tags::IFD, tags::IFD8] {
        for needed in [1, 2, 3] {
            let mut builder = Builder::new(LAYOUTS[2]);
            let mut tags = gray(4, 1, &[16], &[4]);
            tags[needed].1 = kind;
            let tag = tags[needed].0;
            builder.page(&tags);
            builder.page(&gray(4, 1, &[16], &[4]));
            let expected = Error::UnusableTag { page: 0, tag, kind, count: 1 };
            assert_eq!(extract_page(&builder.bytes, 0).unwrap_err(), expected);
            assert!(extract_page(&builder.bytes, 1).is_ok());
        }
    }
}

#[test]
fn width_of_unknown_type_has_no_size() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let mut tags = gray(4, 1, &[8], &[4]);
    tags[0].1 = 77;
    builder.page(&tags);
    assert_eq!(
        image_size(&builder.bytes),
        Err(Error::UnusableTag { page: 0, tag: tags::WIDTH, kind: 77, count: 1 })
    );
    Ok(())
}

#[test]
fn zero_height_is_refused() {
    let mut builder = Builder::new(LAYOUTS[0]);
    builder.page(&gray(4, 0, &[8], &[4]));
    let error = image_size(&builder.bytes).unwrap_err();
    assert_eq!(error, Error::ZeroSize { width: 4, height: 0 });
}

#[test]
fn segments_outside_the_payload_are_refused() {
    for (offset, len) in [(u64::from(u32::MAX), 4), (8, u64::from(u32::MAX))] {
        let mut builder = Builder::new(LAYOUTS[0]);
        builder.page(&gray(4, 2, &[8, offset], &[4, len]));
        builder.page(&gray(4, 1, &[8], &[4]));
        assert!(matches!(
            extract_page(&builder.bytes, 0),
            Err(Error::SegmentOutOfFile { page: 0, .. })
        ));
    }
}

#[test]
fn offsets_and_lengths_that_overflow_are_refused() {
    let mut builder = Builder::new(LAYOUTS[3]);
    let mut tags = gray(4, 2, &[u64::MAX - 1, 16], &[4, 4]);
    tags[4].1 = tags::LONG8;
    builder.page(&tags);
    builder.page(&tags);
    assert!(matches!(extract_page(&builder.bytes, 0), Err(Error::SegmentOutOfFile { .. })));
}

#[test]
fn overlapping_segments_cannot_multiply_the_payload() {
    let mut builder = Builder::new(LAYOUTS[0]);
    let at = builder.data(&[0; 4000]);
    let offsets: Vec<u64> = (0..200).map(|k| at + k).collect();
    builder.page(&gray(10, 200, &offsets, &[3000; 200]));
    builder.page(&gray(10, 1, &[8], &[4]));
    assert!(matches!(
        extract_page(&builder.bytes, 0),
        Err(Error::OverlappingSegments { segment_bytes: 600_000, .. })
    ));
}

#[test]
fn overlapping_values_cannot_multiply_the_payload() {
    let mut builder = Builder::new(LAYOUTS[0]);
    let mut tags = gray(4, 1, &[8], &[4]);
    tags.extend((0..60).map(|k| (50_000 + k, 7, vec![0; 5])));
    builder.page(&tags);
    builder.page(&gray(4, 1, &[8], &[4]));
    for k in 0..60 {
        set_count(&mut builder.bytes, 50_000 + k, 500);
    }
    assert!(matches!(
        extract_page(&builder.bytes, 0),
        Err(Error::OverlappingValues { page: 0, .. })
    ));
}

#[test]
fn overlapping_directories_cannot_multiply_the_payload() -> Result<()> {
    // A directory every 14 bytes, each of which claims most of the file; the next offset is the
    // same position read with a shift.
    let mut payload = b"II*\0\x08\0\0\0".to_vec();
    for k in 0..4000_u16 {
        payload.extend_from_slice(&300_u16.to_le_bytes());
        payload.extend_from_slice(&u32::from(8 + 14 * k).to_le_bytes());
        payload.extend_from_slice(&[0; 8]);
    }
    let index = tiff_index(&payload)?;
    assert!(index.len() <= payload.len() / 3600 + 1);
    Ok(())
}

#[test]
fn page_without_strips_and_tiles_is_refused() {
    let mut builder = Builder::new(LAYOUTS[0]);
    let tags = &gray(4, 1, &[8], &[4])[..4];
    builder.page(tags);
    builder.page(tags);
    let error = extract_page(&builder.bytes, 0).unwrap_err();
    assert_eq!(error, Error::NoSegments { page: 0 });
}

#[test]
fn unequal_numbers_of_offsets_and_counts_are_refused() {
    let mut builder = Builder::new(LAYOUTS[0]);
    let tags = gray(4, 3, &[8, 8, 8], &[4, 4]);
    builder.page(&tags);
    builder.page(&tags);
    assert_eq!(
        extract_page(&builder.bytes, 1).unwrap_err(),
        Error::SegmentCountMismatch { page: 1, offsets: 3, counts: 2 }
    );
}

#[test]
fn payload_that_is_not_a_tiff_is_refused() {
    for payload in [
        &b""[..],
        b"II",
        b"II*\0",
        b"IM*\0\x08\0\0\0",
        b"II+\0\x04\0\0\0\0\0\0\0\0\0\0\0",
        b"\x89PNG\r\n\x1a\n",
    ] {
        assert_eq!(
            tiff_index(payload).err(),
            Some(Error::NotTiff { payload_len: payload.len() as u64 })
        );
    }
}

#[test]
fn chain_without_directories_has_no_page() -> Result<()> {
    let payload = b"II*\0\0\0\0\0";
    assert_eq!(tiff_index(payload)?.len(), 0);
    let error = Error::PageBeyondEnd { page: 0, pages: 0 };
    assert_eq!(extract_page(payload, 0).unwrap_err(), error);
    assert_eq!(image_size(payload), Err(error));
    Ok(())
}

#[test]
fn short_answers_and_early_finish_are_errors() -> Result<()> {
    let payload = gray_pages(LAYOUTS[0], 2, 3);
    let mut walk = TiffWalk::new(payload.len() as u64);
    assert!(matches!(walk.push(b"II"), Err(Error::ShortBytes { found: 2, .. })));
    assert_eq!(walk.needs(), None);
    assert!(matches!(walk.finish(), Err(Error::ShortBytes { .. })));
    let walk = TiffWalk::new(payload.len() as u64);
    assert!(matches!(walk.finish(), Err(Error::Unfinished { .. })));
    let extraction = PageExtraction::new(&tiff_index(&payload)?, 0)?;
    assert!(extraction.needs().is_some());
    assert!(matches!(extraction.finish(), Err(Error::Unfinished { .. })));
    Ok(())
}
