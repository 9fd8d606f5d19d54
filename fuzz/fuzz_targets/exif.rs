//! Any EXIF, in a JPEG, a PNG and a WebP: an orientation from 1 to 8, the same in each.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardmill_images::image_facts;

fuzz_target!(|exif: &[u8]| {
    let exif = &exif[..exif.len().min(65_000)];
    // Two prefixes are left out, as by Pillow, and a JPEG has one of its own.
    if exif.starts_with(b"Exif\0\0Exif\0\0") {
        return;
    }
    let orientations = [jpeg(exif), png(exif), webp(exif)]
        .map(|payload| image_facts(&payload).expect("the header is valid").orientation);
    assert!((1..=8).contains(&orientations[0]));
    assert_eq!(orientations, [orientations[0]; 3]);
});

fn jpeg(exif: &[u8]) -> Vec<u8> {
    let len = u16::try_from(exif.len() + 8).unwrap_or(u16::MAX).to_be_bytes();
    let frame = [0xff, 0xc0, 0, 11, 8, 0, 9, 0, 17, 1, 1, 0x11, 0];
    [
        &[0xff, 0xd8, 0xff, 0xe1][..],
        &len,
        b"Exif\0\0",
        exif,
        &frame,
        &[0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0xff, 0xd9],
    ]
    .concat()
}

fn png(exif: &[u8]) -> Vec<u8> {
    let chunk = |name: &[u8], body: &[u8]| {
        [&u32::try_from(body.len()).unwrap_or(0).to_be_bytes()[..], name, body, &[0; 4]].concat()
    };
    let header = chunk(b"IHDR", &[0, 0, 0, 17, 0, 0, 0, 9, 8, 0, 0, 0, 0]);
    [
        &b"\x89PNG\r\n\x1a\n"[..],
        &header,
        &chunk(b"eXIf", exif),
        &chunk(b"IDAT", b""),
        &chunk(b"IEND", b""),
    ]
    .concat()
}

fn webp(exif: &[u8]) -> Vec<u8> {
    let chunk = |name: &[u8], body: &[u8]| {
        let pad: &[u8] = if body.len() % 2 == 1 { &[0] } else { &[] };
        [name, &u32::try_from(body.len()).unwrap_or(0).to_le_bytes(), body, pad].concat()
    };
    let body = [chunk(b"VP8X", &[8, 0, 0, 0, 16, 0, 0, 8, 0, 0]), chunk(b"EXIF", exif)].concat();
    [&b"RIFF"[..], &u32::try_from(body.len() + 4).unwrap_or(0).to_le_bytes(), b"WEBP", &body]
        .concat()
}
