//! Options for reading documents of which each is one row, or one line.

use super::layout::DocumentKeys;
use crate::schema::{RESCUED, is_reserved, refuse_reserved};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_formats::limit::DecodeLimit;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordOptions {
    /// Passthrough columns; `None` takes all.
    pub fields: Option<Vec<String>>,
    pub max_batch_bytes: Option<u64>,
    /// Memory limit for one page, document or image; the default of the process if `None`.
    #[serde(default)]
    pub max_decoded_bytes: Option<u64>,
    #[serde(default)]
    pub keys: DocumentKeys,
}

impl RecordOptions {
    pub fn limit(&self) -> DecodeLimit {
        self.max_decoded_bytes.map(DecodeLimit::new).unwrap_or_default()
    }

    /// # Errors
    /// [`Error::ReservedFields`], and [`Error::Option`] for a limit of zero.
    pub fn check(&self) -> Result<()> {
        // Reserved columns are always read; naming them is not an error.
        let extras: Vec<String> = self
            .fields
            .iter()
            .flatten()
            .filter(|name| !is_reserved(name) && *name != RESCUED)
            .cloned()
            .collect();
        refuse_reserved(&extras, &[])?;
        refuse_reserved(&self.keys.per_image_fields, &[])?;
        match self.max_batch_bytes {
            Some(0) => Err(Error::Option {
                option: "max_batch_bytes",
                problem: "must be positive".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether a field that is not content becomes a column.
    pub(super) fn is_selected(&self, name: &str) -> bool {
        self.fields.as_ref().is_none_or(|fields| fields.iter().any(|field| field == name))
    }
}
