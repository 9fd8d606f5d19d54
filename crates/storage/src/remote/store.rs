//! The objects below one root.

use super::client::Client;
use super::failure::{Operation, error_of, failed};
use super::location::{Location, Service};
use super::options::{Limits, StorageOptions};
use super::process::PerProcess;
use super::runtime;
use crate::cache::Cache;
use crate::{Error, Result};
use futures_util::StreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What a listing told is believed for so long by those who open what it named.
const LISTED_FOR: Duration = Duration::from_secs(30);
const MAX_LISTED: usize = 1 << 20;

/// What a listing told, with when.
type Listed = HashMap<String, (ObjectMeta, Instant)>;

/// Reads and writes objects below one root.
pub struct RemoteStore {
    location: Location,
    options: StorageOptions,
    limits: Limits,
    client: PerProcess<std::result::Result<Client, String>>,
    /// Of a data set of the Hub, once it is known; processes that are forked later have it too.
    commit: Arc<OnceLock<String>>,
    cache: OnceLock<Arc<Cache>>,
    /// Never waited for.
    listed: Mutex<Listed>,
    /// Bytes of small objects that are held in memory.
    kept: Arc<AtomicU64>,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RemoteStore").field("root", &self.location.root).field("options", &self.options).finish_non_exhaustive()
    }
}

/// Requests of this process to one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    pub requests: u64,
    /// Sent again because the first answer was late.
    pub hedged: u64,
    pub bytes: u64,
}

impl RemoteStore {
    /// # Errors
    /// [`Error::Open`] for an option that means nothing.
    pub(super) fn new(location: &Location, options: &StorageOptions) -> Result<Self> {
        let (limits, _) = options.split().map_err(|what| Error::refused(&location.root, what))?;
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
        };
        store.client()?;
        store.cache()?;
        Ok(store)
    }

    pub(super) fn request_counts(&self) -> Option<RequestCounts> {
        let counts = &self.client().ok()?.counts;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(RequestCounts { requests: count(&counts.requests), hedged: count(&counts.repeated), bytes: count(&counts.bytes) })
    }

    pub(super) fn client(&self) -> Result<&Client> {
        let made = self.client.get_or_make(|| Client::new(&self.location, &self.options, &self.commit));
        made.as_ref().map_err(|what| Error::refused(&self.location.root, what.clone()))
    }

    pub(super) fn kept(&self) -> &Arc<AtomicU64> {
        &self.kept
    }

    pub(super) fn is_http(&self) -> bool {
        self.location.service == Service::Http
    }

    /// The one commit that is read, of a data set of the Hub.
    pub(super) fn commit(&self) -> Option<String> {
        self.commit.get().cloned()
    }

    pub(super) fn options(&self) -> &StorageOptions {
        &self.options
    }

    /// How long a request is made again.
    pub(super) fn patience(&self) -> Duration {
        self.limits.retry_timeout
    }

    /// Where what is fetched is kept, when that was asked for.
    pub(super) fn cache(&self) -> Result<Option<&Arc<Cache>>> {
        let Some(folder) = &self.limits.cache_dir else { return Ok(None) };
        if let Some(cache) = self.cache.get() {
            return Ok(Some(cache));
        }
        let opened = Cache::open(folder, self.limits.cache_bytes)?;
        Ok(Some(self.cache.get_or_init(|| opened)))
    }

    /// What a listing told of an object a moment ago.
    pub(super) fn listed(&self, key: &str) -> Option<ObjectMeta> {
        let (meta, at) = self.listed.try_lock().ok()?.remove(key)?;
        (at.elapsed() < LISTED_FOR).then_some(meta)
    }

    /// Everything below a prefix that ends at a slash, and the object that is called so.
    pub(super) fn below(&self, prefix: &str, path: &str) -> Result<Vec<ObjectMeta>> {
        let client = self.client()?;
        let prefix = Path::parse(prefix).map_err(|error| Error::refused(path, error.to_string()))?;
        let collect = || async {
            let mut found = Vec::new();
            let mut listing = client.objects.list(Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty()));
            while let Some(meta) = listing.next().await {
                found.push(meta?);
            }
            Ok::<_, object_store::Error>(found)
        };
        let found = runtime::wait_patiently(self.patience(), collect).map_err(|source| failed(path.to_owned(), Operation::Listing, source))?;
        found.map_err(|error| error_of(&error, path, Operation::Listing, &self.options))
    }

    pub(super) fn remember(&self, found: &[ObjectMeta]) {
        let Ok(mut listed) = self.listed.try_lock() else { return };
        if listed.len() + found.len() > MAX_LISTED {
            listed.clear();
        }
        let now = Instant::now();
        listed.extend(found.iter().take(MAX_LISTED).map(|meta| (meta.location.to_string(), (meta.clone(), now))));
    }
}
