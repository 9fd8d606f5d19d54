//! The location of an object: its store, and its key there.

use super::hub::Address;
use super::keys;
use super::service::Service;
use crate::local::append_list::AppendList;
use crate::secrets::{has_keys, hide_in_url};
use crate::{Error, Result};
use object_store::path::Path;
use std::io;

/// `s3://bucket/a/b` is the key `a/b` below the root `s3://bucket`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) service: Service,
    pub(super) root: String,
    /// Without a leading slash.
    pub(super) key: String,
}

pub(crate) fn is_remote(path: &str) -> bool {
    path.split_once("://").is_some_and(|(scheme, _)| Service::of(scheme).is_some())
        || fsspec(path).is_some_and(|place| is_served(&place.root))
}

/// Roots that fsspec file systems serve in this process.
static SERVED: AppendList<String> = AppendList::new();

pub(super) fn serve(root: &str) {
    if !is_served(root) {
        SERVED.push(root.to_owned());
    }
}

fn is_served(root: &str) -> bool {
    SERVED.iter().any(|served| served == root)
}

/// A location of a scheme that only an fsspec file system serves. Its root has no bucket, and an
/// absolute path keeps its slash.
fn fsspec(path: &str) -> Option<Location> {
    let (scheme, rest) = path.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme != "file"
        && Service::of(scheme).is_none();
    let key = rest.strip_prefix('/');
    let root = if key.is_some() { format!("{scheme}://") } else { format!("{scheme}:/") };
    is_scheme.then(|| Location {
        service: Service::Fsspec,
        root,
        key: key.unwrap_or(rest).to_owned(),
    })
}

/// A signed address is as sensitive as a key: it would be stored and sent with the path.
fn refuse_keys(path: &str) -> Result<()> {
    if !has_keys(path) {
        return Ok(());
    }
    hide_in_url(path);
    let what = "a path must not contain keys, tokens or signatures; pass credentials \
        in storage_options or the environment, or download the file";
    Err(Error::refused(path, what.to_owned()))
}

impl Location {
    /// As [`Location::parse`], but accepts schemes that no file system serves yet.
    ///
    /// # Errors
    /// As [`Location::parse`].
    pub(super) fn to_be_served(path: &str) -> Result<Self> {
        refuse_keys(path)?;
        fsspec(path).map_or_else(|| Self::parse(path), Ok)
    }

    /// # Errors
    /// [`Error::UnsupportedScheme`], and [`Error::Open`] for a path without a bucket.
    pub(super) fn parse(path: &str) -> Result<Self> {
        let invalid = |what: &str| Error::Open {
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidInput, what.to_owned()),
        };
        refuse_keys(path)?;
        let (scheme, rest) = path.split_once("://").unwrap_or_default();
        let Some(service) = Service::of(scheme) else {
            let served = fsspec(path).filter(|place| is_served(&place.root));
            return served.ok_or_else(|| Error::UnsupportedScheme {
                path: path.to_owned(),
                scheme: scheme.to_owned(),
            });
        };
        if service == Service::Hub {
            let (len, _) = Address::parse(rest).map_err(|what| invalid(&what))?;
            let (root, key) = rest.split_at_checked(len).unwrap_or((rest, ""));
            return Ok(Self {
                service,
                root: format!("{scheme}://{root}"),
                key: key.trim_start_matches('/').to_owned(),
            });
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(invalid("it names no bucket; write it as s3://bucket/directory/file"));
        }
        if service == Service::Http && path.contains('?') {
            // A signed address is as sensitive as a key, so it is not shown.
            let what = "addresses with a query, such as signed ones, are not read; \
                name the bucket and its credentials, or fetch the file";
            return Err(Error::refused(path, what.to_owned()));
        }
        if service == Service::Http && bucket.contains('@') {
            return Err(Error::refused(path, "a path must not contain credentials".to_owned()));
        }
        Ok(Self { service, root: format!("{scheme}://{bucket}"), key: key.to_owned() })
    }

    /// The key in the client's form.
    ///
    /// # Errors
    /// [`Error::Open`] for a key that is not valid for objects.
    pub(super) fn object(&self) -> Result<Path> {
        // HTTP paths are used as they appear in the address.
        let parsed = if self.service == Service::Http {
            Path::from_url_path(&self.key)
        } else {
            Path::parse(&self.key)
        };
        parsed.map_err(|error| Error::Open {
            path: self.path_of(&self.key),
            source: io::Error::new(io::ErrorKind::InvalidInput, error.to_string()),
        })
    }

    /// As [`Location::object`], for reading: a key with empty segments is used as it is.
    ///
    /// # Errors
    /// As [`Location::object`].
    pub(super) fn existing(&self) -> Result<Path> {
        if self.service == Service::Http {
            return self.object();
        }
        keys::literal(&self.key).or_else(|_| self.object())
    }

    /// The data set that the root names.
    pub(super) fn hub(&self) -> std::result::Result<Address, String> {
        Address::parse(self.root.split_once("://").map_or("", |(_, rest)| rest))
            .map(|(_, address)| address)
    }

    /// The path of a key as the user would write it.
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
        assert_eq!(
            (location.root.as_str(), location.key.as_str()),
            ("s3://bucket", "a/b c%20.parquet")
        );
        assert_eq!(location.object().unwrap().as_ref(), "a/b c%20.parquet");
        assert_eq!(
            Location::parse("https://host:80/a%20b").unwrap().object().unwrap().as_ref(),
            "a b"
        );
        assert_eq!(Location::parse("gs://bucket").unwrap().key, "");
        let hub = Location::parse("hf://datasets/o/n@refs/pr/1/a/b.parquet").unwrap();
        assert_eq!(
            (hub.root.as_str(), hub.key.as_str()),
            ("hf://datasets/o/n@refs/pr/1", "a/b.parquet")
        );
        assert_eq!(hub.path_of("a"), "hf://datasets/o/n@refs/pr/1/a");
    }

    #[test]
    fn signed_address_is_refused_and_its_signature_is_not_shown() {
        let error = Location::parse("https://host/a.parquet?signature=hunter2").unwrap_err();
        assert!(matches!(
            &error,
            Error::Open { path, .. } if path == "https://host/a.parquet?signature=…"
        ));
        assert!(!format!("{error:?}").contains("hunter2"));
        for path in [
            "https://name:hunter2@host/x",
            "https://host?sig=hunter2@b",
            "https://name:hunter2@host/x?y",
        ] {
            let error = Location::parse(path).unwrap_err();
            assert!(!format!("{error:?}{error}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn location_in_a_file_system_has_no_bucket() {
        for (path, root, key) in [
            ("mem://a/b", "mem:/", "a/b"),
            ("mem:///a/b", "mem://", "a/b"),
            ("mem://", "mem:/", ""),
        ] {
            let place = Location::to_be_served(path).unwrap();
            assert_eq!((place.root.as_str(), place.key.as_str()), (root, key));
            assert_eq!(
                place.path_of(key),
                if key.is_empty() { "mem://".to_owned() } else { path.to_owned() }
            );
            assert!(
                matches!(Location::parse(path), Err(Error::UnsupportedScheme { .. }))
                    && !is_remote(path)
            );
        }
        assert!(
            Location::to_be_served("file:///a").is_err()
                && Location::to_be_served("C://a").is_err()
                && Location::to_be_served("a").is_err()
        );
    }

    #[test]
    fn path_without_a_bucket_or_with_a_password_is_refused_and_not_shown() {
        assert!(
            Location::parse("s3://").is_err()
                && Location::parse("s3:///key").is_err()
                && Location::parse("ftp://host/x").is_err()
        );
        let error = Location::parse("https://name:secret@host/x").unwrap_err();
        assert!(
            std::error::Error::source(&error)
                .is_some_and(|source| !source.to_string().contains("secret"))
        );
    }
}
