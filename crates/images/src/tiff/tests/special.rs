//! Tags that refer to more than pixels: EXIF, SubIFDs, old-style JPEG, missing byte counts.

use super::LAYOUTS;
use super::builder::*;
use crate::error::{Error, Result};
use crate::tiff::{extract_page, tags};

#[test]
fn exif_gps_and_interop_directories_move_with_the_page() -> Result<()> {
    for layout in LAYOUTS {
        let mut builder = Builder::new(layout);
        let at = builder.data(&[1; 10]);
        let interop = builder.directory(&[(1, 2, vec![82, 57, 56, 0])]);
        let exif = builder
            .directory(&[(37510, 7, vec![66; 21]), (tags::INTEROP_IFD, tags::LONG, vec![interop])]);
        let gps = builder.directory(&[(2, 5, vec![48, 8, 14])]);
        let mut tags = gray(10, 1, &[at], &[10]);
        tags.push((tags::EXIF_IFD, tags::LONG, vec![exif]));
        tags.push((tags::GPS_IFD, tags::IFD, vec![gps]));
        builder.page(&tags);
        builder.page(&tags);
        let copy = extract_page(&builder.bytes, 1)?;
        let exif = tag(&copy, tags::EXIF_IFD).expect("EXIF").1[0];
        assert_eq!(read(&copy, exif, 37510), Some((7, vec![66; 21])));
        let interop = read(&copy, exif, tags::INTEROP_IFD).expect("interop").1[0];
        assert_eq!(read(&copy, interop, 1), Some((2, vec![82, 57, 56, 0])));
        let gps = tag(&copy, tags::GPS_IFD).expect("GPS").1[0];
        assert_eq!(read(&copy, gps, 2), Some((5, vec![48, 8, 14])));
        assert_eq!(strips(&copy), [[1; 10]]);
    }
    Ok(())
}

#[test]
fn exif_that_cannot_be_read_is_left_out() -> Result<()> {
    for offset in [0, 1 << 30] {
        let mut builder = Builder::new(LAYOUTS[0]);
        let mut tags = gray(4, 1, &[8], &[4]);
        tags.push((tags::EXIF_IFD, tags::LONG, vec![offset]));
        builder.page(&tags);
        builder.page(&tags);
        let copy = extract_page(&builder.bytes, 0)?;
        assert_eq!(tag(&copy, tags::EXIF_IFD), None);
    }
    Ok(())
}

#[test]
fn exif_that_points_at_itself_ends() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let at = builder.bytes.len() as u64;
    let exif = builder.directory(&[(tags::EXIF_IFD, tags::LONG, vec![at])]);
    let mut tags = gray(4, 1, &[8], &[4]);
    tags.push((tags::EXIF_IFD, tags::LONG, vec![exif]));
    builder.page(&tags);
    builder.page(&tags);
    assert!(tag(&extract_page(&builder.bytes, 0)?, tags::EXIF_IFD).is_some());
    Ok(())
}

#[test]
fn tags_of_the_multi_page_file_are_left_out() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let mut tags = gray(4, 1, &[8], &[4]);
    tags.extend([
        (tags::NEW_SUBFILE_TYPE, tags::LONG, vec![2]),
        (tags::PAGE_NUMBER, tags::SHORT, vec![0, 2]),
        (tags::SUB_IFDS, tags::LONG, vec![8, 8, 8]),
        (65010, tags::IFD, vec![8]),
        (tags::JPEG_INTERCHANGE, tags::LONG, vec![8]),
    ]);
    builder.page(&tags);
    builder.page(&tags);
    let copy = extract_page(&builder.bytes, 0)?;
    for dropped in [254, 297, 330, 65010, 513] {
        assert_eq!(tag(&copy, dropped), None, "{dropped}");
    }
    Ok(())
}

#[test]
fn unsorted_and_repeated_tags_come_out_sorted_with_the_first_value() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[3]);
    let mut tags = gray(4, 1, &[16], &[4]);
    tags.insert(0, (65000, tags::SHORT, vec![1]));
    tags.push((65000, tags::SHORT, vec![2]));
    tags.push((270, 2, vec![65, 0]));
    builder.page(&tags);
    builder.page(&tags);
    let copy = extract_page(&builder.bytes, 0)?;
    let (layout, at) = crate::tiff::layout::Layout::parse(&copy).expect("header");
    let (index, _) = index(&copy)?;
    let numbers: Vec<_> = crate::tiff::page::raw_entries(layout, &index.page(0)?.entries)
        .map(|bytes| layout.endian.u16(bytes).expect("tag"))
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert_eq!(read(&copy, at, 65000), Some((tags::SHORT, vec![1])));
    Ok(())
}

#[test]
fn byte_count_of_one_uncompressed_strip_is_inferred() -> Result<()> {
    for zero in [false, true] {
        for layout in LAYOUTS {
            let mut builder = Builder::new(layout);
            let at = builder.data(&[5; 24]);
            let mut tags = gray(3, 2, &[at], &[0]);
            // Three samples of 10 bits: 90 bits, so 12 bytes per row.
            tags[2] = (tags::BITS_PER_SAMPLE, tags::SHORT, vec![10, 10, 10]);
            tags[5].2 = vec![3];
            if !zero {
                tags.pop();
            }
            builder.page(&tags);
            builder.page(&tags);
            let copy = extract_page(&builder.bytes, 1)?;
            assert_eq!(strips(&copy), [[5; 24]]);
        }
    }
    Ok(())
}

#[test]
fn absent_byte_count_of_a_compressed_strip_is_refused() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let mut tags = gray(3, 2, &[8], &[0]);
    tags[3].2 = vec![5];
    tags.pop();
    builder.page(&tags);
    builder.page(&tags);
    let error = extract_page(&builder.bytes, 1).unwrap_err();
    assert_eq!(error, Error::UnknownSegmentLength { page: 1 });
    Ok(())
}

#[test]
fn old_jpeg_strip_inside_its_stream_stays_inside() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[0]);
    let stream: Vec<u8> = (0..200).collect();
    let at = builder.data(&stream);
    let q = builder.data(&[1; 64]);
    let mut counts = [0; 16];
    counts[3] = 5;
    let dc = builder.data(&counts);
    builder.data(&[6; 5]);
    let mut tags = gray(8, 8, &[at + 150], &[50]);
    tags[3].2 = vec![tags::OLD_JPEG];
    tags.extend([
        (tags::JPEG_INTERCHANGE, tags::LONG, vec![at]),
        (tags::JPEG_INTERCHANGE_LENGTH, tags::LONG, vec![200]),
        (tags::JPEG_Q_TABLES, tags::LONG, vec![q, q, 0]),
        (tags::JPEG_DC_TABLES, tags::LONG, vec![dc]),
    ]);
    builder.page(&tags);
    builder.page(&tags);
    let copy = extract_page(&builder.bytes, 1)?;
    let value = |number| tag(&copy, number).expect("tag").1;
    let stream_at = value(tags::JPEG_INTERCHANGE)[0] as usize;
    assert_eq!(copy[stream_at..][..200], stream);
    assert_eq!(value(tags::STRIP_OFFSETS), [stream_at as u64 + 150]);
    let q = value(tags::JPEG_Q_TABLES);
    assert_eq!((q[0], q[2]), (q[1], 0));
    assert_eq!(copy[q[0] as usize..][..64], [1; 64]);
    let dc = value(tags::JPEG_DC_TABLES)[0] as usize;
    assert_eq!(copy[dc..][..16], counts);
    assert_eq!(copy[dc + 16..][..5], [6; 5]);
    Ok(())
}

#[test]
fn old_jpeg_stream_without_length_is_refused() -> Result<()> {
    let mut builder = Builder::new(LAYOUTS[1]);
    let mut tags = gray(8, 8, &[8], &[5]);
    tags[3].2 = vec![tags::OLD_JPEG];
    tags.push((tags::JPEG_INTERCHANGE, tags::LONG, vec![8]));
    builder.page(&tags);
    builder.page(&tags);
    let error = extract_page(&builder.bytes, 0).unwrap_err();
    assert_eq!(error, Error::OldJpegNotRelocatable { page: 0, tag: tags::JPEG_INTERCHANGE_LENGTH });
    Ok(())
}
