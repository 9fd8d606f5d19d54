//! Options for reading WebDataset shards, and the meaning of the keys of their JSON.

use crate::schema::refuse_reserved;
use crate::source::keys::SampleKeys;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_formats::limit::DecodeLimit;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebDatasetOptions {
    /// Passthrough keys; `None` takes all.
    pub fields: Option<Vec<String>>,
    pub per_image_fields: Vec<String>,
    pub per_text_fields: Vec<String>,
    pub keys: SampleKeys,
    /// Read concatenated tars to their last member.
    #[serde(default)]
    pub ignore_zeros: bool,
    pub max_batch_bytes: Option<u64>,
    pub materialize_on_read: bool,
    /// Memory limit for one page, document or image; the default of the process if `None`.
    #[serde(default)]
    pub max_decoded_bytes: Option<u64>,
}

impl WebDatasetOptions {
    /// # Errors
    /// [`Error::ReservedFields`], and [`Error::Option`] for a limit of zero.
    pub fn check(&self) -> Result<()> {
        let excluded: Vec<&str> = self.consumed().collect();
        refuse_reserved(self.fields.as_deref().unwrap_or_default(), &excluded)?;
        let excluded: Vec<&str> = self.structural().collect();
        refuse_reserved(&self.per_image_fields, &excluded)?;
        refuse_reserved(&self.per_text_fields, &excluded)?;
        match self.max_batch_bytes {
            Some(0) => Err(Error::Option {
                option: "max_batch_bytes",
                problem: "must be positive".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    pub fn limit(&self) -> DecodeLimit {
        self.max_decoded_bytes.map(DecodeLimit::new).unwrap_or_default()
    }

    /// Keys that define the structure of the document.
    fn structural(&self) -> impl Iterator<Item = &str> {
        let keys = &self.keys;
        [
            Some(&keys.texts_field),
            Some(&keys.images_field),
            keys.sample_id_field.as_ref(),
            keys.image_member_field.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(String::as_str)
    }

    /// Keys with a meaning of their own, which are not passed through.
    fn consumed(&self) -> impl Iterator<Item = &str> {
        self.structural()
            .chain(self.per_image_fields.iter().chain(&self.per_text_fields).map(String::as_str))
    }

    /// Whether a key with this name becomes a column of the sample.
    pub(crate) fn is_passed(&self, key: &str) -> bool {
        self.fields.as_ref().is_none_or(|fields| fields.iter().any(|field| field == key))
            && !self.is_consumed(key)
    }

    pub(crate) fn is_consumed(&self, key: &str) -> bool {
        self.consumed().any(|consumed| consumed == key)
    }
}
