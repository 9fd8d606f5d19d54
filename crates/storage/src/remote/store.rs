//! The objects below one root.

use super::client::Client;
use super::failure::{Doing, error_of, failed};
use super::fetch::{self, Failure};
use super::location::{Location, Service};
use super::object::{RemoteObject, TAIL};
use super::options::{self, Limits, StorageOptions, refused};
use super::process::PerProcess;
use super::runtime;
use super::staged::RemoteStaged;
use super::version::Version;
use crate::cache::Cache;
use crate::{Error, RangeRead, Result, Staged, Store, Unpublished};
use bytes::Bytes;
use futures_util::StreamExt;
use glob::Pattern;
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

/// Of the store that serves `path`.
#[must_use]
pub fn request_counts(path: &str) -> Option<RequestCounts> {
    let store = options::store_at(&Location::parse(path).ok()?).ok()?;
    let counts = &store.client().ok()?.counts;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Some(RequestCounts { requests: count(&counts.requests), hedged: count(&counts.repeated), bytes: count(&counts.bytes) })
}

impl RemoteStore {
    /// # Errors
    /// [`Error::Open`] for an option that means nothing.
    pub(super) fn new(location: &Location, options: &StorageOptions) -> Result<Self> {
        let (limits, _) = options.split().map_err(|what| refused(&location.root, what))?;
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

    /// The store that serves `path`, with the latest options for its root.
    ///
    /// # Errors
    /// [`Error::UnsupportedScheme`], and [`Error::Open`] for options that mean nothing.
    pub fn of(path: &str) -> Result<Arc<Self>> {
        options::store_at(&Location::parse(path)?)
    }

    pub(super) fn client(&self) -> Result<&Client> {
        let made = self.client.get_or_make(|| Client::new(&self.location, &self.options, &self.commit));
        made.as_ref().map_err(|what| refused(&self.location.root, what.clone()))
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

    fn opened(self: Arc<Self>, path: &str, tail_bytes: u64) -> Result<RemoteObject> {
        let key = Location::parse(path)?.object()?;
        if key.as_ref().is_empty() {
            return Err(Error::NotFound { path: path.to_owned() });
        }
        let listed = self.listed.try_lock().ok().and_then(|mut listed| listed.remove(key.as_ref()));
        if let Some((meta, _)) = listed.filter(|(_, at)| at.elapsed() < LISTED_FOR) {
            let version = Version::of(&meta);
            return RemoteObject::new(self, path, key, version, Bytes::new());
        }
        let answer = runtime::wait(fetch::tail(self.client()?, &key, tail_bytes, self.patience()))
            .map_err(|source| failed(path.to_owned(), Doing::Opening, source))?;
        let (meta, tail) = answer.map_err(|failure| self.unopened(failure, path))?;
        RemoteObject::new(self, path, key, Version::of(&meta), tail)
    }

    fn unopened(&self, failure: Failure, path: &str) -> Error {
        match failure {
            Failure::Changed => Error::Changed { path: path.to_owned() },
            Failure::Store(error) => error_of(&error, path, Doing::Opening, &self.options),
            Failure::Memory => failed(path.to_owned(), Doing::Opening, std::io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// Everything below a prefix that ends at a slash, and the object that is called so.
    fn below(&self, prefix: &str, path: &str) -> Result<Vec<ObjectMeta>> {
        let client = self.client()?;
        let prefix = Path::parse(prefix).map_err(|error| refused(path, error.to_string()))?;
        let collect = || async {
            let mut found = Vec::new();
            let mut listing = client.objects.list(Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty()));
            while let Some(meta) = listing.next().await {
                found.push(meta?);
            }
            Ok::<_, object_store::Error>(found)
        };
        let found = runtime::wait_patiently(self.patience(), collect).map_err(|source| failed(path.to_owned(), Doing::Listing, source))?;
        found.map_err(|error| error_of(&error, path, Doing::Listing, &self.options))
    }

    fn remember(&self, found: &[ObjectMeta]) {
        let Ok(mut listed) = self.listed.try_lock() else { return };
        if listed.len() + found.len() > MAX_LISTED {
            listed.clear();
        }
        let now = Instant::now();
        listed.extend(found.iter().take(MAX_LISTED).map(|meta| (meta.location.to_string(), (meta.clone(), now))));
    }
}

/// Opening keeps the store, which a trait method without `Arc<Self>` cannot.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<RemoteStore>);

impl Store for Shared {
    fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        Ok(Arc::new(Arc::clone(&self.0).opened(path, TAIL)?))
    }

    fn open_with_tail(&self, path: &str, tail_bytes: u64) -> Result<Arc<dyn RangeRead>> {
        Ok(Arc::new(Arc::clone(&self.0).opened(path, tail_bytes)?))
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let location = Location::parse(path)?;
        if location.service == Service::Http {
            if location.key.is_empty() || location.key.ends_with('/') || location.key.contains('*') {
                let source = std::io::Error::new(std::io::ErrorKind::Unsupported, "HTTP servers do not say what they have");
                return Err(Error::List { path: path.to_owned(), source });
            }
            return self.open(path).map(|_| vec![path.to_owned()]);
        }
        let key = location.key.trim_end_matches('/');
        let wildcard = key.find(['*', '?', '[']);
        if wildcard.is_none() && !key.is_empty() && !location.key.ends_with('/') {
            // One request tells about most paths: a file is far more often named than a folder with the name of a file.
            let looks_like_file = key.rsplit('/').next().is_some_and(|name| name.contains('.'));
            match looks_like_file.then(|| self.open(path)) {
                None => {}
                Some(Ok(_)) => return Ok(vec![path.to_owned()]),
                Some(Err(Error::NotFound { .. })) => {}
                Some(Err(refused)) => return Err(refused),
            }
        }
        let folder = wildcard.map_or(key, |at| key.get(..at).and_then(|head| head.rsplit_once('/')).map_or("", |(folder, _)| folder));
        let mut found = self.0.below(folder, path)?;
        if let Some(pattern) = wildcard.map(|_| Pattern::new(key)) {
            let pattern = pattern.map_err(|error| refused(path, error.to_string()))?;
            let options = glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
            let is_literal =
                |meta: &ObjectMeta| meta.location.as_ref().strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            // Folders that fit are searched as well.
            let parts = |key: &str| key.match_indices('/').map(|(at, _)| at).chain([key.len()]).collect::<Vec<_>>();
            let fits = |key: &str| parts(key).into_iter().filter_map(|at| key.get(..at)).any(|part| pattern.matches_with(part, options));
            // A name may have such characters itself.
            let is_named = found.iter().any(is_literal);
            found.retain(|meta| if is_named { is_literal(meta) } else { fits(meta.location.as_ref()) });
        }
        // Consoles make empty objects for folders.
        found.retain(|meta| meta.size > 0 || meta.location.as_ref() != key);
        if found.is_empty() && wildcard.is_none() {
            // A name without a dot may still be a file.
            return self.open(path).map(|_| vec![path.to_owned()]);
        }
        if location.service != Service::Foreign {
            // Many file systems list less than they tell of one file.
            self.0.remember(&found);
        }
        let mut paths: Vec<String> = found.iter().map(|meta| location.path_of(meta.location.as_ref())).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    fn stage(&self, path: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>> {
        Ok(Box::new(RemoteStaged::start(Arc::clone(&self.0), path, None, unpublished)?))
    }

    fn stage_as(&self, path: &str, hidden: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>> {
        Ok(Box::new(RemoteStaged::start(Arc::clone(&self.0), path, Some(hidden), unpublished)?))
    }
}
