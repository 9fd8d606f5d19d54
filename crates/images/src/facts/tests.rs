//! Orientations in records made by hand.
#![expect(clippy::cast_possible_truncation, reason = "the records are small and built here")]

use super::*;
use proptest::prelude::*;

/// A directory with one tag, as EXIF holds it.
fn exif(kind: u16, count: u32, field: [u8; 4]) -> Vec<u8> {
    let mut bytes = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12".to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(count.to_be_bytes());
    bytes.extend(field);
    bytes.extend([0; 4]);
    bytes
}

fn short(value: u8) -> Vec<u8> {
    exif(3, 1, [0, value, 0, 0])
}

fn xmp(value: u8) -> Vec<u8> {
    format!("<x tiff:Orientation=\"{value}\"/>").into_bytes()
}

fn jpeg(segments: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8];
    for segment in segments {
        bytes.extend([0xff, 0xe1]);
        bytes.extend((segment.len() as u16 + 2).to_be_bytes());
        bytes.extend(segment);
    }
    bytes.extend([0xff, 0xc0, 0, 11, 8, 0, 40, 0, 60, 1, 1, 0x11, 0]);
    bytes
}

fn app1(prefix: &[u8], record: &[u8]) -> Vec<u8> {
    [prefix, record].concat()
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_be_bytes()[..], name, data, &[0; 4]].concat()
}

fn png(chunks: &[Vec<u8>]) -> Vec<u8> {
    let header = chunk(b"IHDR", &[0, 0, 0, 60, 0, 0, 0, 40, 8, 2, 0, 0, 0]);
    [&b"\x89PNG\r\n\x1a\n"[..], &header, &chunks.concat(), &chunk(b"IEND", &[])].concat()
}

fn webp(flags: u8, chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut body = b"WEBPVP8X\x0a\0\0\0".to_vec();
    body.extend([flags, 0, 0, 0, 59, 0, 0, 39, 0, 0]);
    for (name, data) in chunks {
        body.extend(*name);
        body.extend((data.len() as u32).to_le_bytes());
        body.extend(data);
        body.resize(body.len().next_multiple_of(2), 0);
    }
    [b"RIFF", &(body.len() as u32).to_le_bytes()[..], &body].concat()
}

fn orientation(payload: &[u8]) -> u8 {
    let facts = image_facts(payload).unwrap();
    let (width, height) = if facts.orientation > 4 { (40, 60) } else { (60, 40) };
    assert_eq!((facts.oriented.width, facts.oriented.height), (width, height));
    assert_eq!((facts.stored.width, facts.stored.height), (60, 40));
    facts.orientation
}

const EXIF: &[u8] = b"Exif\0\0";
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

#[test]
fn jpeg_states_each_orientation() {
    for value in 0..=9 {
        let expected = if (2..=8).contains(&value) { value } else { 1 };
        assert_eq!(orientation(&jpeg(&[app1(EXIF, &short(value))])), expected);
        assert_eq!(orientation(&jpeg(&[app1(XMP, &xmp(value))])), expected);
    }
}

#[test]
fn exif_wins_over_xmp_also_with_a_useless_value() {
    assert_eq!(orientation(&jpeg(&[app1(XMP, &xmp(3)), app1(EXIF, &short(6))])), 6);
    assert_eq!(orientation(&jpeg(&[app1(XMP, &xmp(3)), app1(EXIF, &exif(1, 1, [6, 0, 0, 0]))])), 1);
    assert_eq!(orientation(&jpeg(&[app1(XMP, &xmp(3)), app1(EXIF, b"MM\0\x2a\0\0\0\x08\0\0\0\0\0\0")])), 3);
}

#[test]
fn short_and_long_count_and_byte_does_not() {
    for (kind, field, expected) in [(3, [0, 6, 0, 0], 6), (4, [0, 0, 0, 6], 6), (1, [6, 0, 0, 0], 1), (2, *b"6\0\0\0", 1), (3, [1, 6, 0, 0], 1)] {
        assert_eq!(orientation(&jpeg(&[app1(EXIF, &exif(kind, 1, field))])), expected, "{kind}");
    }
}

#[test]
fn exif_in_two_segments_is_one_record() {
    let record = short(8);
    let (first, second) = record.split_at(11);
    assert_eq!(orientation(&jpeg(&[app1(EXIF, first), app1(EXIF, second)])), 8);
    assert_eq!(orientation(&jpeg(&[app1(b"Exif\0\0Exif\0\0", &record)])), 8);
}

#[test]
fn value_outside_of_the_record_ends_it() {
    let mut record = b"MM\0\x2a\0\0\0\x08\0\x02\x01\x0f\0\x02\0\0\0\x08\0\0\x10\0\x01\x12\0\x03\0\0\0\x01\0\x06\0\0".to_vec();
    assert_eq!(orientation(&jpeg(&[app1(EXIF, &record)])), 1);
    record[21] = 0;
    record[20] = 0;
    assert_eq!(orientation(&jpeg(&[app1(EXIF, &record)])), 6);
}

#[test]
fn png_states_it_before_and_after_the_pixels() {
    let pixels = chunk(b"IDAT", &[1, 2, 3]);
    let text = chunk(b"iTXt", &app1(b"XML:com.adobe.xmp\0\0\0\0\0", &xmp(3)));
    assert_eq!(orientation(&png(&[chunk(b"eXIf", &short(6)), pixels.clone()])), 6);
    assert_eq!(orientation(&png(&[pixels.clone(), chunk(b"eXIf", &short(7))])), 7);
    assert_eq!(orientation(&png(&[text.clone(), pixels.clone()])), 3);
    assert_eq!(orientation(&png(&[text, pixels, chunk(b"eXIf", &short(6))])), 6);
}

#[test]
fn png_states_it_in_texts() {
    let pixels = chunk(b"IDAT", &[1, 2, 3]);
    let plain = |keyword: &[u8], text: &[u8]| chunk(b"tEXt", &[keyword, b"\0", text].concat());
    let digits: String = [EXIF, &short(6)].concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let profile = format!("\nexif\n{:8}\n{}\n{}\n", digits.len() / 2, &digits[..20], &digits[20..]);
    let compressed = |text: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, text).unwrap();
        encoder.finish().unwrap()
    };
    let packed = chunk(b"zTXt", &[b"Raw profile type exif\0\0", &compressed(profile.as_bytes())[..]].concat());
    let xmp_text = chunk(b"iTXt", &[b"XML:com.adobe.xmp\0\x01\0\0\0", &compressed(&xmp(3))[..]].concat());
    assert_eq!(orientation(&png(&[plain(b"Raw profile type exif", profile.as_bytes()), pixels.clone()])), 6);
    assert_eq!(orientation(&png(&[packed.clone(), pixels.clone()])), 6);
    assert_eq!(orientation(&png(&[packed, pixels.clone(), chunk(b"eXIf", &short(7))])), 7);
    assert_eq!(orientation(&png(&[plain(b"XML:com.adobe.xmp", &xmp(3)), pixels.clone()])), 3);
    assert_eq!(orientation(&png(&[xmp_text, pixels.clone()])), 3);
    let bomb = compressed(&vec![b'0'; 2 << 20]);
    assert_eq!(orientation(&png(&[chunk(b"zTXt", &[b"Raw profile type exif\0\0", &bomb[..]].concat()), pixels])), 1);
    let long = compressed(&vec![b'0'; 1 << 20]);
    let mut chunks = vec![chunk(b"zTXt", &[b"XML:com.adobe.xmp\0\0", &long[..]].concat()); 64];
    chunks.push(plain(b"XML:com.adobe.xmp", &xmp(3)));
    assert_eq!(orientation(&png(&chunks)), 1);
    assert_eq!(orientation(&png(&chunks[1..])), 3);
}

#[test]
fn webp_states_it_only_with_its_flag() {
    let chunks = [(b"VP8L", vec![0; 5]), (b"EXIF", short(5)), (b"XMP ", xmp(3))];
    assert_eq!(orientation(&webp(0x0c, &chunks)), 5);
    assert_eq!(orientation(&webp(0x04, &chunks)), 3);
    assert_eq!(orientation(&webp(0, &chunks)), 1);
}

#[test]
fn tiff_states_it_by_page() {
    let page = |orientation: u8, next: u8| {
        [
            &[0, 3][..],
            &[1, 0, 0, 3, 0, 0, 0, 1, 0, 60, 0, 0],
            &[1, 1, 0, 3, 0, 0, 0, 1, 0, 40, 0, 0],
            &[1, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0],
            &[0, 0, 0, next],
        ]
        .concat()
    };
    let payload = [&b"MM\0\x2a\0\0\0\x08"[..], &page(6, 50), &page(3, 0)].concat();
    assert_eq!(orientation(&payload), 6);
    assert_eq!(page_facts(&payload, 1).map(|facts| facts.orientation), Ok(3));
    assert_eq!(page_facts(&payload, 2), Err(Error::PageBeyondEnd { page: 2, pages: 2 }));
}

#[test]
fn tiff_whose_chain_bites_its_tail_ends() {
    let payload = b"MM\0\x2a\0\0\0\x08\0\0\0\0\0\x08".to_vec();
    assert!(page_facts(&payload, usize::MAX).is_err());
}

#[test]
fn gif_screen_grows_to_its_first_frame() {
    let payload = [&b"GIF89a\x1e\0\x14\0\x80\0\0"[..], &[0; 6], b"!\xf9\x04\0\0\0\0\0", b",\0\0\0\0\x3c\0\x28\0\0"].concat();
    assert_eq!(image_facts(&payload).map(|facts| (facts.stored.width, facts.stored.height)), Ok((60, 40)));
}

#[test]
fn empty_gif_screen_grows_to_its_first_frame() {
    let payload = |sides: [u8; 2]| [&b"GIF89a\0\0\0\0\0\0\0,\0\0\0\0"[..], &[sides[0], 0, sides[1], 0], &[0]].concat();
    assert_eq!(image_facts(&payload([9, 7])).map(|facts| (facts.stored.width, facts.stored.height)), Ok((9, 7)));
    assert_eq!(image_facts(&payload([9, 0])), Err(Error::ZeroSize { width: 9, height: 0 }));
}

proptest! {
    #[test]
    fn damaged_records_do_not_panic(mut payload in prop_oneof![
        Just(jpeg(&[app1(EXIF, &short(6)), app1(XMP, &xmp(3))])),
        Just(png(&[chunk(b"eXIf", &short(6))])),
        Just(webp(0x0c, &[(b"EXIF", short(6))])),
    ], flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>()) {
        for (at, value) in flips {
            let at = at.index(payload.len());
            payload[at] = value;
        }
        payload.truncate(cut.index(payload.len() + 1));
        let _ = image_facts(&payload);
    }
}
