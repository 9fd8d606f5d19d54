//! Tag and type numbers, and those with a special meaning for a copy.
//!
//! Invariant: a tag that is named by no function here is copied unchanged.

pub(crate) const NEW_SUBFILE_TYPE: u16 = 254;
pub(crate) const SUBFILE_TYPE: u16 = 255;
pub(crate) const WIDTH: u16 = 256;
pub(crate) const HEIGHT: u16 = 257;
pub(crate) const BITS_PER_SAMPLE: u16 = 258;
pub(crate) const COMPRESSION: u16 = 259;
pub(crate) const PHOTOMETRIC: u16 = 262;
pub(crate) const STRIP_OFFSETS: u16 = 273;
pub(crate) const ORIENTATION: u16 = 274;
pub(crate) const SAMPLES_PER_PIXEL: u16 = 277;
pub(crate) const STRIP_BYTE_COUNTS: u16 = 279;
pub(crate) const PLANAR_CONFIG: u16 = 284;
pub(crate) const FREE_OFFSETS: u16 = 288;
pub(crate) const FREE_BYTE_COUNTS: u16 = 289;
pub(crate) const PAGE_NUMBER: u16 = 297;
pub(crate) const TILE_OFFSETS: u16 = 324;
pub(crate) const TILE_BYTE_COUNTS: u16 = 325;
pub(crate) const SUB_IFDS: u16 = 330;
pub(crate) const GLOBAL_PARAMETERS_IFD: u16 = 400;
pub(crate) const JPEG_INTERCHANGE: u16 = 513;
pub(crate) const JPEG_INTERCHANGE_LENGTH: u16 = 514;
pub(crate) const JPEG_Q_TABLES: u16 = 519;
pub(crate) const JPEG_DC_TABLES: u16 = 520;
pub(crate) const JPEG_AC_TABLES: u16 = 521;
pub(crate) const XMP: u16 = 700;
pub(crate) const EXIF_IFD: u16 = 34665;
pub(crate) const GPS_IFD: u16 = 34853;
pub(crate) const INTEROP_IFD: u16 = 40965;

pub(crate) const UNCOMPRESSED: u64 = 1;
pub(crate) const OLD_JPEG: u64 = 6;
pub(crate) const YCBCR: u64 = 6;

pub(crate) const SHORT: u16 = 3;
pub(crate) const LONG: u16 = 4;
pub(crate) const IFD: u16 = 13;
pub(crate) const LONG8: u16 = 16;
pub(crate) const IFD8: u16 = 18;

/// Size of one value; `None` for a type that is not defined in TIFF.
pub(crate) fn kind_len(kind: u16) -> Option<u64> {
    match kind {
        1 | 2 | 6 | 7 => Some(1),
        3 | 8 => Some(2),
        4 | 9 | 11 | 13 => Some(4),
        5 | 10 | 12 | 16 | 17 | 18 => Some(8),
        _ => None,
    }
}

/// The types in which writers store file offsets.
pub(crate) fn is_offset_kind(kind: u16) -> bool {
    matches!(kind, SHORT | LONG | IFD | LONG8 | IFD8)
}

/// Nested directories that are copied with a page.
pub(crate) fn is_nested_directory(tag: u16) -> bool {
    matches!(tag, EXIF_IFD | GPS_IFD | INTEROP_IFD)
}

/// Tags that describe the multi-page file or refer to parts that are not copied.
pub(crate) fn is_dropped(tag: u16) -> bool {
    matches!(
        tag,
        NEW_SUBFILE_TYPE
            | SUBFILE_TYPE
            | PAGE_NUMBER
            | FREE_OFFSETS
            | FREE_BYTE_COUNTS
            | SUB_IFDS
            | GLOBAL_PARAMETERS_IFD
    )
}

/// Old-style JPEG tags with file offsets.
pub(crate) fn is_old_jpeg_pointer(tag: u16) -> bool {
    matches!(
        tag,
        JPEG_INTERCHANGE
            | JPEG_INTERCHANGE_LENGTH
            | JPEG_Q_TABLES
            | JPEG_DC_TABLES
            | JPEG_AC_TABLES
    )
}

/// Without these the pixels or their meaning change, so an unreadable value rejects the page; other
/// unreadable tags are dropped, as readers drop them when they read the source page.
pub(crate) fn is_needed_for_decoding(tag: u16) -> bool {
    matches!(
        tag,
        256..=259
            | 262
            | 266
            | 273
            | 274
            | 277..=279
            | 284
            | 292
            | 293
            | 317
            | 320
            | 322..=325
            | 338
            | 339
            | 347
            | 512..=521
            | 529..=532
            | 34675
    )
}
