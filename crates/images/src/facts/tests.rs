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
    assert_eq!(
        orientation(&jpeg(&[app1(XMP, &xmp(3)), app1(EXIF, b"MM\0\x2a\0\0\0\x08\0\0\0\0\0\0")])),
        3
    );
}

#[test]
fn short_and_long_count_and_byte_does_not() {
    for (kind, field, expected) in [
        (3, [0, 6, 0, 0], 6),
        (4, [0, 0, 0, 6], 6),
        (1, [6, 0, 0, 0], 1),
        (2, *b"6\0\0\0", 1),
        (3, [1, 6, 0, 0], 1),
    ] {
        assert_eq!(orientation(&jpeg(&[app1(EXIF, &exif(kind, 1, field))])), expected, "{kind}");
    }
}

#[test]
fn record_of_either_byte_order_is_read_with_its_version_in_either() {
    let little = b"II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
    for (mut record, expected) in [(little, 6), (short(8), 8)] {
        for _ in 0..2 {
            assert_eq!(orientation(&jpeg(&[app1(EXIF, &record)])), expected, "{record:?}");
            record.swap(2, 3);
        }
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
    let mut record = b"MM\0\x2a\0\0\0\x08\0\x02\
        \x01\x0f\0\x02\0\0\0\x08\0\0\x10\0\
        \x01\x12\0\x03\0\0\0\x01\0\x06\0\0"
        .to_vec();
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
    let digits: String =
        [EXIF, &short(6)].concat().iter().map(|byte| format!("{byte:02x}")).collect();
    let profile = format!("\nexif\n{:8}\n{}\n{}\n", digits.len() / 2, &digits[..20], &digits[20..]);
    let compressed = |text: &[u8]| {
        let mut encoder =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, text).unwrap();
        encoder.finish().unwrap()
    };
    let packed = chunk(
        b"zTXt",
        &[b"Raw profile type exif\0\0", &compressed(profile.as_bytes())[..]].concat(),
    );
    let xmp_text =
        chunk(b"iTXt", &[b"XML:com.adobe.xmp\0\x01\0\0\0", &compressed(&xmp(3))[..]].concat());
    assert_eq!(
        orientation(&png(&[plain(b"Raw profile type exif", profile.as_bytes()), pixels.clone()])),
        6
    );
    assert_eq!(orientation(&png(&[packed.clone(), pixels.clone()])), 6);
    assert_eq!(orientation(&png(&[packed, pixels.clone(), chunk(b"eXIf", &short(7))])), 7);
    assert_eq!(orientation(&png(&[plain(b"XML:com.adobe.xmp", &xmp(3)), pixels.clone()])), 3);
    assert_eq!(orientation(&png(&[xmp_text, pixels.clone()])), 3);
    let bomb = compressed(&vec![b'0'; 2 << 20]);
    assert_eq!(
        orientation(&png(&[
            chunk(b"zTXt", &[b"Raw profile type exif\0\0", &bomb[..]].concat()),
            pixels
        ])),
        1
    );
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
    let payload = [
        &b"GIF89a\x1e\0\x14\0\x80\0\0"[..],
        &[0; 6],
        b"!\xf9\x04\0\0\0\0\0",
        b",\0\0\0\0\x3c\0\x28\0\0",
    ]
    .concat();
    assert_eq!(
        image_facts(&payload).map(|facts| (facts.stored.width, facts.stored.height)),
        Ok((60, 40))
    );
}

#[test]
fn empty_gif_screen_grows_to_its_first_frame() {
    let payload = |sides: [u8; 2]| {
        [&b"GIF89a\0\0\0\0\0\0\0,\0\0\0\0"[..], &[sides[0], 0, sides[1], 0], &[0]].concat()
    };
    assert_eq!(
        image_facts(&payload([9, 7])).map(|facts| (facts.stored.width, facts.stored.height)),
        Ok((9, 7))
    );
    assert_eq!(image_facts(&payload([9, 0])), Err(Error::ZeroSize { width: 9, height: 0 }));
}

/// The facts read by ranges, and the number of bytes that were read.
fn probed(payload: &[u8]) -> (Result<Facts>, u64) {
    let mut probe = FactsProbe::new(payload.len() as u64);
    let mut read = 0;
    while let Some(range) = probe.needs() {
        assert!(range.start < range.end && range.end <= payload.len() as u64, "{range:?}");
        read += range.end - range.start;
        probe.push(
            &payload[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()],
        );
    }
    (probe.finish(), read)
}

/// Images with records before and after pixels that are much longer than a request.
fn long_images() -> Vec<Vec<u8>> {
    let pixels = || vec![chunk(b"IDAT", &[7; 30_000]); 3].concat();
    let text = chunk(b"iTXt", &app1(b"XML:com.adobe.xmp\0\0\0\0\0", &xmp(3)));
    let profile = app1(b"ICC_PROFILE\0", &[1; 60_000]);
    let mut scanned = jpeg(&[profile.clone(), profile, app1(EXIF, &short(6)), app1(XMP, &xmp(3))]);
    scanned.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0]);
    scanned.extend([9; 900_000]);
    let lossless = (b"VP8L", vec![0; 50_001]);
    let comment = [&b"!\xfe"[..], &[&[250][..], &[b' '; 250]].concat().repeat(40), &[0]].concat();
    vec![
        png(&[chunk(b"eXIf", &short(6)), pixels()]),
        png(&[text, pixels(), chunk(b"eXIf", &short(8)), pixels()]),
        png(&[pixels(), chunk(b"tEXt", &[b"XML:com.adobe.xmp\0", &xmp(5)[..]].concat())]),
        webp(0x0c, &[lossless.clone(), (b"EXIF", short(5)), (b"XMP ", xmp(3))]),
        webp(0x04, &[lossless.clone(), (b"EXIF", short(5)), (b"XMP ", xmp(7))]),
        webp(0, &[lossless, (b"EXIF", short(5))]),
        scanned,
        [&b"GIF89a\x1e\0\x14\0\0\0\0"[..], &comment, b",\0\0\0\0\x3c\0\x28\0\0", &[1; 20_000]]
            .concat(),
    ]
}

#[test]
fn probe_finds_the_facts_of_the_whole_without_reading_pixels() {
    for payload in long_images() {
        let (found, read) = probed(&payload);
        assert_eq!(found, image_facts(&payload));
        assert!(
            found.is_ok() && read < 20_000.max(payload.len() as u64 * 3 / 4),
            "{read} of {}",
            payload.len()
        );
    }
}

#[test]
fn probe_asks_xmp_of_a_tiff_without_the_tag() {
    let page = |orientation: &[u8], xmp_at: u8| {
        let tags = [
            &[1, 0, 0, 3, 0, 0, 0, 1, 0, 60, 0, 0][..],
            &[1, 1, 0, 3, 0, 0, 0, 1, 0, 40, 0, 0],
            orientation,
        ];
        let tags = [&tags.concat()[..], &[2, 0xbc, 0, 1, 0, 0, 0, 25, 0, 0, 0x20, xmp_at]].concat();
        let count = u8::try_from(tags.len() / 12).unwrap();
        let mut payload = [&b"MM\0\x2a\0\0\0\x08\0"[..], &[count], &tags, &[0; 4]].concat();
        payload.resize(0x2000 + usize::from(xmp_at), 0);
        payload.extend(xmp(6));
        payload
    };
    for (orientation, expected) in [
        (&[][..], 6),
        (&[1, 0x12, 0, 3, 0, 0, 0, 1, 0, 3, 0, 0][..], 3),
        (&[1, 0x12, 0, 1, 0, 0, 0, 1, 5, 0, 0, 0][..], 1),
    ] {
        let payload = page(orientation, 9);
        let (found, _) = probed(&payload);
        assert_eq!(found, image_facts(&payload));
        assert_eq!(found.map(|facts| facts.orientation), Ok(expected));
    }
}

proptest! {
    #[test]
    fn probe_of_a_damaged_image_agrees_with_the_whole(
        number in 0_usize..8,
        flips in prop::collection::vec((0_usize..300, any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut payload = long_images().swap_remove(number);
        for (at, value) in flips {
            // Half of the flips near the end, where records may be.
            let at = if at % 2 == 0 { at } else { payload.len() - 1 - at };
            payload[at] = value;
        }
        payload.truncate(payload.len() - cut.index(400));
        prop_assert_eq!(probed(&payload).0.ok(), image_facts(&payload).ok());
    }

    #[test]
    fn damaged_records_do_not_panic(
        mut payload in prop_oneof![
            Just(jpeg(&[app1(EXIF, &short(6)), app1(XMP, &xmp(3))])),
            Just(png(&[chunk(b"eXIf", &short(6))])),
            Just(webp(0x0c, &[(b"EXIF", short(6))])),
        ],
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        for (at, value) in flips {
            let at = at.index(payload.len());
            payload[at] = value;
        }
        payload.truncate(cut.index(payload.len() + 1));
        let _ = image_facts(&payload);
    }
}
