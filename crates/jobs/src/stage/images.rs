//! Fetches the bytes of images for the stages that read them.
//!
//! The invariant: an image is decoded only if the size that its header states
//! is within `max_decoded_bytes`.

use crate::Result;
use bytes::Bytes;
use shardmill_documents::Row;
use shardmill_documents::locate::{frame_error, note_read_error};
use shardmill_documents::payload::Payload;
use shardmill_documents::source_ref::SourceRef;
use shardmill_formats::limit::{DecodeLimit, TooLarge};
use shardmill_images::{extract_page, image_facts, tiff_index};

/// All filters and codecs see RGB of 8 bits.
const PIXEL_BYTES: u64 = 3;

/// The bytes of the row's image, fetched at most once: the sink finds them in memory. `None` for a
/// row without bytes, or with an error now.
///
/// # Errors
/// [`crate::Error::Storage`] when the store or the disk fails, which is not the fault of the row.
pub(crate) fn fetch(row: &mut Row) -> Result<Option<Bytes>> {
    match row.payload.fetch() {
        Ok(bytes) => Ok(bytes),
        Err(error) => {
            note_read_error(row, error)?;
            Ok(None)
        }
    }
}

/// The page that the row's locator names, of a TIFF in memory with several pages, as a TIFF
/// of its own; any other image as it is. `None` for a page that cannot be copied: the row
/// has an error now.
pub(crate) fn own_page(row: &mut Row, payload: Bytes) -> Option<Bytes> {
    if !(payload.starts_with(b"II") || payload.starts_with(b"MM")) {
        return Some(payload);
    }
    let frame = row.frame().filter(|frame| *frame > 0);
    // A TIFF that was copied for its row has one page, whatever number that had in its file.
    let Some(frame) = frame.filter(|_| tiff_index(&payload).is_ok_and(|index| index.len() > 1))
    else {
        return Some(payload);
    };
    let copy = usize::try_from(frame).ok().and_then(|page| extract_page(&payload, page).ok());
    if copy.is_none() {
        let source = SourceRef::parse(row.source_ref.as_deref()).unwrap_or_default();
        row.error = Some(frame_error(frame, &source.member.or(source.path).unwrap_or_default()));
        row.payload = Payload::Absent;
    }
    copy
}

/// Whether the row's image may be decoded; if not, the row has an error now.
pub(crate) fn is_decodable(row: &mut Row, payload: &[u8], limit: DecodeLimit) -> bool {
    // Without a valid header nothing is decoded; the stage says why.
    let Ok(facts) = image_facts(payload) else { return true };
    let decoded = u64::from(facts.stored.width) * u64::from(facts.stored.height) * PIXEL_BYTES;
    let source = SourceRef::parse(row.source_ref.as_deref()).unwrap_or_default();
    let place = || {
        source
            .member
            .as_ref()
            .map_or_else(|| "an image".to_owned(), |member| format!("member `{member}`"))
    };
    match limit.check(source.path.as_deref().unwrap_or_default(), decoded, "its pixels take", place)
    {
        Ok(()) => true,
        Err(refusal) => {
            row.error = Some(format!("{refusal}; {}", TooLarge::HINT));
            row.payload = Payload::Absent;
            false
        }
    }
}
