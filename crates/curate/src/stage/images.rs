//! Fetches the bytes of images for the stages that read them.
//!
//! The invariant: an image is decoded only if the size that its header states is within `max_decoded_bytes`.

use crate::Result;
use crate::chunk::Row;
use crate::locate::note_read_error;
use crate::payload::Payload;
use crate::source_ref::SourceRef;
use bytes::Bytes;
use shardmill_formats::limit::{DecodeLimit, TooLarge};
use shardmill_images::page_facts;

/// All filters and codecs see RGB of 8 bits.
const PIXEL_BYTES: u64 = 3;

/// The bytes of the row's image, fetched at most once: the sink finds them in memory. `None` for a row without bytes, or with an error now.
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

/// Whether page `page` of the row's image may be decoded; if not, the row has an error now.
pub(crate) fn is_decodable(row: &mut Row, payload: &[u8], page: usize, limit: DecodeLimit) -> bool {
    // Without a valid header nothing is decoded; the stage says why.
    let Ok(facts) = page_facts(payload, page) else { return true };
    let decoded = u64::from(facts.stored.width) * u64::from(facts.stored.height) * PIXEL_BYTES;
    let source = SourceRef::parse(row.source_ref.as_deref()).unwrap_or_default();
    let place = || source.member.as_ref().map_or_else(|| "an image".to_owned(), |member| format!("member `{member}`"));
    match limit.check(source.path.as_deref().unwrap_or_default(), decoded, "its pixels take", place) {
        Ok(()) => true,
        Err(refusal) => {
            row.error = Some(format!("{refusal}; {}", TooLarge::HINT));
            row.payload = Payload::Absent;
            false
        }
    }
}
