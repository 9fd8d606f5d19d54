//! Detects the format of a payload from its first bytes.
//!
//! File names are ignored. Invariant: the result depends only on the first 64 bytes.

/// The format that the magic number indicates.
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
    /// A format of which only the size is read: HEIC, JPEG XL, JPEG 2000, PNM, ICO, …
    Other,
}

impl ImageFormat {
    /// The MIME type.
    #[must_use]
    pub fn mime(&self) -> &'static str {
        self.names().0
    }

    /// The usual file name extension, without the dot.
    #[must_use]
    pub fn extension(&self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Jpeg => ("image/jpeg", "jpg"),
            Self::Png => ("image/png", "png"),
            Self::Tiff => ("image/tiff", "tiff"),
            Self::Webp => ("image/webp", "webp"),
            Self::Gif => ("image/gif", "gif"),
            Self::Bmp => ("image/bmp", "bmp"),
            Self::Avif => ("image/avif", "avif"),
            Self::Other => ("application/octet-stream", "bin"),
        }
    }
}

/// The format of the payload that starts with `prefix`; `None` if it is not a recognized image. 64
/// bytes are enough.
#[must_use]
pub fn sniff(prefix: &[u8]) -> Option<ImageFormat> {
    let prefix = prefix.get(..64).unwrap_or(prefix);
    let at = |offset: usize, magic: &[u8]| {
        prefix.get(offset..).is_some_and(|rest| rest.starts_with(magic))
    };
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
    } else if is_jpeg2000(prefix) {
        Some(ImageFormat::Other)
    } else {
        imagesize::image_type(prefix).ok().map(|_| ImageFormat::Other)
    }
}

/// A file of JPEG 2000, or its bare codestream.
pub(crate) fn is_jpeg2000(prefix: &[u8]) -> bool {
    prefix.starts_with(b"\0\0\0\x0cjP  \r\n") || prefix.starts_with(b"\xff\x4f\xff\x51")
}

/// The name of a format that is not decoded; `None` for formats that are, and for less common ones.
/// A TGA is told by its last bytes.
#[must_use]
pub fn unsupported_name(payload: &[u8]) -> Option<&'static str> {
    match sniff(payload) {
        Some(ImageFormat::Avif) => Some("AVIF"),
        Some(ImageFormat::Other) if is_jpeg2000(payload) => Some("JPEG 2000"),
        Some(ImageFormat::Other)
            if payload.starts_with(b"\xff\x0a") || payload.starts_with(b"\0\0\0\x0cJXL ") =>
        {
            Some("JPEG XL")
        }
        Some(ImageFormat::Other) if payload.get(4..8) == Some(b"ftyp") => Some("HEIC"),
        Some(ImageFormat::Other) if payload.starts_with(b"8BPS") => Some("PSD"),
        Some(ImageFormat::Other) if payload.starts_with(b"\0\0\x01\0") => Some("ICO"),
        Some(ImageFormat::Other) if matches!(payload.first_chunk(), Some([b'P', b'1'..=b'7'])) => {
            Some("PNM")
        }
        None | Some(ImageFormat::Other) if payload.ends_with(b"TRUEVISION-XFILE.\0") => Some("TGA"),
        _ => None,
    }
}

/// Many texts begin with `BM`; the size of the second header has few possible values.
fn has_bmp_header(prefix: &[u8]) -> bool {
    prefix.get(14..).and_then(|rest| rest.first_chunk()).is_some_and(|size| {
        matches!(u32::from_le_bytes(*size), 12 | 16 | 40 | 52 | 56 | 64 | 108 | 124)
    })
}

fn has_avif_brand(prefix: &[u8]) -> bool {
    let box_len = prefix.first_chunk().map_or(0, |len| u32::from_be_bytes(*len)).min(64) as usize;
    let brands = prefix.get(8..box_len.min(prefix.len())).unwrap_or_default();
    brands
        .chunks_exact(4)
        .enumerate()
        .any(|(k, brand)| k != 1 && matches!(brand, b"avif" | b"avis" | b"avio"))
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
            (b"\0\0\0\x0cjP  \r\n\x87\n", ImageFormat::Other),
            (b"\xff\x4f\xff\x51\0\x2f\0\0", ImageFormat::Other),
        ] {
            assert_eq!(sniff(bytes), Some(format), "{bytes:?}");
        }
    }

    #[test]
    fn formats_without_a_decoder_have_a_name() {
        assert_eq!(unsupported_name(b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif"), Some("AVIF"));
        assert_eq!(unsupported_name(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"), Some("HEIC"));
        assert_eq!(unsupported_name(b"\xff\x0a\0\0\0\0\0\0\0\0\0\0"), Some("JPEG XL"));
        assert_eq!(
            unsupported_name(b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 "),
            Some("JPEG 2000")
        );
        assert_eq!(
            unsupported_name(
                b"\0\0\x02\0\0\0\0\0\0\0\0\0\x01\0\x01\0\x18\0\0\0\0TRUEVISION-XFILE.\0"
            ),
            Some("TGA")
        );
        assert_eq!(unsupported_name(b"\xff\xd8\xff\xe0 TRUEVISION-XFILE.\0"), None);
        assert_eq!(unsupported_name(b"\xff\xd8\xff\xe0"), None);
    }

    #[test]
    fn text_is_not_an_image() {
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
