//! By what whoever made an object knows it again.
//!
//! A request may have been done though its answer was lost; made again, it finds an object there. Its token, which nobody else has, stands in the object's
//! metadata and tells whether that is its own work.

use object_store::{Attribute, Attributes, GetOptions};

/// Of letters only: S3 and Google take more, Azure takes names of C#.
const NAME: &str = "shardmillwriter";

#[derive(Debug, Clone)]
pub(super) struct Token(String);

impl Token {
    pub(super) fn new() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub(super) fn attributes(&self) -> Attributes {
        [(Attribute::Metadata(NAME.into()), self.0.clone())].into_iter().collect()
    }

    pub(super) fn is_of(&self, attributes: &Attributes) -> bool {
        attributes.get(&Attribute::Metadata(NAME.into())).is_some_and(|token| token.as_ref() == self.0)
    }
}

/// Asks for metadata with the attributes.
pub(super) fn head_only() -> GetOptions {
    GetOptions { head: true, ..GetOptions::default() }
}
