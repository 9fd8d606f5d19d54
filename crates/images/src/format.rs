//! Names the format of a payload from its first bytes.
//!
//! A prefix enters, a format leaves; file names are never believed. Invariant: no answer depends on more than the first 64 bytes.

/// What the magic number says the payload is.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    Jpeg,
    Png,
    Tiff,
    Webp,
    Gif,
    Bmp,
    Avif,
    /// An image of a format that we only measure: HEIC, JPEG XL, PNM, ICO, …
    Other,
}

impl ImageFormat {
    /// The MIME type.
    #[must_use]
    pub fn mime(&self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Tiff => "image/tiff",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
            Self::Bmp => "image/bmp",
            Self::Avif => "image/avif",
            Self::Other => "application/octet-stream",
        }
    }

    /// The usual file name extension, without the dot.
    #[must_use]
    pub fn extension(&self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
            Self::Tiff => "tiff",
            Self::Webp => "webp",
            Self::Gif => "gif",
            Self::Bmp => "bmp",
            Self::Avif => "avif",
            Self::Other => "bin",
        }
    }
}

/// The format of the payload that starts with `prefix`; `None` when it is no image that we recognise. 64 bytes are enough.
#[must_use]
pub fn sniff(prefix: &[u8]) -> Option<ImageFormat> {
    let prefix = prefix.get(..64).unwrap_or(prefix);
    let at = |offset: usize, magic: &[u8]| prefix.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    if at(0, b"\xff\xd8\xff") {
        Some(ImageFormat::Jpeg)
    } else if at(0, b"\x89PNG\r\n\x1a\n") {
        Some(ImageFormat::Png)
    } else if at(0, b"II\x2a\0") || at(0, b"MM\0\x2a") || at(0, b"II\x2b\0") || at(0, b"MM\0\x2b") {
        Some(ImageFormat::Tiff)
    } else if at(0, b"RIFF") && at(8, b"WEBP") {
        Some(ImageFormat::Webp)
    } else if at(0, b"GIF87a") || at(0, b"GIF89a") {
        Some(ImageFormat::Gif)
    } else if at(0, b"BM") && has_bmp_header(prefix) {
        Some(ImageFormat::Bmp)
    } else if at(4, b"ftyp") && has_avif_brand(prefix) {
        Some(ImageFormat::Avif)
    } else {
        imagesize::image_type(prefix).ok().map(|_| ImageFormat::Other)
    }
}

/// `BM` alone begins many a text; the size of the second header is one of few numbers.
fn has_bmp_header(prefix: &[u8]) -> bool {
    prefix
        .get(14..)
        .and_then(|rest| rest.first_chunk())
        .is_some_and(|size| matches!(u32::from_le_bytes(*size), 12 | 16 | 40 | 52 | 56 | 64 | 108 | 124))
}

fn has_avif_brand(prefix: &[u8]) -> bool {
    let box_len = prefix.first_chunk().map_or(0, |len| u32::from_be_bytes(*len)).min(64) as usize;
    let brands = prefix.get(8..box_len.min(prefix.len())).unwrap_or_default();
    brands.chunks_exact(4).enumerate().any(|(k, brand)| k != 1 && matches!(brand, b"avif" | b"avis" | b"avio"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_numbers_name_the_format() {
        for (bytes, format) in [
            (&b"\xff\xd8\xff\xe0"[..], ImageFormat::Jpeg),
            (b"\x89PNG\r\n\x1a\n", ImageFormat::Png),
            (b"II\x2a\0\x08\0\0\0", ImageFormat::Tiff),
            (b"MM\0\x2b\0\x08\0\0", ImageFormat::Tiff),
            (b"RIFF\0\0\0\0WEBPVP8 ", ImageFormat::Webp),
            (b"GIF89a", ImageFormat::Gif),
            (b"BM\0\0\0\0\0\0\0\0\0\0\0\0\x28\0\0\0", ImageFormat::Bmp),
            (b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif", ImageFormat::Avif),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", ImageFormat::Other),
        ] {
            assert_eq!(sniff(bytes), Some(format), "{bytes:?}");
        }
    }

    #[test]
    fn text_is_no_image() {
        assert_eq!(sniff(b"BMW is a car maker in Munich"), None);
        assert_eq!(sniff(b"RIFF\0\0\0\0WAVEfmt "), None);
        assert_eq!(sniff(b""), None);
    }

    #[test]
    fn mime_and_extension_belong_together() {
        assert_eq!(ImageFormat::Jpeg.mime(), "image/jpeg");
        assert_eq!(ImageFormat::Jpeg.extension(), "jpg");
        assert_eq!(ImageFormat::Tiff.extension(), "tiff");
    }
}
