//! Marks an object with a token by which its writer recognizes it.
//!
//! A request may have succeeded although its response was lost; when it is repeated, it finds an
//! object. The object's metadata holds a token that is unique to the writer, and tells whether the
//! object is its own.

use object_store::{Attribute, Attributes, GetOptions};

/// Letters only: S3 and Google allow more, Azure requires C# identifiers.
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
        attributes
            .get(&Attribute::Metadata(NAME.into()))
            .is_some_and(|token| token.as_ref() == self.0)
    }
}

/// Requests metadata with the attributes.
pub(super) fn head_only() -> GetOptions {
    GetOptions { head: true, ..GetOptions::default() }
}
