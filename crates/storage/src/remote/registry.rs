//! The stores of this process and their options.
//!
//! Options belong to a root such as `s3://bucket` and to this process; objects opened below that
//! root use the latest ones.

use super::google;
use super::location::{Location, serve};
use super::options::StorageOptions;
use super::providers::FsspecFiles;
use super::service::Service;
use super::shared::Shared;
use super::store::{RemoteStore, RequestCounts};
use crate::local::append_list::AppendList;
use crate::secrets::hide_environment;
use crate::{Error, Result, Store};
use std::sync::Arc;

/// The latest options of a root come last.
static STORES: AppendList<Configured> = AppendList::new();

#[derive(Debug)]
struct Configured {
    root: String,
    options: StorageOptions,
    /// Configured with options, and not only used by path.
    is_named: bool,
    store: Arc<RemoteStore>,
}

fn latest(root: &str) -> Option<&'static Configured> {
    STORES.iter().filter(|configured| configured.root == root).last()
}

fn add(location: &Location, options: StorageOptions, is_named: bool) -> Result<Arc<RemoteStore>> {
    // The client reads these variables now, and its errors may quote them.
    hide_environment();
    let store = Arc::new(RemoteStore::new(location, &options)?);
    if options.files().is_some() {
        serve(&location.root);
    }
    STORES.push(Configured {
        root: location.root.clone(),
        options,
        is_named,
        store: Arc::clone(&store),
    });
    Ok(store)
}

/// Objects opened below the root of `path` from now on use these options. Objects that are already
/// open keep theirs.
///
/// # Errors
/// [`Error::Options`] for options that the store does not support; [`Error::UnsupportedScheme`] or
/// [`Error::Open`] for a path that is not remote.
pub fn configure(path: &str, options: StorageOptions) -> Result<()> {
    let location = if options.files().is_some() {
        Location::to_be_served(path)?
    } else {
        Location::parse(path)?
    };
    let known = latest(&location.root);
    if location.service == Service::Fsspec
        && known.is_some_and(|known| ids_differ(known.options.files(), options.files()))
    {
        // Open files are reopened by path, and would then be read from the other file system.
        return Err(Error::refused(
            path,
            format!("another file system serves {}/ in this process", location.root),
        )
        .of_options());
    }
    if options.files().is_some() && location.service != Service::Fsspec {
        return Err(Error::refused(
            path,
            "this scheme is served by a client of its own".to_owned(),
        )
        .of_options());
    }
    if known.is_none_or(|configured| configured.options != options || !configured.is_named) {
        add(&location, options, true).map_err(Error::of_options)?;
    }
    Ok(())
}

fn ids_differ(one: Option<&Arc<dyn FsspecFiles>>, other: Option<&Arc<dyn FsspecFiles>>) -> bool {
    one.map(|files| files.id()) != other.map(|files| files.id())
}

/// Whether the options of the root of `path` already include `options`. They may hold more, such as
/// keys, which are not stored or sent to other processes.
#[must_use]
pub fn is_reached_with(path: &str, options: &StorageOptions) -> bool {
    let Some(configured) = Location::parse(path).ok().and_then(|location| latest(&location.root))
    else {
        return false;
    };
    let pin = configured.store.commit().map(|commit| format!("{}={commit}", configured.root));
    options.iter().all(|(name, value)| match name {
        "revisions" => {
            pin.as_deref().is_some_and(|pin| value.split_whitespace().any(|pair| pair == pin))
        }
        name => configured.options.get(name) == Some(value),
    })
}

/// The commits of the Hub data sets below `paths`, as pairs of a root and a commit, for another
/// process that must read the same commits.
#[must_use]
pub fn pinned_revisions<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let pinned = |path: &str| {
        let location = Location::parse(path).ok()?;
        let commit = latest(&location.root)?.store.commit()?;
        Some((location.root, commit))
    };
    let mut found: Vec<_> = paths.into_iter().filter_map(pinned).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether the user passed options for the store of `path`.
pub(crate) fn is_named(path: &str) -> bool {
    Location::parse(path)
        .ok()
        .and_then(|location| latest(&location.root))
        .is_some_and(|configured| configured.is_named)
}

/// The options configured for the root of `path`.
#[must_use]
pub fn options_of(path: &str) -> Option<StorageOptions> {
    let location = Location::parse(path).ok()?;
    latest(&location.root).map(|configured| configured.options.clone())
}

/// The store that serves `path`, with the latest options for its root.
///
/// # Errors
/// [`Error::UnsupportedScheme`], and [`Error::Open`] for options that are not valid.
pub(crate) fn store_of(path: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(Shared(remote_store(path)?)))
}

/// As [`store_of`], for steps that only a store has.
///
/// # Errors
/// As [`store_of`].
pub(super) fn remote_store(path: &str) -> Result<Arc<RemoteStore>> {
    let location = Location::parse(path)?;
    let known = latest(&location.root);
    if location.service == Service::Gcs
        && known.is_none_or(|configured| !configured.is_named)
        && google::has_json_emulator()
    {
        // The variable may name another emulator by now, and the tests of array_record expect a
        // connection for each file that they open.
        hide_environment();
        return RemoteStore::new(&location, &StorageOptions::default()).map(Arc::new);
    }
    match known {
        Some(configured) => Ok(Arc::clone(&configured.store)),
        None => add(&location, StorageOptions::default(), false),
    }
}

/// The store that serves `path`, if it exists already.
#[must_use]
pub fn request_counts(path: &str) -> Option<RequestCounts> {
    remote_store(path).ok()?.request_counts()
}

/// To all stores of this process.
#[must_use]
pub fn total_request_counts() -> RequestCounts {
    STORES
        .iter()
        .filter_map(|configured| configured.store.request_counts())
        .fold(RequestCounts::default(), RequestCounts::plus)
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
    fn latest_options_of_a_root_hold_for_everything_below_it() {
        configure(
            "s3://of-a-test/x",
            options(&[("region", "eu-1"), ("key", "a"), ("secret", "b")]),
        )
        .unwrap();
        configure("s3://of-a-test", options(&[("region", "eu-2"), ("key", "a"), ("secret", "b")]))
            .unwrap();
        assert_eq!(
            options_of("s3://of-a-test/deep/below").unwrap().without_secrets(),
            options(&[("region", "eu-2")])
        );
        assert!(options_of("s3://of-a-test-2/x").is_none());
        assert!(
            is_reached_with("s3://of-a-test/x", &options(&[("region", "eu-2")]))
                && is_reached_with("s3://of-a-test/x", &options(&[]))
        );
        assert!(!is_reached_with("s3://of-a-test/x", &options(&[("region", "eu-1")])));
        assert!(
            !is_reached_with("s3://of-a-test/x", &options(&[("endpoint", "http://h")]))
                && !is_reached_with("s3://of-a-test-2/x", &options(&[]))
        );
        assert!(configure("/local", StorageOptions::default()).is_err());
        assert!(matches!(
            configure("s3://of-a-test", options(&[("colour", "red")])),
            Err(Error::Options { .. })
        ));
    }
}
