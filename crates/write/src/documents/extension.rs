//! File extension of an image member.

use shardmill_images::sniff;

/// From the MIME type; without one, from the bytes.
#[must_use]
pub(super) fn image_extension(content_type: Option<&str>, bytes: &[u8]) -> &'static str {
    match content_type {
        Some("image/jpeg" | "image/jpg") => "jpg",
        Some("image/png") => "png",
        Some("image/tiff") => "tiff",
        Some("image/webp") => "webp",
        Some("image/gif") => "gif",
        Some("image/bmp") => "bmp",
        Some("image/avif") => "avif",
        Some("image/heic") => "heic",
        Some("image/heif") => "heif",
        Some("image/jxl") => "jxl",
        Some("image/jp2") => "jp2",
        Some("image/svg+xml") => "svg",
        Some("image/vnd.microsoft.icon") => "ico",
        Some(_) => "bin",
        None => sniff(bytes).map_or("bin", |format| format.extension()),
    }
}
