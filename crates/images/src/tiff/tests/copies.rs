//! Valid pages: layout, order, sharing, sizes.

use super::LAYOUTS;
use super::builder::*;
use crate::error::{Error, Result};
use crate::image_size::ImageSize;
use crate::size::image_size;
use crate::tiff::{PageCopy, extract_page, tags, tiff_index};

#[test]
fn pages_of_every_layout_keep_their_strips_and_layout() -> Result<()> {
    for layout in LAYOUTS {
        for strips_per_page in [1, 2, 3, 40] {
            let payload = gray_pages(layout, 3, strips_per_page);
            assert_eq!(tiff_index(&payload)?.len(), 3);
            for k in 0..3 {
                let copy = extract_page(&payload, k)?;
                assert_eq!(copy[..4], payload[..4]);
                assert_eq!(strips(&copy), vec![vec![k as u8; 10]; strips_per_page as usize]);
                assert_eq!(copy.len() as u64, plan(&payload, k)?.len(0));
                assert_eq!(extract_page(&copy, 0)?, copy);
                let (kind, _) = tag(&copy, tags::STRIP_OFFSETS).expect("offsets");
                assert_eq!(kind, tags::LONG);
            }
        }
    }
    Ok(())
}

#[test]
fn single_page_is_the_payload_itself() -> Result<()> {
    let payload = gray_pages(LAYOUTS[0], 1, 2);
    assert_eq!(plan(&payload, 0)?, PageCopy::Whole);
    assert_eq!(PageCopy::Whole.len(77), 77);
    assert_eq!(extract_page(&payload, 0)?, payload);
    Ok(())
}

#[test]
fn contiguous_strips_become_one_segment() -> Result<()> {
    let payload = gray_pages(LAYOUTS[1], 2, 20);
    assert_eq!(segments(&payload, 1)?.len(), 1);
    Ok(())
}

#[test]
fn strips_out_of_file_order_keep_the_order_of_their_tag() -> Result<()> {
    for layout in LAYOUTS {
        let mut builder = Builder::new(layout);
        let second = builder.data(b"second");
        builder.data(b"gap");
        let first = builder.data(b"first!");
        builder.page(&gray(6, 2, &[first, second], &[6, 6]));
        builder.page(&gray(6, 1, &[first], &[6]));
        let copy = extract_page(&builder.bytes, 0)?;
        assert_eq!(strips(&copy), [b"first!", b"second"]);
        assert_eq!(segments(&builder.bytes, 0)?, [second..second + 6, first..first + 6]);
    }
    Ok(())
}

#[test]
fn equal_strips_are_copied_once_and_stay_shared() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let at = builder.data(&[7; 100]);
    builder.page(&gray(100, 50, &[at; 50], &[100; 50]));
    builder.page(&gray(100, 1, &[at], &[100]));
    let pieces = segments(&builder.bytes, 0)?;
    assert_eq!((pieces.len(), &pieces[0]), (1, &(at..at + 100)));
    let copy = extract_page(&builder.bytes, 0)?;
    assert_eq!(strips(&copy), vec![vec![7; 100]; 50]);
    // Shared with another page as well.
    assert_eq!(strips(&extract_page(&builder.bytes, 1)?), [[7; 100]]);
    Ok(())
}

#[test]
fn tiles_and_unknown_tags_are_copied() -> Result<()> {
    for layout in LAYOUTS {
        let mut builder = Builder::new(layout);
        let (a, b) = (builder.data(&[1; 7]), builder.data(&[2; 5]));
        let tags = vec![
            (tags::WIDTH, tags::LONG, vec![32]),
            (tags::HEIGHT, tags::LONG, vec![16]),
            (322, tags::SHORT, vec![16]),
            (323, tags::SHORT, vec![16]),
            (tags::TILE_OFFSETS, tags::LONG, vec![a, b]),
            (tags::TILE_BYTE_COUNTS, tags::SHORT, vec![7, 5]),
            (347, 7, vec![9; 33]),
            (65000, 2, b"a private text\0".iter().map(|b| u64::from(*b)).collect()),
            (65001, 1, vec![5]),
        ];
        builder.page(&tags);
        builder.page(&gray(5, 1, &[b], &[5]));
        let copy = extract_page(&builder.bytes, 0)?;
        let tiles = pixels(&copy, tags::TILE_OFFSETS, tags::TILE_BYTE_COUNTS);
        assert_eq!(tiles, [vec![1; 7], vec![2; 5]]);
        for (number, kind, values) in tags {
            if number != tags::TILE_OFFSETS {
                assert_eq!(tag(&copy, number), Some((kind, values)), "{number}");
            }
        }
    }
    Ok(())
}

#[test]
fn short_offsets_widen_only_when_they_must() -> Result<()> {
    for (filler, kind) in [(10, tags::SHORT), (70_000, tags::LONG)] {
        let mut builder = Builder::new(LAYOUTS[1]);
        let (a, b) = (builder.data(&[1; 9]), builder.data(&[2; 9]));
        let mut tags = gray(9, 2, &[a, b], &[9, 9]);
        tags[4].1 = tags::SHORT;
        tags.push((65000, 7, vec![3; filler]));
        builder.page(&tags);
        builder.page(&gray(9, 1, &[a], &[9]));
        let copy = extract_page(&builder.bytes, 0)?;
        assert_eq!(tag(&copy, tags::STRIP_OFFSETS).expect("offsets").0, kind);
        assert_eq!(strips(&copy), [[1; 9], [2; 9]]);
    }
    Ok(())
}

#[test]
fn empty_tiles_stay_empty() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let at = builder.data(&[4; 8]);
    let tags = [
        (tags::WIDTH, tags::SHORT, vec![16]),
        (tags::HEIGHT, tags::SHORT, vec![48]),
        (tags::TILE_OFFSETS, tags::LONG, vec![0, at, u64::from(u32::MAX)]),
        (tags::TILE_BYTE_COUNTS, tags::LONG, vec![0, 8, 0]),
    ];
    builder.page(&tags);
    builder.page(&tags);
    let copy = extract_page(&builder.bytes, 1)?;
    let (_, offsets) = tag(&copy, tags::TILE_OFFSETS).expect("offsets");
    assert_eq!(offsets[0], 0);
    assert_eq!(copy[offsets[1] as usize..], [4; 8]);
    assert!(offsets[2] <= copy.len() as u64);
    Ok(())
}

#[test]
fn each_page_has_its_own_size_and_orientation() -> Result<()> {
    for layout in LAYOUTS {
        let mut builder = Builder::new(layout);
        for orientation in 1..=8 {
            let mut tags = gray(20, 30 + orientation, &[8], &[1]);
            tags.insert(5, (tags::ORIENTATION, tags::SHORT, vec![orientation]));
            builder.page(&tags);
        }
        let (index, _) = index(&builder.bytes)?;
        for k in 0..8_u32 {
            let (width, height) = (20, 31 + k);
            let expected = match k {
                0..4 => ImageSize { width, height },
                _ => ImageSize { width: height, height: width },
            };
            assert_eq!(index.page(k as usize)?.size()?, expected);
            let copy = extract_page(&builder.bytes, k as usize)?;
            assert_eq!(image_size(&copy)?, expected);
        }
        assert_eq!(index.page(8).err(), Some(Error::PageBeyondEnd { page: 8, pages: 8 }));
    }
    Ok(())
}

#[test]
fn header_of_180_megapixels_has_a_size() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[2]);
    let mut tags = gray(0, 0, &[16], &[1]);
    tags[0] = (tags::WIDTH, tags::LONG, vec![4_000_000_000]);
    tags[1] = (tags::HEIGHT, tags::LONG8, vec![4_000_000_001]);
    builder.page(&tags);
    let size = image_size(&builder.bytes)?;
    assert_eq!((size.width, size.height), (4_000_000_000, 4_000_000_001));
    Ok(())
}

#[test]
fn distant_directories_cost_one_request_each() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    for _ in 0..9 {
        let at = builder.data(&[0; 5000]);
        builder.page(&gray(50, 100, &[at], &[5000]));
    }
    let (index, requests) = index(&builder.bytes)?;
    assert_eq!((index.len(), requests), (9, 10));
    Ok(())
}

#[test]
fn neighboring_directories_share_a_request() -> Result<()> {
    let (index, requests) = index(&gray_pages(LAYOUTS[0], 8, 1))?;
    assert_eq!((index.len(), requests), (8, 1));
    Ok(())
}

#[test]
fn directory_longer_than_a_request_is_asked_for_again() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    builder.data(&[0; 2000]);
    let mut tags = gray(50, 1, &[8], &[50]);
    tags.extend((0..200).map(|k| (40_000 + k, tags::LONG, vec![u64::from(k)])));
    builder.page(&tags);
    builder.page(&tags);
    let copy = extract_page(&builder.bytes, 1)?;
    assert_eq!(tag(&copy, 40_199), Some((tags::LONG, vec![199])));
    Ok(())
}
