//! How a store is reached: endpoints, credentials, limits.
//!
//! The invariant: the value of an option that may be a secret is neither shown nor passed on,
//! except to the client of the store.

use super::providers::{CredentialSource, FsspecFiles};
use crate::local_path;
use crate::secrets::{hide, hide_in_url, is_harmless, redacted, shown as without_keys_in};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Names used by `fsspec` and its file systems.
const ALIASES: [(&str, &str); 3] =
    [("key", "access_key_id"), ("secret", "secret_access_key"), ("anon", "skip_signature")];

const MAX_REQUESTS: usize = 64;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const RETRY_TIMEOUT: Duration = Duration::from_mins(3);
const CACHE_BYTES: u64 = 64 << 30;

/// Named values, with the names of object_store and those of [`Limits`], and other settings.
#[derive(Clone, Default)]
pub struct StorageOptions {
    named: BTreeMap<String, String>,
    credentials: Option<Arc<dyn CredentialSource>>,
    files: Option<Arc<dyn FsspecFiles>>,
}

impl PartialEq for StorageOptions {
    fn eq(&self, other: &Self) -> bool {
        let ids = |options: &Self| {
            (
                options.credentials.as_ref().map(|source| source.id()),
                options.files.as_ref().map(|files| files.id()),
            )
        };
        self.named == other.named && ids(self) == ids(other)
    }
}

impl Eq for StorageOptions {}

/// Options for the client of a store.
pub(super) type Named<'a> = Vec<(&'a str, &'a str)>;

/// The options handled by this crate and not by the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    /// Concurrent requests of the whole process.
    pub(super) max_requests: usize,
    /// The longest time without a byte from the server.
    pub(super) request_timeout: Duration,
    /// For one read, with all retries.
    pub(super) retry_timeout: Duration,
    pub(super) cache_dir: Option<PathBuf>,
    pub(super) cache_bytes: u64,
    /// A profile in `~/.aws`.
    pub(super) profile: Option<String>,
}

impl StorageOptions {
    #[must_use]
    pub fn new(options: impl IntoIterator<Item = (String, String)>) -> Self {
        let renamed = |name: &str| {
            ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, name)| (*name).to_owned())
        };
        let named: BTreeMap<String, String> = options
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .map(|(name, value)| (renamed(&name).unwrap_or(name), value))
            .collect();
        for (name, value) in &named {
            // An address that is rejected because it contains keys would otherwise be quoted.
            hide_in_url(value);
            if !is_harmless(name) {
                hide(value);
            }
        }
        Self { named, ..Self::default() }
    }

    /// Sets a provider of credentials, instead of keys among the options.
    #[must_use]
    pub fn with_credentials(self, source: Arc<dyn CredentialSource>) -> Self {
        Self { credentials: Some(source), ..self }
    }

    /// Sets a file system that serves the scheme of the path.
    #[must_use]
    pub fn with_files(self, files: Arc<dyn FsspecFiles>) -> Self {
        Self { files: Some(files), ..self }
    }

    pub(super) fn credentials(&self) -> Option<&Arc<dyn CredentialSource>> {
        self.credentials.as_ref()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    pub(super) fn files(&self) -> Option<&Arc<dyn FsspecFiles>> {
        self.files.as_ref()
    }

    /// Only options that are certainly not secret, for storing or sending.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let is_plain = |value: &str| without_keys_in(value) == value;
        Self::new(
            self.named
                .iter()
                .filter(|(name, value)| is_harmless(name) && is_plain(value))
                .map(|(name, value)| (name.clone(), value.clone())),
        )
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.credentials.is_none() && self.files.is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn endpoint(&self) -> Option<&str> {
        self.iter().find(|(name, _)| is_harmless(name) && is_endpoint(name)).map(|(_, value)| value)
    }

    /// `text` without any value that may be secret, including values too short to search for in
    /// every message.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        let secrets =
            self.named.iter().filter(|(name, value)| !is_harmless(name) && value.len() > 3);
        secrets.fold(redacted(text), |text, (_, value)| text.replace(value.as_str(), "…"))
    }

    /// Splits the options into those of this crate and those for the client of the store.
    pub(super) fn split(&self) -> Result<(Limits, Named<'_>), String> {
        let mut limits = Limits::default();
        let mut others = Vec::new();
        for (name, value) in self.iter() {
            let unusable = || format!("the storage option `{name}` cannot be {value:?}");
            let seconds = || {
                value
                    .parse()
                    .ok()
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                    .filter(|time| !time.is_zero())
            };
            match name {
                "max_requests" => {
                    limits.max_requests = value
                        .parse()
                        .ok()
                        .filter(|most| (1..=4096).contains(most))
                        .ok_or_else(unusable)?;
                }
                "request_timeout" => limits.request_timeout = seconds().ok_or_else(unusable)?,
                "retry_timeout" => limits.retry_timeout = seconds().ok_or_else(unusable)?,
                "cache_dir" => {
                    limits.cache_dir = Some(local_directory(value).ok_or_else(unusable)?);
                }
                "cache_bytes" => limits.cache_bytes = value.parse().map_err(|_| unusable())?,
                "profile" => limits.profile = Some(value.to_owned()),
                _ if is_endpoint(name) && !is_address(value) => {
                    return Err(format!(
                        "the storage option `{name}` is an address such as `https://host:port`, \
                         without keys, not {:?}",
                        without_keys(value)
                    ));
                }
                _ => others.push((name, value)),
            }
        }
        Ok((limits, others))
    }
}

/// A local directory, possibly given as a file URL.
fn local_directory(value: &str) -> Option<PathBuf> {
    Some(PathBuf::from(local_path(value).ok()??.into_owned()))
}

/// Whether an option sets the endpoint.
pub(super) fn is_endpoint(name: &str) -> bool {
    name.contains("endpoint") || name.ends_with("base_url")
}

/// Whether a value is an address of a server with a scheme.
fn is_address(value: &str) -> bool {
    let is_plain = |url: &reqwest::Url| {
        url.username().is_empty() && url.password().is_none() && url.query().is_none()
    };
    reqwest::Url::parse(value).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain(&url)
    })
}

/// The part of a supposed address that may be shown.
pub(super) fn without_keys(value: &str) -> String {
    let value = value.split_once('?').map_or(value, |(address, _)| address);
    let (scheme, rest) = value.split_once("://").unwrap_or(("", value));
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}"),
        None => value.to_owned(),
    }
}

impl fmt::Debug for StorageOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |name: &str, value: &str| {
            if is_harmless(name) { without_keys_in(value) } else { "…".to_owned() }
        };
        formatter
            .debug_map()
            .entries(self.iter().map(|(name, value)| (name, shown(name, value))))
            .finish()
    }
}

impl Default for Limits {
    fn default() -> Self {
        let cache_dir = std::env::var_os("SHARDMILL_CACHE_DIR").filter(|dir| !dir.is_empty());
        // An invalid name is kept, and fails where it is used.
        let cache_dir = cache_dir.map(|dir| {
            dir.to_str().and_then(local_directory).unwrap_or_else(|| PathBuf::from(&dir))
        });
        Self {
            max_requests: MAX_REQUESTS,
            request_timeout: REQUEST_TIMEOUT,
            retry_timeout: RETRY_TIMEOUT,
            cache_dir,
            cache_bytes: CACHE_BYTES,
            profile: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> StorageOptions {
        StorageOptions::new(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn secret_is_neither_shown_nor_kept_nor_left_in_a_message() {
        let options = options(&[
            ("secret", "hunter2hunter2"),
            ("AWS_Session_Token", "tok-tok"),
            ("region", "eu-1"),
        ]);
        let shown = format!("{options:?}");
        assert!(
            !shown.contains("hunter2")
                && !shown.contains("tok-tok")
                && shown.contains("eu-1")
                && shown.contains("secret_access_key"),
            "{shown}"
        );
        assert_eq!(options.without_secrets().iter().collect::<Vec<_>>(), [("region", "eu-1")]);
        assert_eq!(options.scrubbed("bad hunter2hunter2 in eu-1"), "bad … in eu-1");
    }

    #[test]
    fn limits_are_ours_and_the_rest_is_the_stores() {
        let options =
            options(&[("max_requests", "3"), ("retry_timeout", "0.5"), ("region", "eu-1")]);
        let (limits, others) = options.split().unwrap();
        assert_eq!((limits.max_requests, limits.retry_timeout), (3, Duration::from_millis(500)));
        assert_eq!(others, [("region", "eu-1")]);
    }

    #[test]
    fn unusable_limit_is_named() {
        for (name, value) in [
            ("max_requests", "0"),
            ("max_requests", "many"),
            ("request_timeout", "-1"),
            ("retry_timeout", "0"),
            ("cache_bytes", "1.5"),
        ] {
            assert!(options(&[(name, value)]).split().unwrap_err().contains(name));
        }
    }

    #[test]
    fn address_with_keys_is_refused_without_them() {
        for value in [
            "https://account.host/?sv=1&sig=hunter2",
            "https://user:hunter2@host",
            "user:hunter2@host",
        ] {
            let what = options(&[("endpoint", value)]).split().unwrap_err();
            assert!(
                what.contains("endpoint") && what.contains("host") && !what.contains("hunter2"),
                "{what}"
            );
        }
    }
}
