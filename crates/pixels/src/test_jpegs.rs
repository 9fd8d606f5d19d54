//! JPEGs of every kind that is cut into parts, and of some that are not.

use turbojpeg::{Colorspace, Compressor, Image, PixelFormat, Subsamp};

/// The number of kinds of [`jpeg_of_kind`].
pub(crate) const KINDS: usize = 13;

/// Noise of the given sides, which `seed` shifts.
pub(crate) fn jpeg_of_kind(kind: usize, width: usize, height: usize, seed: usize) -> Vec<u8> {
    use Subsamp::{Gray, None, Sub1x2, Sub1x4, Sub2x1, Sub2x2, Sub4x1};
    let subsampling = [
        Gray, None, Sub1x2, Sub2x1, Sub2x2, Sub4x1, Sub1x4, None, Sub2x2, None, None, Sub2x2,
        Sub2x2,
    ][kind];
    let is_cmyk = matches!(kind, 7..=9);
    let format = if is_cmyk { PixelFormat::CMYK } else { PixelFormat::RGB };
    let mut compressor = Compressor::new().unwrap();
    compressor.set_quality(90).unwrap();
    compressor.set_subsamp(subsampling).unwrap();
    match kind {
        7 | 8 => compressor.set_colorspace(Colorspace::YCCK).unwrap(),
        9 => compressor.set_colorspace(Colorspace::CMYK).unwrap(),
        10 => compressor.set_colorspace(Colorspace::RGB).unwrap(),
        11 => compressor.set_progressive(true).unwrap(),
        12 => compressor.set_arithmetic(true).unwrap(),
        _ => {}
    }
    let len = width * height * format.size();
    let noise = crate::test_pixels(len + 16);
    let pixels = &noise[seed % 16..][..len];
    compressor
        .compress_to_vec(Image { pixels, width, pitch: width * format.size(), height, format })
        .unwrap()
}

/// The same JPEG with EXIF that says how it is turned.
pub(crate) fn with_orientation(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let mut exif = *b"\xff\xe1\0\x22Exif\0\0\
        MM\0\x2a\0\0\0\x08\0\x01\
        \x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    exif[29] = orientation;
    [&jpeg[..2], &exif, &jpeg[2..]].concat()
}
