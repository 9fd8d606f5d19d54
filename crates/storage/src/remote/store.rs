//! The objects below one root.

use super::client::Client;
use super::failure::{Operation, error_of, failed};
use super::google;
use super::keys;
use super::location::Location;
use super::options::{Limits, StorageOptions};
use super::runtime;
use super::service::Service;
use crate::bytes::cache::Cache;
use crate::process::PerProcess;
use crate::{Error, Result};
use futures_util::StreamExt;
use object_store::ObjectMeta;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// For how long metadata from a listing is used when a listed object is opened.
const LISTED_FOR: Duration = Duration::from_secs(30);
const MAX_LISTED: usize = 1 << 20;

/// Read along, rather than asked for apart: at 100 MB/s this takes as long as the first byte of
/// another answer.
const GAP: u64 = 1 << 20;
/// The tests of array_record expect one request for records that are so far apart.
const GAP_OF_EMULATOR: u64 = 4 << 20;

/// What a listing told, with when.
type Listed = HashMap<String, (ObjectMeta, Instant)>;

/// Reads and writes objects below one root.
pub struct RemoteStore {
    location: Location,
    pub(super) options: StorageOptions,
    limits: Limits,
    client: PerProcess<std::result::Result<Client, String>>,
    /// The resolved commit of a Hub data set; processes that are forked later inherit it.
    commit: Arc<OnceLock<String>>,
    cache: OnceLock<Arc<Cache>>,
    /// Never waited for.
    listed: Mutex<Listed>,
    /// Bytes of small objects that are held in memory.
    pub(super) kept: Arc<AtomicU64>,
    pub(super) gap: u64,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RemoteStore")
            .field("root", &self.location.root)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Counts of requests of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    pub requests: u64,
    /// Sent a second time because the first response was late.
    pub hedged: u64,
    /// Sent again because the previous attempt failed.
    pub retries: u64,
    pub bytes: u64,
    /// Ranges that were read from the disk cache.
    pub cache_hits: u64,
    /// Ranges that the disk cache did not have.
    pub cache_misses: u64,
}

impl RequestCounts {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            hedged: self.hedged + other.hedged,
            retries: self.retries + other.retries,
            bytes: self.bytes + other.bytes,
            cache_hits: self.cache_hits + other.cache_hits,
            cache_misses: self.cache_misses + other.cache_misses,
        }
    }
}

impl RemoteStore {
    /// # Errors
    /// [`Error::Open`] for an option that is not valid.
    pub(super) fn new(location: &Location, options: &StorageOptions) -> Result<Self> {
        let (limits, _) = options.split().map_err(|what| Error::refused(&location.root, what))?;
        let is_emulated = location.service == Service::Gcs && google::has_json_emulator();
        let location = Location { key: String::new(), ..location.clone() };
        let store = Self {
            location,
            options: options.clone(),
            limits,
            client: PerProcess::new(),
            commit: Arc::default(),
            cache: OnceLock::new(),
            listed: Mutex::default(),
            kept: Arc::default(),
            gap: if is_emulated { GAP_OF_EMULATOR } else { GAP },
        };
        store.client()?;
        store.cache()?;
        Ok(store)
    }

    /// `None` if nothing was requested yet: reading counters makes no client.
    pub(super) fn request_counts(&self) -> Option<RequestCounts> {
        let counts = &self.client.get()?.as_ref().ok()?.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (cache_hits, cache_misses) =
            self.cache.get().map_or((0, 0), |cache| cache.hits_and_misses());
        Some(RequestCounts {
            requests: count(&counts.requests),
            hedged: count(&counts.repeated),
            retries: count(&counts.retried),
            bytes: count(&counts.bytes),
            cache_hits,
            cache_misses,
        })
    }

    pub(super) fn client(&self) -> Result<&Client> {
        let made =
            self.client.get_or_make(|| Client::new(&self.location, &self.options, &self.commit));
        made.as_ref().map_err(|what| Error::refused(&self.location.root, what.clone()))
    }

    pub(super) fn is_http(&self) -> bool {
        self.location.service == Service::Http
    }

    /// The pinned commit of a Hub data set.
    pub(super) fn commit(&self) -> Option<String> {
        self.commit.get().cloned()
    }

    /// How long a request is retried.
    pub(super) fn patience(&self) -> Duration {
        self.limits.retry_timeout
    }

    /// The disk cache, if one is configured.
    pub(super) fn cache(&self) -> Result<Option<&Arc<Cache>>> {
        let Some(directory) = &self.limits.cache_dir else { return Ok(None) };
        if let Some(cache) = self.cache.get() {
            return Ok(Some(cache));
        }
        let opened = Cache::open(directory, self.limits.cache_bytes)?;
        Ok(Some(self.cache.get_or_init(|| opened)))
    }

    /// Metadata of an object from a recent listing.
    pub(super) fn listed(&self, key: &str) -> Option<ObjectMeta> {
        let (meta, at) = self.listed.try_lock().ok()?.remove(key)?;
        (at.elapsed() < LISTED_FOR).then_some(meta)
    }

    /// Everything below a prefix, by key, without the empty objects that consoles
    /// create for directories.
    pub(super) fn below(&self, prefix: &str, path: &str) -> Result<Vec<(String, ObjectMeta)>> {
        let client = self.client()?;
        let prefix =
            keys::literal(prefix).map_err(|error| Error::refused(path, error.to_string()))?;
        let collect = || async {
            let mut found = Vec::new();
            let mut listing =
                client.objects.list(Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty()));
            while let Some(meta) = listing.next().await {
                let meta = meta?;
                let key = keys::key_of(&meta.location).into_owned();
                if meta.size > 0 || !key.ends_with('/') {
                    let location = keys::literal(&key).unwrap_or_else(|_| meta.location.clone());
                    found.push((key, ObjectMeta { location, ..meta }));
                }
            }
            Ok::<_, object_store::Error>(found)
        };
        let found = runtime::wait_patiently(self.patience(), collect)
            .map_err(|source| failed(path.to_owned(), Operation::Listing, source))?;
        found.map_err(|error| error_of(&error, path, Operation::Listing, &self.options))
    }

    /// Whether each of `names` is a directory below a prefix, which ends with a slash or is empty.
    /// Needs one request if the listing has one page.
    pub(super) fn directories_in(
        &self,
        prefix: &str,
        names: &[&str],
        path: &str,
    ) -> Result<Vec<bool>> {
        let client = self.client()?;
        // Other stores are listed only as a whole.
        let Some(pages) = &client.pages else { return Ok(vec![false; names.len()]) };
        let ask = || async {
            let options = PaginatedListOptions {
                delimiter: Some("/".into()),
                ..PaginatedListOptions::default()
            };
            let first = pages
                .list_paginated(Some(prefix).filter(|prefix| !prefix.is_empty()), options)
                .await?;
            let there: HashSet<&str> =
                first.result.common_prefixes.iter().filter_map(Path::filename).collect();
            let mut found = Vec::with_capacity(names.len());
            for name in names {
                found.push(
                    there.contains(name)
                        || (first.page_token.is_some() && {
                            let options = PaginatedListOptions {
                                max_keys: Some(1),
                                ..PaginatedListOptions::default()
                            };
                            !pages
                                .list_paginated(Some(&format!("{prefix}{name}/")), options)
                                .await?
                                .result
                                .objects
                                .is_empty()
                        }),
                );
            }
            Ok::<_, object_store::Error>(found)
        };
        let found = runtime::wait_patiently(self.patience(), ask)
            .map_err(|source| failed(path.to_owned(), Operation::Listing, source))?;
        found.map_err(|error| error_of(&error, path, Operation::Listing, &self.options))
    }

    /// Drops the metadata of an object that this process has changed.
    pub(super) fn forget(&self, key: &Path) {
        if let Ok(mut listed) = self.listed.try_lock() {
            listed.remove::<str>(key.as_ref());
        }
    }

    pub(super) fn remember(&self, found: &[(String, ObjectMeta)]) {
        let Ok(mut listed) = self.listed.try_lock() else { return };
        if listed.len() + found.len() > MAX_LISTED {
            listed.clear();
        }
        let now = Instant::now();
        listed.extend(
            found.iter().take(MAX_LISTED).map(|(key, meta)| (key.clone(), (meta.clone(), now))),
        );
    }
}
