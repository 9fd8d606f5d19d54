//! Caches the decoded schema for the next files: those of a data set usually have the same one, and
//! decoding it is half of the work of opening a file.
//!
//! The invariant: files share a decoded schema only if its bytes are equal, including those of the
//! key-value metadata.

use super::thrift::FooterParts;
use arrow_schema::SchemaRef;
use parquet::schema::types::SchemaDescPtr;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, RwLock};

/// Number of data sets that can be opened in turns.
const KEPT: usize = 8;

/// Larger schemas are not cached.
const MAX_KEPT_BYTES: usize = 1 << 20;

static KNOWN: RwLock<Vec<Arc<Shape>>> = RwLock::new(Vec::new());

/// The forms of a schema.
#[derive(Debug)]
pub(super) struct Schemas {
    /// For the decoder, in place of the stored one.
    pub(super) descriptor: SchemaDescPtr,
    /// Types as the file declares them.
    pub(super) declared: SchemaRef,
    /// What the decoder is asked for: bytes where it would change values. The same as `declared` if
    /// it changes none.
    pub(super) decoded: SchemaRef,
}

/// A schema accepted by the decoder.
#[derive(Debug)]
pub(super) struct Shape {
    schema_bytes: Box<[u8]>,
    pair_bytes: Box<[u8]>,
    schemas: Schemas,
    /// With views in place of strings and binaries, once the decoder has accepted that as well.
    pub(super) views: OnceLock<SchemaRef>,
}

impl Shape {
    /// `None` while another thread holds the lock: a process forked meanwhile would wait forever.
    pub(super) fn known(parts: FooterParts<'_>) -> Option<Arc<Self>> {
        let known = KNOWN.try_read().ok()?;
        known
            .iter()
            .find(|shape| *shape.schema_bytes == *parts.schema && *shape.pair_bytes == *parts.pairs)
            .map(Arc::clone)
    }

    /// Kept for the next files, if `parts` are known.
    pub(super) fn new(parts: Option<FooterParts<'_>>, schemas: Schemas) -> Arc<Self> {
        let (schema_bytes, pair_bytes) =
            parts.map(|parts| (parts.schema.into(), parts.pairs.into())).unwrap_or_default();
        let shape = Arc::new(Self { schema_bytes, pair_bytes, schemas, views: OnceLock::new() });
        if parts.is_some_and(|parts| parts.schema.len() + parts.pairs.len() <= MAX_KEPT_BYTES)
            && let Ok(mut known) = KNOWN.try_write()
        {
            known.truncate(KEPT - 1);
            known.insert(0, Arc::clone(&shape));
        }
        shape
    }
}

impl Deref for Shape {
    type Target = Schemas;

    fn deref(&self) -> &Schemas {
        &self.schemas
    }
}
