//! Errors of images that cannot become pixels.
//!
//! Variants name the situation; [`Error::cause`] is the short word that ledgers count by.
//! Invariant: an error never contains bytes of the payload.

use std::fmt;

use shardmill_images::{ImageFormat, ImageSize};

/// What is wrong with an image, or with a request.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first bytes are not those of an image.
    #[error("Payload of `{payload_len}` bytes is not a recognized image")]
    UnknownFormat { payload_len: usize },
    /// The header contains no usable size.
    #[error("Header of the `{}` image is not valid: {source}", .format.mime())]
    Header {
        format: ImageFormat,
        #[source]
        source: shardmill_images::Error,
    },
    /// The header states more pixels than are allowed.
    #[error("Image of `{width}` x `{height}` has more than `{max_pixels}` pixels")]
    TooManyPixels { width: u32, height: u32, max_pixels: u64 },
    /// A side is longer than the limit of 65,535 pixels.
    #[error("Image of `{width}` x `{height}` has a side of more than 65,535 pixels")]
    SideTooLong { width: u32, height: u32 },
    /// The decoder asked for more memory, scans or chunks than it is given.
    #[error("Limit of the `{}` decoder exceeded: {message}", .format.mime())]
    DecoderLimit { format: ImageFormat, message: String },
    /// The payload ends before its pixels do.
    #[error("Truncated `{}` image: {message}", .format.mime())]
    Truncated { format: ImageFormat, message: String },
    /// The payload contradicts its format.
    #[error("Damaged `{}` image: {message}", .format.mime())]
    Damaged { format: ImageFormat, message: String },
    /// The format, or a variant of it, is not decoded.
    #[error("Unsupported `{}` image: {message}", .format.mime())]
    Unsupported { format: ImageFormat, message: String },
    /// The TIFF has fewer pages, or the format has none.
    #[error("Page `{page}` of the `{}` image does not exist", .format.mime())]
    NoSuchPage { format: ImageFormat, page: usize },
    /// The decoder panicked.
    #[error("Decoder of `{}` panicked: {message}", .format.mime())]
    Panicked { format: ImageFormat, message: String },
    /// The decoder could not be created, or failed for a reason other than the payload.
    #[error("Decoder of `{}` failed: {message}", .format.mime())]
    Decoder { format: ImageFormat, message: String },
    /// The pixels cannot be stored in a format.
    #[error("Image cannot be encoded as `{}`: {message}", .format.mime())]
    Encoder { format: ImageFormat, message: String },
    /// The decoder found another size than the header states.
    #[error(
        "Header states a size of `{}` x `{}`, but the decoder found `{}` x `{}`",
        .stated.width, .stated.height, .decoded.width, .decoded.height
    )]
    SizeDiffers { stated: ImageSize, decoded: ImageSize },
    /// The image and what is asked for do not go together.
    #[error(transparent)]
    Shape(#[from] crate::raster::ShapeError),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The word by which bad images are counted.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    UnknownFormat,
    Limit,
    Truncated,
    Damaged,
    Unsupported,
    Decoder,
    Size,
}

impl Cause {
    /// As in reports and ledgers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownFormat => "unknown format",
            Self::Limit => "limit",
            Self::Truncated => "truncated",
            Self::Damaged => "damaged",
            Self::Unsupported => "unsupported",
            Self::Decoder => "decoder",
            Self::Size => "size",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Error {
    /// The word by which this error is counted.
    #[must_use]
    pub fn cause(&self) -> Cause {
        use shardmill_images::Error::{DirectoryOutOfFile, TruncatedHeader};
        match self {
            Self::UnknownFormat { .. } => Cause::UnknownFormat,
            Self::TooManyPixels { .. } | Self::SideTooLong { .. } | Self::DecoderLimit { .. } => {
                Cause::Limit
            }
            Self::Header { source: TruncatedHeader { .. } | DirectoryOutOfFile { .. }, .. }
            | Self::Truncated { .. } => Cause::Truncated,
            Self::Header { .. } | Self::Damaged { .. } | Self::NoSuchPage { .. } => Cause::Damaged,
            Self::Unsupported { .. } => Cause::Unsupported,
            Self::Panicked { .. } | Self::Decoder { .. } | Self::Encoder { .. } => Cause::Decoder,
            Self::SizeDiffers { .. } | Self::Shape(_) => Cause::Size,
        }
    }

    pub(crate) fn from_header(format: ImageFormat, source: shardmill_images::Error) -> Self {
        match source {
            shardmill_images::Error::PageBeyondEnd { page, .. } => {
                Self::NoSuchPage { format, page }
            }
            source => Self::Header { format, source },
        }
    }

    /// The same error, of a TIFF that contains the JPEG.
    pub(crate) fn in_tiff(self) -> Self {
        let format = ImageFormat::Tiff;
        match self {
            Self::Truncated { message, .. } => Self::Truncated { format, message },
            Self::Damaged { message, .. } => Self::Damaged { format, message },
            Self::Unsupported { message, .. } => Self::Unsupported { format, message },
            Self::DecoderLimit { message, .. } => Self::DecoderLimit { format, message },
            other => other,
        }
    }

    pub(crate) fn truncated(format: ImageFormat, message: impl Into<Text>) -> Self {
        Self::Truncated { format, message: message.into().0 }
    }

    pub(crate) fn damaged(format: ImageFormat, message: impl Into<Text>) -> Self {
        Self::Damaged { format, message: message.into().0 }
    }

    pub(crate) fn unsupported(format: ImageFormat, message: impl Into<Text>) -> Self {
        Self::Unsupported { format, message: message.into().0 }
    }

    pub(crate) fn limit(format: ImageFormat, message: impl Into<Text>) -> Self {
        Self::DecoderLimit { format, message: message.into().0 }
    }

    pub(crate) fn encoder(format: ImageFormat, message: impl Into<Text>) -> Self {
        Self::Encoder { format, message: message.into().0 }
    }

    pub(crate) fn decoder(format: ImageFormat, message: impl Into<Text>) -> Self {
        Self::Decoder { format, message: message.into().0 }
    }
}

/// What a decoder says, as text.
pub(crate) struct Text(String);

impl<T: fmt::Display> From<T> for Text {
    fn from(message: T) -> Self {
        Self(message.to_string())
    }
}
