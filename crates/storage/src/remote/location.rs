//! Where an object is: the store that holds it, and its key there.

use crate::{Error, Result};
use object_store::path::Path;
use std::io;

/// What a scheme stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    S3,
    Gcs,
    Azure,
    Http,
}

impl Service {
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" | "s3a" => Some(Self::S3),
            "gs" | "gcs" => Some(Self::Gcs),
            "az" | "azure" | "adl" | "abfs" | "abfss" => Some(Self::Azure),
            "http" | "https" => Some(Self::Http),
            _ => None,
        }
    }
}

/// `s3://bucket/a/b` is the key `a/b` below the root `s3://bucket`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) service: Service,
    pub(super) root: String,
    /// Without a slash at its start.
    pub(super) key: String,
}

pub(crate) fn is_remote(path: &str) -> bool {
    path.split_once("://").is_some_and(|(scheme, _)| Service::of(scheme).is_some())
}

impl Location {
    /// # Errors
    /// [`Error::UnsupportedScheme`], and [`Error::Open`] for a path without a bucket.
    pub(super) fn parse(path: &str) -> Result<Self> {
        let invalid = |what: &str| Error::Open { path: path.to_owned(), source: io::Error::new(io::ErrorKind::InvalidInput, what.to_owned()) };
        let (scheme, rest) = path.split_once("://").unwrap_or_default();
        let Some(service) = Service::of(scheme) else {
            return Err(Error::UnsupportedScheme { path: path.to_owned(), scheme: scheme.to_owned() });
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(invalid("the path names no bucket: it looks like s3://bucket/folder/file"));
        }
        if service == Service::Http && bucket.contains('@') {
            return Err(invalid("credentials do not belong into a path"));
        }
        Ok(Self { service, root: format!("{scheme}://{bucket}"), key: key.to_owned() })
    }

    /// The key as the client wants it.
    ///
    /// # Errors
    /// [`Error::Open`] for a key that no object can have.
    pub(super) fn object(&self) -> Result<Path> {
        // A path of HTTP is written as it stands in the address.
        let parsed = if self.service == Service::Http { Path::from_url_path(&self.key) } else { Path::parse(&self.key) };
        parsed.map_err(|error| Error::Open { path: self.path_of(&self.key), source: io::Error::new(io::ErrorKind::InvalidInput, error.to_string()) })
    }

    /// How the user would write a key of this store.
    pub(super) fn path_of(&self, key: &str) -> String {
        format!("{}/{key}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_a_root_and_a_key() {
        let location = Location::parse("s3://bucket/a/b c%20.parquet").unwrap();
        assert_eq!((location.root.as_str(), location.key.as_str()), ("s3://bucket", "a/b c%20.parquet"));
        assert_eq!(location.object().unwrap().as_ref(), "a/b c%20.parquet");
        assert_eq!(Location::parse("https://host:80/a%20b").unwrap().object().unwrap().as_ref(), "a b");
        assert_eq!(Location::parse("gs://bucket").unwrap().key, "");
    }

    #[test]
    fn path_without_a_bucket_or_with_a_password_is_refused_and_not_shown() {
        assert!(Location::parse("s3://").is_err() && Location::parse("s3:///key").is_err() && Location::parse("ftp://host/x").is_err());
        let error = Location::parse("https://name:secret@host/x").unwrap_err();
        assert!(std::error::Error::source(&error).is_some_and(|source| !source.to_string().contains("secret")));
    }
}
