//! Handmade headers: sides, requests, damage.
#![expect(clippy::cast_possible_truncation, reason = "the headers are small and built here")]

use crate::error::{Error, Result};
use crate::format::ImageFormat;
use crate::image_size::ImageSize;
use crate::size::{SizeProbe, image_size};

fn size(width: u32, height: u32) -> Result<ImageSize> {
    Ok(ImageSize { width, height })
}

fn jpeg(segments: &[(u8, usize)]) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8];
    for (code, len) in segments {
        bytes.extend([0xff, *code]);
        bytes.extend((*len as u16).to_be_bytes());
        bytes.resize(bytes.len() + len - 2, 0xee);
    }
    bytes.extend([0xff, 0xc2, 0, 17, 8, 0x01, 0x02, 0x03, 0x04]);
    bytes.extend([0; 40]);
    bytes
}

/// The size, and the numbers of bytes and requests.
fn probe(payload: &[u8]) -> (Result<ImageSize>, u64, usize) {
    let mut probe = SizeProbe::new(payload.len() as u64);
    let (mut bytes, mut requests) = (0, 0);
    while let Some(range) = probe.needs() {
        bytes += range.end - range.start;
        requests += 1;
        probe.push(&payload[range.start as usize..range.end as usize]);
    }
    (probe.finish(), bytes, requests)
}

#[test]
fn jpeg_frame_header_after_large_segments_is_found_with_few_bytes() {
    let payload = jpeg(&[(0xe1, 65_000), (0xe2, 65_535), (0xe2, 65_535), (0xdb, 67)]);
    let (found, bytes, requests) = probe(&payload);
    assert_eq!(found, size(0x304, 0x102));
    assert!(bytes < 8192 && requests == 4, "{bytes} bytes in {requests}");
}

#[test]
fn jpeg_with_fill_and_stray_bytes_has_a_size() {
    let mut payload = jpeg(&[]);
    payload.splice(2..2, [0xff, 0xff, 0xe0, 0, 2, 0, 0x12, 0xff, 0, 0xff]);
    assert_eq!(image_size(&payload), size(0x304, 0x102));
    let mut stray = jpeg(&[(0xe0, 16)]);
    stray.splice(20..20, vec![0x55; 30_000]);
    assert_eq!(image_size(&stray), size(0x304, 0x102));
}

#[test]
fn jpeg_cut_before_its_frame_header_is_refused() {
    let payload = jpeg(&[(0xe1, 5000)]);
    let error = image_size(&payload[..3000]).unwrap_err();
    assert_eq!(
        error,
        Error::TruncatedHeader { format: ImageFormat::Jpeg, needed: 5013, found: 3000 }
    );
}

#[test]
fn jpeg_scan_without_frame_header_is_refused() {
    let error = image_size(b"\xff\xd8\xff\xda\0\x08aaaaaaaaaaaaaaaa").unwrap_err();
    assert_eq!(error, Error::UnknownSize { format: ImageFormat::Jpeg });
}

#[test]
fn bmp_headers_of_windows_and_os2_are_read() {
    let mut windows = b"BM\0\0\0\0\0\0\0\0\0\0\0\0\x28\0\0\0".to_vec();
    windows.extend(300_i32.to_le_bytes());
    windows.extend((-200_i32).to_le_bytes());
    assert_eq!(image_size(&windows), size(300, 200));
    let os2 = b"BM\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0\0\0\x2c\x01\xc8\0";
    assert_eq!(image_size(os2), size(300, 200));
}

#[test]
fn webp_of_all_three_kinds_is_read() {
    let mut lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a".to_vec();
    lossy.extend([0x2c, 0x41, 0xc8, 0x80]);
    assert_eq!(image_size(&lossy), size(300, 200));
    let mut lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f".to_vec();
    lossless.extend((299_u32 | 199 << 14).to_le_bytes());
    assert_eq!(image_size(&lossless), size(300, 200));
    let mut extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
    extended.extend([0x2b, 0x01, 0, 0xc7, 0, 0]);
    assert_eq!(image_size(&extended), size(300, 200));
}

#[test]
fn jpeg_2000_states_its_size_in_a_box_and_in_its_codestream() {
    let mut file =
        b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 \0\0\0\x2djp2h\0\0\0\x16ihdr"
            .to_vec();
    file.extend([200_u32.to_be_bytes(), 300_u32.to_be_bytes()].concat());
    assert_eq!(image_size(&file), size(300, 200));
    let mut codestream = b"\xff\x4f\xff\x51\0\x2f\0\0".to_vec();
    codestream.extend([310_u32, 220, 10, 20].map(u32::to_be_bytes).concat());
    assert_eq!(image_size(&codestream), size(300, 200));
    for cut in [&file[..50], &codestream[..20], b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x07free"] {
        assert_eq!(image_size(cut), Err(Error::UnknownSize { format: ImageFormat::Other }));
    }
}

#[test]
fn zero_sides_are_refused() {
    let gif = b"GIF89a\x05\0\0\0";
    let error = image_size(gif).unwrap_err();
    assert_eq!(error, Error::ZeroSize { width: 5, height: 0 });
}

#[test]
fn header_cut_before_the_size_is_refused() {
    let error = image_size(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unknown size: the header of the `image/png` payload needs `20` bytes, the payload has `18`"
    );
}

#[test]
fn payload_that_is_not_an_image_has_an_unknown_size() {
    for payload in [&b""[..], b"x", &[b'{'; 100]] {
        let error = image_size(payload).unwrap_err();
        assert!(error.to_string().starts_with("Unknown size"), "{error}");
    }
}

#[test]
fn other_formats_ask_for_a_longer_prefix_once() {
    let mut payload = b"\0\0\0\x18ftypavif\0\0\0\0mif1avif".to_vec();
    payload.resize(100_000, 0);
    let (found, bytes, requests) = probe(&payload);
    assert!(found.is_err());
    assert_eq!((bytes, requests), (4096 + 65_536, 2));
    assert_eq!(image_size(b"P6\n300 200\n255\n..."), size(300, 200));
}

#[test]
fn short_answer_is_an_error() {
    let mut probe = SizeProbe::new(5000);
    probe.push(b"GIF89a");
    assert_eq!(probe.finish(), Err(Error::ShortBytes { offset: 0, needed: 4096, found: 6 }));
}

#[test]
fn aspect_ratio_of_a_zero_side_is_none() {
    let ratio = |width, height| ImageSize { width, height }.aspect_ratio();
    assert_eq!(ratio(300, 200), Some(1.5));
    assert_eq!(ratio(300, 0), None);
    assert_eq!(ratio(0, 300), None);
}
