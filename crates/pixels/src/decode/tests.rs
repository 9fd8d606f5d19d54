//! Limits, damage and reuse, on images made by hand.
#![expect(clippy::cast_possible_truncation, reason = "the images are small and built here")]

use proptest::prelude::*;
use shardmill_images::ImageFormat;

use super::*;
use crate::error::Cause;
use crate::raster::{self as image, Portion};
use crate::test_jpegs::{KINDS, jpeg_of_kind, with_orientation};

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    [&(data.len() as u32).to_be_bytes()[..], name, data, &[0; 4]].concat()
}

/// A PNG whose header states the sides, and whose pixels are missing.
fn png_claim(width: u32, height: u32) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let mut header = chunk(b"IHDR", &header);
    let sum = header.len() - 4;
    let crc = crc_of(&header[4..sum]);
    header[sum..].copy_from_slice(&crc.to_be_bytes());
    [&b"\x89PNG\r\n\x1a\n"[..], &header, &chunk(b"IDAT", &[0x78, 0x9c, 0, 0])].concat()
}

fn crc_of(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn bmp(width: i32, height: i32, bits: u16, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend([1, 0]);
    bytes.extend(bits.to_le_bytes());
    bytes.resize(54, 0);
    bytes.extend(pixels);
    bytes
}

/// A TIFF with these tags, and data at 14 + 12 · their number.
fn tiff(tags: &[(u16, u16)], data: &[u8]) -> Vec<u8> {
    let mut bytes = b"II\x2a\0\x08\0\0\0".to_vec();
    bytes.extend((tags.len() as u16).to_le_bytes());
    for (tag, value) in tags {
        [*tag, 3, 1, 0, *value, 0]
            .into_iter()
            .for_each(|number| bytes.extend(number.to_le_bytes()));
    }
    bytes.extend([0; 4]);
    bytes.extend(data);
    bytes
}

/// A TIFF of one pixel in a tile of the largest sides.
fn tiff_tile_claim() -> Vec<u8> {
    let tags = [
        (256, 1),
        (257, 1),
        (258, 8),
        (259, 8),
        (262, 1),
        (277, 1),
        (322, 65_535),
        (323, 65_535),
        (324, 134),
        (325, 16),
    ];
    tiff(&tags, &[0; 16])
}

/// A TIFF of eight rows, whose strip is a JPEG that states more.
fn tiff_strip_claim() -> Vec<u8> {
    let mut strip = jpeg(1024, 8);
    let frame = strip.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    strip[frame + 5..frame + 7].fill(0xff);
    strip.truncate(2000);
    let len = strip.len() as u16;
    let tags = [
        (256, 1024),
        (257, 8),
        (258, 8),
        (259, 7),
        (262, 6),
        (273, 134),
        (277, 3),
        (278, 8),
        (279, len),
        (284, 1),
    ];
    tiff(&tags, &strip)
}

/// Two blocks of gray by libjpeg-turbo, as a JPEG.
fn jpeg(width: usize, height: usize) -> Vec<u8> {
    let pixels: Vec<u8> = (0..width * height * 3).map(|k| (k * 7 % 251) as u8).collect();
    let image = turbojpeg::Image {
        pixels: &pixels[..],
        width,
        pitch: width * 3,
        height,
        format: turbojpeg::PixelFormat::RGB,
    };
    turbojpeg::compress(image, 80, turbojpeg::Subsamp::Sub2x2).unwrap().to_vec()
}

fn decode(payload: &[u8], options: &DecodeOptions) -> Result<(u32, u32, usize, Vec<u8>)> {
    let mut decoder = Decoder::new();
    decoder
        .decode(payload, options, |_, _| Part::WHOLE)
        .map(|image| (image.width, image.height, image.channels, image.pixels.to_vec()))
}

fn cause(payload: &[u8]) -> Cause {
    decode(payload, &DecodeOptions::default()).unwrap_err().cause()
}

/// Its last rows are missing. The last byte is not of the file.
const WITHOUT_ROWS: &[u8] = include_bytes!("../../../../fuzz/seeds/decode_jpeg/unwritten_rows");

#[test]
fn rows_that_a_file_lacks_do_not_show_an_earlier_image() {
    let options = DecodeOptions { damaged: Damaged::Accept, ..DecodeOptions::default() };
    let payload = &WITHOUT_ROWS[..WITHOUT_ROWS.len() - 1];
    let fresh = decode(payload, &options).unwrap().3;
    let mut used = Decoder::new();
    used.decode(&jpeg(64, 64), &options, |_, _| Part::WHOLE).unwrap();
    assert_eq!(used.decode(payload, &options, |_, _| Part::WHOLE).unwrap().pixels, fresh);
}

#[test]
fn claims_are_refused_before_memory_is_taken() {
    let claims = [
        (png_claim(50_000, 50_000), Cause::Limit),
        (png_claim(70_000, 1), Cause::Limit),
        // Allowed by its pixels, but not in the payload.
        (png_claim(9_000, 9_000), Cause::Truncated),
        (bmp(9_000, 9_000, 24, &[0; 100]), Cause::Truncated),
        (tiff_tile_claim(), Cause::Limit),
        (tiff_strip_claim(), Cause::Limit),
    ];
    let mut decoder = Decoder::new();
    for (payload, cause) in claims {
        let error =
            decoder.decode(&payload, &DecodeOptions::default(), |_, _| Part::WHOLE).unwrap_err();
        assert_eq!(error.cause(), cause);
        assert_eq!(decoder.pixels.capacity() + decoder.turned.capacity(), 0);
    }
}

/// A progressive or sequential JPEG with this number of scans of zeros, all of the first component.
fn jpeg_of_scans(frame: u8, side: u16, components: u8, scans: usize) -> Vec<u8> {
    let mut payload = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
    payload.resize(payload.len() + 64, 1);
    let [high, low] = side.to_be_bytes();
    payload.extend([0xff, frame, 0, 8 + 3 * components, 8, high, low, high, low, components]);
    (1..=components).for_each(|component| payload.extend([component, 0x11, 0]));
    payload.extend([0xff, 0xc4, 0, 20, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for _ in 0..scans {
        payload.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0]);
        payload.resize(payload.len() + 512, 0);
    }
    payload.extend([0xff, 0xd9]);
    payload
}

#[test]
fn jpeg_with_too_many_scans_for_its_size_is_refused_before_it_is_decoded() {
    for (frame, side, components, scans, is_refused) in [
        (0xc2, 512, 1, 1000, true),
        (0xc2, 512, 1, 501, true),
        (0xc2, 8192, 1, 33, true),
        (0xca, 8192, 1, 33, true),
        (0xc2, 8192, 1, 32, false),
        (0xc0, 8192, 3, 33, true),
        // The library stops after a scan of all components.
        (0xc0, 512, 1, 1000, false),
        (0xc2, 4096, 1, 31, false),
    ] {
        let outcome =
            decode(&jpeg_of_scans(frame, side, components, scans), &DecodeOptions::default());
        let is_limit = matches!(
            &outcome,
            Err(error) if error.cause() == Cause::Limit && error.to_string().contains("scans of")
        );
        assert_eq!(is_limit, is_refused, "{frame:x} {side} {scans}: {:?}", outcome.err());
    }
}

#[test]
fn causes_name_the_situation() {
    assert_eq!(cause(b""), Cause::UnknownFormat);
    assert_eq!(cause(b"a text"), Cause::UnknownFormat);
    assert_eq!(
        cause(b"\xff\x4f\xff\x51\0\x2f\0\0\0\0\0\x02\0\0\0\x02\0\0\0\0\0\0\0\0"),
        Cause::Unsupported
    );
    assert_eq!(cause(b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif"), Cause::Damaged);
    assert_eq!(cause(&bmp(2, 2, 24, &[0; 8])), Cause::Truncated);
    assert_eq!(cause(&bmp(2, 2, 2, &[0; 8])), Cause::Unsupported);
    // The codes are those of one bit.
    let fax = [
        (256, 8),
        (257, 1),
        (258, 8),
        (259, 4),
        (262, 1),
        (273, 122),
        (277, 1),
        (278, 1),
        (279, 4),
    ];
    assert_eq!(cause(&tiff(&fax, &[0xff; 4])), Cause::Damaged);
    let jpeg = jpeg(17, 9);
    assert_eq!(cause(&jpeg[..jpeg.len() - 2]), Cause::Truncated);
    assert_eq!(cause(&jpeg[..40]), Cause::Truncated);
    assert_eq!(Cause::UnknownFormat.to_string(), "unknown format");
}

#[test]
fn page_of_a_format_without_pages_does_not_exist() {
    let options = DecodeOptions { page: 1, ..DecodeOptions::default() };
    assert!(matches!(decode(&jpeg(8, 8), &options), Err(Error::NoSuchPage { page: 1, .. })));
}

#[test]
fn sixteen_bits_of_bmp_are_spread() {
    // Bottom-up: the second row comes first.
    let payload = bmp(1, 2, 16, &[0xff, 0x7f, 0, 0, 0x1f, 0, 0, 0]);
    assert_eq!(
        decode(&payload, &DecodeOptions::default()),
        Ok((1, 2, 3, vec![0, 0, 255, 255, 255, 255]))
    );
}

#[test]
fn gray_has_one_channel_and_rgb_three() {
    let payload = bmp(1, 1, 24, &[0, 0, 255, 0]);
    assert_eq!(
        decode(&payload, &DecodeOptions::default()).map(|image| image.3),
        Ok(vec![255, 0, 0])
    );
    let gray = DecodeOptions { channels: Channels::Gray, ..DecodeOptions::default() };
    assert_eq!(decode(&payload, &gray).map(|image| (image.2, image.3)), Ok((1, vec![76])));
}

#[test]
fn damaged_scan_is_an_error_or_accepted() {
    let mut payload = jpeg(64, 64);
    let scan = payload.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
    // A restart marker that is not announced ends the data early.
    let at = scan + 40;
    payload[at..at + 2].copy_from_slice(&[0xff, 0xd3]);
    assert_eq!(cause(&payload), Cause::Damaged);
    let mut decoder = Decoder::new();
    let options = DecodeOptions { damaged: Damaged::Accept, ..DecodeOptions::default() };
    let image = decoder.decode(&payload, &options, |_, _| Part::WHOLE).unwrap();
    assert!(image.notes.accepted_damage);
}

#[test]
fn decoder_works_on_after_an_error() {
    let payload = jpeg(40, 30);
    let mut decoder = Decoder::new();
    let first = decoder
        .decode(&payload, &DecodeOptions::default(), |_, _| Part::WHOLE)
        .map(|image| image.pixels.to_vec());
    for len in 0..payload.len() {
        assert!(
            decoder.decode(&payload[..len], &DecodeOptions::default(), |_, _| Part::WHOLE).is_err()
        );
    }
    let last = decoder
        .decode(&payload, &DecodeOptions::default(), |_, _| Part::WHOLE)
        .map(|image| image.pixels.to_vec());
    assert_eq!(first, last);
}

#[test]
fn tables_of_the_last_image_are_forgotten() {
    let first = jpeg(40, 30);
    let mut second = jpeg(40, 30);
    let table = second.windows(2).position(|pair| pair == [0xff, 0xdb]).unwrap();
    // The quantization table becomes a comment.
    second[table + 1] = 0xfe;
    let mut used = Decoder::new();
    used.decode(&first, &DecodeOptions::default(), |_, _| Part::WHOLE).unwrap();
    let after = used
        .decode(&second, &DecodeOptions::default(), |_, _| Part::WHOLE)
        .map(|image| image.pixels.to_vec());
    assert_eq!(after, decode(&second, &DecodeOptions::default()).map(|image| image.3));
}

#[test]
fn orientation_turns_the_sides_and_scale_divides_them() {
    let plain = jpeg(40, 24);
    let payload = with_orientation(&plain, 6);
    let mut decoder = Decoder::new();
    let image = decoder.decode(&payload, &DecodeOptions::default(), |width, height| {
        assert_eq!((width, height), (24, 40));
        Part { denominator: 4, columns: Some(0..1), rows: None }
    });
    let image = image.unwrap();
    assert_eq!((image.width, image.height, image.orientation, image.denominator), (6, 10, 6, 4));
    assert_eq!(
        (image.stored.width, image.stored.height, image.format),
        (40, 24, ImageFormat::Jpeg)
    );
    let options = DecodeOptions { orientation: false, ..DecodeOptions::default() };
    let image = decoder.decode(&payload, &options, |_, _| Part::WHOLE).unwrap();
    assert_eq!((image.width, image.height, image.orientation), (40, 24, 1));
}

/// A gray JPEG of 16 x 16 in three components of these sampling factors; each scan has components
/// and codes, whose bits are zero.
fn sampled_jpeg(luma: u8, chroma: u8, scans: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = b"\xff\xd8\xff\xdb\0\x43\0".to_vec();
    bytes.extend([1; 64]);
    bytes.extend([0xff, 0xc0, 0, 17, 8, 0, 16, 0, 16, 3, 1, luma, 0, 2, chroma, 0, 3, chroma, 0]);
    for class in [0, 0x10] {
        bytes.extend([0xff, 0xc4, 0, 20, class, 1]);
        bytes.extend([0; 16]);
    }
    for (components, codes) in scans {
        let count = components.len() as u8;
        bytes.extend([0xff, 0xda, 0, 6 + 2 * count, count]);
        components.iter().for_each(|component| bytes.extend([*component, 0]));
        bytes.extend([0, 63, 0]);
        bytes.extend(*codes);
    }
    bytes.extend([0xff, 0xd9]);
    bytes
}

#[test]
fn rare_sampling_is_decoded() {
    let in_three_scans =
        sampled_jpeg(0x22, 0x11, &[(&[1], &[0]), (&[2], &[0x3f]), (&[3], &[0x3f])]);
    let with_coarse_luma = sampled_jpeg(0x11, 0x21, &[(&[1, 2, 3], &[0, 0, 0x0f])]);
    for payload in [in_three_scans, with_coarse_luma, jpeg_of_kind(8, 40, 24, 0)] {
        assert!(decode(&payload, &DecodeOptions::default()).is_ok());
    }
}

proptest! {
    #[test]
    fn damage_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        kind in 0_usize..3,
        accept in any::<bool>(),
    ) {
        let mut payload = match kind {
            0 => jpeg(33, 17),
            1 => bmp(9, 7, 8, &[3; 1024 + 12 * 7]),
            _ => png_claim(7, 5),
        };
        for (at, value) in flips {
            let at = at.index(payload.len());
            payload[at] = value;
        }
        let damaged = if accept { Damaged::Accept } else { Damaged::Error };
        if let Ok((width, height, channels, pixels)) = decode(
            &payload,
            &DecodeOptions { damaged, max_pixels: 1 << 20, ..DecodeOptions::default() },
        ) {
            prop_assert_eq!(pixels.len(), width as usize * height as usize * channels);
        }
    }

    #[test]
    fn a_part_has_the_pixels_of_the_whole(
        (width, height, seed) in (1_usize..300, 1_usize..140, any::<usize>()),
        (ends, scale, kind) in (any::<[prop::sample::Index; 4]>(), 0_u32..4, 0_usize..KINDS),
        (orientation, gray, cuts) in (1_u8..=8, any::<bool>(), 1_u8..4),
    ) {
        let payload = with_orientation(&jpeg_of_kind(kind, width, height, seed), orientation);
        let options = DecodeOptions {
            channels: if gray { Channels::Gray } else { Channels::Rgb },
            ..DecodeOptions::default()
        };
        let denominator = 1 << scale;
        let mut decoder = Decoder::new();
        let whole =
            decoder.decode(&payload, &options, |_, _| Part { denominator, ..Part::WHOLE }).unwrap();
        let sides = Sides { height: whole.height as usize, width: whole.width as usize };
        prop_assert_eq!(whole.region, sides.whole());
        let [left, right, top, bottom] = ends;
        let range = |start: &prop::sample::Index, end: &prop::sample::Index, len: usize| {
            let (start, end) = (start.index(len), end.index(len));
            start.min(end)..start.max(end) + 1
        };
        let (columns, rows) =
            (range(&left, &right, sides.width), range(&top, &bottom, sides.height));
        let part = Part {
            denominator,
            columns: (cuts & 1 > 0).then(|| columns.clone()),
            rows: (cuts & 2 > 0).then(|| rows.clone()),
        };
        let mut decoder = Decoder::new();
        let part = decoder.decode(&payload, &options, |_, _| part).unwrap();
        prop_assert_eq!(part.pixels.len(), part.region.width * part.region.height * part.channels);
        let wanted = Region {
            top: rows.start,
            left: columns.start,
            height: rows.len(),
            width: columns.len(),
        };
        let whole =
            image::Raster::new(whole.pixels, sides, whole.channels).unwrap().crop(wanted).unwrap();
        let pixels = image::Raster::new(part.pixels, part.region.sides(), part.channels).unwrap();
        let part = Portion::new(pixels, (part.region.top, part.region.left), sides)
            .unwrap()
            .crop(wanted)
            .unwrap();
        prop_assert!(part.rows().eq(whole.rows()));
    }
}
