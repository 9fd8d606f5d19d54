//! Errors of image payloads.
//!
//! Variants name the situation and contain the page and the numbers that are needed to find the
//! damage. Invariant: an error never contains bytes of the payload.

use crate::format::ImageFormat;

/// What is wrong with a payload, or with how a state machine was driven.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first bytes are not a known magic number.
    #[error("Unknown size: the payload of `{payload_len}` bytes is not a recognized image")]
    UnknownFormat { payload_len: u64 },
    /// The format is known, but its header does not contain a size.
    #[error("Unknown size: the header of the `{}` payload does not contain it", .format.mime())]
    UnknownSize { format: ImageFormat },
    /// The header is truncated before the size.
    #[error(
        "Unknown size: the header of the `{}` payload needs `{needed}` bytes, \
         the payload has `{found}`",
        .format.mime()
    )]
    TruncatedHeader { format: ImageFormat, needed: u64, found: u64 },
    /// The header states an image without pixels.
    #[error("Image size `{width}` x `{height}` has a zero side")]
    ZeroSize { width: u32, height: u32 },
    /// The payload does not begin like a TIFF.
    #[error("Payload of `{payload_len}` bytes is not a TIFF")]
    NotTiff { payload_len: u64 },
    /// The TIFF has fewer pages.
    #[error("Page `{page}` is beyond the end, the TIFF has `{pages}` pages")]
    PageBeyondEnd { page: usize, pages: usize },
    /// The directory of this page, or of an earlier one, is not inside the payload.
    #[error(
        "Page `{page}` cannot be reached: the directory of page `{broken_page}` needs `{needed}` \
         bytes at `{offset}`, the payload has `{payload_len}`"
    )]
    DirectoryOutOfFile {
        page: usize,
        broken_page: usize,
        offset: u64,
        needed: u64,
        payload_len: u64,
    },
    /// Directories overlap, which no writer produces.
    #[error(
        "Page `{page}` cannot be reached: the directories up to page `{broken_page}` take \
         `{directory_bytes}` bytes, the payload has `{payload_len}`"
    )]
    OverlappingDirectories {
        page: usize,
        broken_page: usize,
        directory_bytes: u64,
        payload_len: u64,
    },
    /// A required tag of the page is missing.
    #[error("Page `{page}` has no tag `{tag}`")]
    MissingTag { page: usize, tag: u16 },
    /// A tag has an invalid type or number of values.
    #[error("Page `{page}` has tag `{tag}` with unusable type `{kind}` or count `{count}`")]
    UnusableTag { page: usize, tag: u16, kind: u16, count: u64 },
    /// The value of a tag that is needed for decoding is outside of the payload.
    #[error(
        "Page `{page}` has tag `{tag}` with `{needed}` value bytes at `{offset}`, \
         the payload has `{payload_len}`"
    )]
    ValueOutOfFile { page: usize, tag: u16, offset: u64, needed: u64, payload_len: u64 },
    /// The tag values together are larger than the payload, so they overlap.
    #[error(
        "Page `{page}` has `{value_bytes}` bytes of tag values, the payload has `{payload_len}`"
    )]
    OverlappingValues { page: usize, value_bytes: u64, payload_len: u64 },
    /// There are neither strips nor tiles.
    #[error("Page `{page}` has neither strips nor tiles")]
    NoSegments { page: usize },
    /// The numbers of offsets and byte counts differ.
    #[error("Page `{page}` has `{offsets}` segment offsets and `{counts}` byte counts")]
    SegmentCountMismatch { page: usize, offsets: u64, counts: u64 },
    /// The byte count is missing or zero and cannot be computed.
    #[error(
        "Page `{page}` has no byte count for its segment, and it is not one uncompressed strip"
    )]
    UnknownSegmentLength { page: usize },
    /// A strip or tile is outside of the payload.
    #[error(
        "Page `{page}` has a segment of `{needed}` bytes at `{offset}`, \
         the payload has `{payload_len}`"
    )]
    SegmentOutOfFile { page: usize, offset: u64, needed: u64, payload_len: u64 },
    /// Different segments of the page overlap so much that they are larger than the payload.
    #[error(
        "Page `{page}` has `{segment_bytes}` bytes of segments, the payload has `{payload_len}`"
    )]
    OverlappingSegments { page: usize, segment_bytes: u64, payload_len: u64 },
    /// An old-style JPEG page with tables of unknown length.
    #[error("Page `{page}` is an old-style JPEG whose tag `{tag}` cannot be relocated")]
    OldJpegNotRelocatable { page: usize, tag: u16 },
    /// The page is too large for the offsets of its flavour.
    #[error("Page `{page}` does not fit the 32-bit offsets of its TIFF flavour")]
    PageTooLarge { page: usize },
    /// The driver pushed fewer bytes than requested.
    #[error("Read at `{offset}` needs `{needed}` bytes, `{found}` were given")]
    ShortBytes { offset: u64, needed: u64, found: u64 },
    /// The driver stopped before the machine had all bytes.
    #[error("Read at `{offset}` of `{needed}` bytes is still needed")]
    Unfinished { offset: u64, needed: u64 },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
