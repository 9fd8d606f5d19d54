//! Every way in which a payload can disappoint.
//!
//! Variants name the situation and carry the page and the numbers that a reader of the message needs to find the damage. Invariant: an error
//! never holds bytes of the payload.

use crate::format::ImageFormat;

/// What is wrong with a payload, or with how a state machine was driven.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first bytes are no magic number that we know.
    #[error("Unknown size: the payload of `{payload_len}` bytes is no image that we recognise")]
    UnknownFormat { payload_len: u64 },
    /// The format is known, its header does not give a size.
    #[error("Unknown size: the header of the `{}` payload does not give it", .format.mime())]
    UnknownSize { format: ImageFormat },
    /// The header is cut off before the size.
    #[error("Unknown size: the header of the `{}` payload needs `{needed}` bytes, the payload has `{found}`", .format.mime())]
    TruncatedHeader { format: ImageFormat, needed: u64, found: u64 },
    /// The header says that the image has no pixels.
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
        "Page `{page}` cannot be reached: the directory of page `{broken_page}` needs `{needed}` bytes at `{offset}`, the payload has `{payload_len}`"
    )]
    DirectoryOutOfFile { page: usize, broken_page: usize, offset: u64, needed: u64, payload_len: u64 },
    /// Directories lie upon one another, which no writer does.
    #[error(
        "Page `{page}` cannot be reached: the directories up to page `{broken_page}` take `{directory_bytes}` bytes, the payload has `{payload_len}`"
    )]
    OverlappingDirectories { page: usize, broken_page: usize, directory_bytes: u64, payload_len: u64 },
    /// A tag without which the page cannot be understood is absent.
    #[error("Page `{page}` has no tag `{tag}`")]
    MissingTag { page: usize, tag: u16 },
    /// A tag has a type or a number of values that it must not have.
    #[error("Page `{page}` has tag `{tag}` with unusable type `{kind}` or count `{count}`")]
    UnusableTag { page: usize, tag: u16, kind: u16, count: u64 },
    /// The value of a tag that is needed for decoding is not inside the payload.
    #[error("Page `{page}` has tag `{tag}` with `{needed}` value bytes at `{offset}`, the payload has `{payload_len}`")]
    ValueOutOfFile { page: usize, tag: u16, offset: u64, needed: u64, payload_len: u64 },
    /// The tag values together are larger than the payload, so they overlap.
    #[error("Page `{page}` has `{value_bytes}` bytes of tag values, the payload has `{payload_len}`")]
    OverlappingValues { page: usize, value_bytes: u64, payload_len: u64 },
    /// There are neither strips nor tiles.
    #[error("Page `{page}` has neither strips nor tiles")]
    NoSegments { page: usize },
    /// Offsets and byte counts do not pair.
    #[error("Page `{page}` has `{offsets}` segment offsets and `{counts}` byte counts")]
    SegmentCountMismatch { page: usize, offsets: u64, counts: u64 },
    /// The byte count is absent or zero and cannot be computed.
    #[error("Page `{page}` gives no byte count of its segment, and it is not one uncompressed strip")]
    UnknownSegmentLength { page: usize },
    /// A strip or tile is not inside the payload.
    #[error("Page `{page}` has a segment of `{needed}` bytes at `{offset}`, the payload has `{payload_len}`")]
    SegmentOutOfFile { page: usize, offset: u64, needed: u64, payload_len: u64 },
    /// Different segments of the page overlap so much that they are larger than the payload.
    #[error("Page `{page}` has `{segment_bytes}` bytes of segments, the payload has `{payload_len}`")]
    OverlappingSegments { page: usize, segment_bytes: u64, payload_len: u64 },
    /// An old-style JPEG page whose tables cannot be delimited.
    #[error("Page `{page}` is an old-style JPEG whose tag `{tag}` cannot be relocated")]
    OldJpegNotRelocatable { page: usize, tag: u16 },
    /// The page would not fit the offsets of its flavour.
    #[error("Page `{page}` does not fit the 32-bit offsets of its TIFF flavour")]
    PageTooLarge { page: usize },
    /// The driver gave fewer bytes than were asked for.
    #[error("Read at `{offset}` needs `{needed}` bytes, `{found}` were given")]
    ShortBytes { offset: u64, needed: u64, found: u64 },
    /// The driver stopped before the machine had what it needs.
    #[error("Read at `{offset}` of `{needed}` bytes is still needed")]
    Unfinished { offset: u64, needed: u64 },
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
