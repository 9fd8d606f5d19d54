//! Stores images in another codec.
//!
//! The one stage of this crate that changes pixels. The invariant: a row keeps its bytes or gets
//! whole new ones; an image that cannot be decoded has an error in their place.

use crate::Result;
use crate::stage::images::{fetch, is_decodable, own_page};
use serde::{Deserialize, Serialize};
use shardmill_documents::payload::Payload;
use shardmill_documents::{Chunk, Modality, Row};
use shardmill_formats::limit::DecodeLimit;
use shardmill_images::ImageFormat;
use shardmill_pixels::{Codec, Error as PixelError, Reencode, Reencoder};
use std::cell::RefCell;

thread_local! {
    /// Keeps its buffers from image to image.
    static REENCODER: RefCell<Reencoder> = RefCell::default();
}

/// Stores images as JPEG or PNG, upright and at most so large.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReencodeImages {
    pub name: String,
    pub codec: NativeCodec,
    /// Of JPEG.
    pub quality: u8,
    pub max_side: Option<usize>,
}

/// A format that is written without Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NativeCodec {
    Jpeg,
    Png,
}

impl ReencodeImages {
    pub(crate) fn apply(&self, chunk: &mut Chunk, limit: DecodeLimit) -> Result<()> {
        let codec = match self.codec {
            NativeCodec::Jpeg => Codec::Jpeg { quality: self.quality },
            NativeCodec::Png => Codec::Png,
        };
        let wanted = Reencode { codec, max_side: self.max_side };
        for row in chunk
            .rows
            .iter_mut()
            .filter(|row| row.modality == Modality::Image && row.error.is_none())
        {
            reencode(row, wanted, limit)?;
        }
        Ok(())
    }
}

/// The text for an image that cannot be stored in the codec.
fn failure(error: &PixelError) -> String {
    match error {
        PixelError::Encoder { .. } => format!("failed to encode image: {error}"),
        // The message names the format, which has no MIME type here.
        PixelError::Unsupported { format: ImageFormat::Avif | ImageFormat::Other, message } => {
            format!("failed to decode image: {message}")
        }
        _ => format!("failed to decode image: {error}"),
    }
}

fn reencode(row: &mut Row, wanted: Reencode, limit: DecodeLimit) -> Result<()> {
    let Some(payload) = fetch(row)?.and_then(|bytes| own_page(row, bytes)) else { return Ok(()) };
    if !is_decodable(row, &payload, limit) {
        return Ok(());
    }
    match REENCODER.with_borrow_mut(|reencoder| reencoder.reencode(&payload, wanted)) {
        Ok(Some(changed)) => row.payload = Payload::Memory(changed.into()),
        Ok(None) => {}
        Err(error) => {
            row.payload = Payload::Absent;
            row.error = Some(failure(&error));
            return Ok(());
        }
    }
    row.content_type = Some(wanted.codec.format().mime().to_owned());
    Ok(())
}
