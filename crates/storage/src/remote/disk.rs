//! The operations of a commit protocol on a store without directories, locks and renames.
//!
//! They are emulated: a new object is put on the condition that it does not exist; a rename is such
//! a conditional copy, followed by a removal. A directory exists while an object is in it, if only
//! its marker object. A tombstone next to a removed directory guarantees that nothing can be
//! created in it: a writer looks for the tombstone before and after it creates an object, and
//! learns from the second look that the object came too late, or just in time for the listing of
//! the remover to find it. The invariant: an object that was created before the tombstone is in the
//! listing made after it.

use super::failure::{Operation, error_of};
use super::keys::is_escaped;
use super::location::Location;
use super::registry;
use super::retry::{Cause, cause_of};
use super::runtime;
use super::service::Service;
use super::staged::copy_through;
use super::store::RemoteStore;
use super::token::{Token, head_only};
use super::version::Version;
use crate::{Disk, Locked, Replace};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    GetResult, ListResult, ObjectMeta, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const TOMBSTONE: &str = ".removed";
const MARK: &str = ".directory";
/// Concurrent requests while a directory is removed.
const REMOVED_AT_ONCE: usize = 32;
/// Delay before a request that conflicted with another one is retried.
const PAUSE: Duration = Duration::from_millis(100);

/// The objects of remote stores.
#[derive(Debug, Clone, Copy, Default)]
pub struct RemoteDisk {}

impl RemoteDisk {
    /// Replaces the object with content `known`, `None` for no object. Returns false, without any
    /// change, when there is another one.
    ///
    /// # Errors
    /// When the store rejects the request.
    pub fn replace(&self, path: &str, known: Option<&[u8]>, content: &[u8]) -> io::Result<bool> {
        let (place, content) = (Place::of(path)?, Bytes::copy_from_slice(content));
        match known {
            None => place.put_new(&content),
            Some(known) => place.put_over(known, &content),
        }
    }

    /// The objects directly in a directory, each with its name, its size
    /// and the mark of its version.
    ///
    /// # Errors
    /// As [`Disk::list`].
    pub fn versions(&self, directory: &str) -> io::Result<Vec<(String, u64, String)>> {
        let place = Place::of(directory)?;
        let Some(listed) = place.listed()? else { return Ok(Vec::new()) };
        let known: HashMap<&str, Version> = listed
            .objects
            .iter()
            .filter_map(|meta| Some((meta.location.filename()?, Version::of(meta))))
            .collect();
        let with_version = |name: String| {
            let version = known.get(name.as_str())?;
            Some((name, version.size, version.mark()))
        };
        Ok(names_in(&place.key, &listed).into_iter().filter_map(with_version).collect())
    }
}

/// A store and a key in it.
struct Place {
    store: Arc<RemoteStore>,
    /// The part of the path before the key.
    root: String,
    path: String,
    key: Path,
    /// Whether the store can list directories.
    is_listed: bool,
}

impl Place {
    fn of(path: &str) -> io::Result<Self> {
        let path = path.trim_end_matches('/');
        let location = Location::parse(path).map_err(io::Error::other)?;
        let (key, is_listed) =
            (location.object().map_err(io::Error::other)?, location.service != Service::Http);
        Ok(Self {
            store: registry::remote_store(path).map_err(io::Error::other)?,
            root: location.root,
            path: path.to_owned(),
            key,
            is_listed,
        })
    }

    fn beside(&self, name: &str) -> io::Result<Self> {
        Self::of(&format!("{}{name}", self.path))
    }

    fn parent(&self) -> io::Result<Self> {
        Self::of(self.path.rsplit_once('/').map_or("", |(directory, _)| directory))
    }

    /// Retries, so every request must be idempotent.
    fn asked<T, F>(&self, request: impl FnMut() -> F) -> io::Result<object_store::Result<T>>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        runtime::wait_patiently(self.store.patience(), request)
    }

    /// As [`Place::asked`], for requests without a condition: a conflict with a concurrent request
    /// is retried.
    fn asked_anyway<T, F>(&self, request: impl Fn() -> F) -> io::Result<object_store::Result<T>>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        self.asked(|| async {
            request().await.map_err(|error| match error {
                object_store::Error::AlreadyExists { source, .. } => {
                    object_store::Error::Generic { store: "remote", source }
                }
                error => error,
            })
        })
    }

    fn failed(&self, error: &object_store::Error) -> io::Error {
        told(error_of(error, &self.path, Operation::Writing, &self.store.options))
    }

    fn some<T>(&self, answer: io::Result<object_store::Result<T>>) -> io::Result<Option<T>> {
        match answer? {
            Ok(value) => Ok(Some(value)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn objects(&self) -> io::Result<&dyn object_store::ObjectStore> {
        Ok(&*self.store.client().map_err(io::Error::other)?.objects)
    }

    fn head(&self) -> io::Result<Option<ObjectMeta>> {
        let objects = self.objects()?;
        match self.asked(|| objects.head(&self.key))? {
            // Responses to this request have no body; those to another one state the reason.
            Err(error) if !matches!(error, object_store::Error::NotFound { .. }) => {
                let explained = self.asked(|| objects.get(&self.key))?;
                Err(self.failed(&explained.err().unwrap_or(error)))
            }
            answer => self.some(Ok(answer)),
        }
    }

    fn get(&self) -> io::Result<Option<Bytes>> {
        let objects = self.objects()?;
        self.some(self.asked(|| async { objects.get(&self.key).await?.bytes().await }))
    }

    /// Returns whether the object was created; false when there is another one.
    fn put_new(&self, content: &Bytes) -> io::Result<bool> {
        let objects = self.objects()?;
        let token = Token::new();
        let options = PutOptions {
            mode: PutMode::Create,
            attributes: token.attributes(),
            ..PutOptions::default()
        };
        let put =
            || objects.put_opts(&self.key, PutPayload::from(content.clone()), options.clone());
        let begun = Instant::now();
        loop {
            match self.asked(put)? {
                Ok(_) => return Ok(true),
                // A request whose response was lost is repeated, and then finds its own object.
                Err(
                    object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. },
                ) => {}
                Err(error) => return Err(self.failed(&error)),
            }
            match self.some(self.asked(|| objects.get_opts(&self.key, head_only())))? {
                Some(there) => return Ok(token.is_of(&there.attributes)),
                // Two concurrent writers may both be rejected.
                None if begun.elapsed() < self.store.patience() => std::thread::sleep(PAUSE),
                None => return Ok(false),
            }
        }
    }

    /// The version of the object and its content, if it exists.
    fn current(&self) -> io::Result<Option<(UpdateVersion, Bytes)>> {
        let objects = self.objects()?;
        self.some(self.asked(|| async {
            let answer: GetResult = objects.get(&self.key).await?;
            let version = UpdateVersion {
                e_tag: answer.meta.e_tag.clone(),
                version: answer.meta.version.clone(),
            };
            Ok((version, answer.bytes().await?))
        }))
    }

    /// Returns whether the object was replaced; false when its content is not `known`.
    fn put_over(&self, known: &[u8], content: &Bytes) -> io::Result<bool> {
        match self.current()?.filter(|(_, bytes)| bytes == known) {
            Some((version, _)) => self.put_at(version, content),
            None => Ok(false),
        }
    }

    /// Returns whether the object was replaced; false when it is missing or has another version.
    fn put_at(&self, version: UpdateVersion, content: &Bytes) -> io::Result<bool> {
        let objects = self.objects()?;
        let token = Token::new();
        let options = PutOptions {
            mode: PutMode::Update(version),
            attributes: token.attributes(),
            ..PutOptions::default()
        };
        let answer = self.asked(|| {
            objects.put_opts(&self.key, PutPayload::from(content.clone()), options.clone())
        })?;
        self.store.forget(&self.key);
        match answer {
            Ok(_) => Ok(true),
            Err(
                object_store::Error::NotFound { .. } | object_store::Error::Precondition { .. },
            ) => {
                let there = self.some(self.asked(|| objects.get_opts(&self.key, head_only())))?;
                Ok(there.is_some_and(|there| token.is_of(&there.attributes)))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn put(&self, content: &Bytes) -> io::Result<()> {
        let objects = self.objects()?;
        let answer =
            self.asked_anyway(|| objects.put(&self.key, PutPayload::from(content.clone())))?;
        self.store.forget(&self.key);
        answer.map(drop).map_err(|error| self.failed(&error))
    }

    fn remove(&self) -> io::Result<()> {
        let objects = self.objects()?;
        let answer = self.asked_anyway(|| objects.delete(&self.key));
        self.store.forget(&self.key);
        self.some(answer).map(drop)
    }

    /// What is in the directory; `None` if the store knows no such directory.
    fn listed(&self) -> io::Result<Option<ListResult>> {
        if !self.is_listed {
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                format!("`{}` is on an HTTP server, which cannot be listed", self.path),
            ));
        }
        let objects = self.objects()?;
        self.some(self.asked(|| objects.list_with_delimiter(Some(&self.key))))
    }

    /// Names in the directory, without its marker.
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.listed()?.map(|listed| names_in(&self.key, &listed)).unwrap_or_default())
    }

    fn is_removed(&self) -> io::Result<bool> {
        Ok(self.beside(TOMBSTONE)?.head()?.is_some())
    }

    fn is_directory(&self) -> io::Result<bool> {
        if !self.is_listed {
            return Ok(false);
        }
        let objects = self.objects()?;
        let first = self.some(self.asked(|| async {
            let mut listing = objects.list(Some(&self.key));
            listing.next().await.transpose()
        }))?;
        Ok(first.flatten().is_some() && !self.is_removed()?)
    }
}

/// The names in a listing of the directory `key`, without its marker and those of tombstones.
fn names_in(key: &Path, listed: &ListResult) -> Vec<String> {
    // Consoles create an empty object for a directory; its key is listed without its slash.
    let objects: Vec<&str> = listed
        .objects
        .iter()
        .filter(|meta| meta.location != *key && !is_escaped(&meta.location))
        .filter_map(|meta| meta.location.filename())
        .collect();
    let removed: Vec<&str> =
        objects.iter().filter_map(|name| name.strip_suffix(TOMBSTONE)).collect();
    let directories = listed
        .common_prefixes
        .iter()
        .filter(|prefix| !is_escaped(prefix))
        .filter_map(Path::filename)
        .filter(|name| !removed.contains(name));
    let files = objects.iter().copied().filter(|name| *name != MARK && !name.ends_with(TOMBSTONE));
    let mut names: Vec<String> = files.chain(directories).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Keeps the explanation and the hint in an I/O error.
#[derive(Debug)]
struct Told(crate::Error);

impl std::fmt::Display for Told {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0)?;
        if let Some(source) = std::error::Error::source(&self.0) {
            write!(formatter, ": {source}")?;
        }
        self.0.hint().map_or(Ok(()), |hint| write!(formatter, "\nhint: {hint}"))
    }
}

impl std::error::Error for Told {}

fn told(error: crate::Error) -> io::Error {
    io::Error::new(error.io_kind().unwrap_or(ErrorKind::Other), Told(error))
}

/// Whether the reason may be the size of the object.
fn is_uncopied(error: &object_store::Error) -> bool {
    matches!(
        cause_of(error),
        Some(Cause::Status { code: Some(code), .. })
            if matches!(code.as_str(), "InvalidRequest" | "EntityTooLarge")
    )
}

impl Disk for RemoteDisk {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(Place::of(path)?.get()?.map(Vec::from))
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        let place = Place::of(path)?;
        match place.head()? {
            Some(meta) => Ok(Some(meta.size)),
            None => Ok(place.is_directory()?.then_some(0)),
        }
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        Place::of(directory)?.names()
    }

    fn make_directory(&self, directory: &str) -> io::Result<()> {
        Place::of(directory)?.beside(&format!("/{MARK}"))?.put(&Bytes::new())
    }

    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()> {
        match Place::of(path)?.put_new(&Bytes::copy_from_slice(content))? {
            true => Ok(()),
            false => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    /// Objects of a store are durable once accepted.
    fn sync(&self, _path: &str) -> io::Result<()> {
        Ok(())
    }

    /// The second look of a writer for the tombstone.
    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        match Place::of(directory)?.is_removed()? {
            true => Err(ErrorKind::NotFound.into()),
            false => Ok(()),
        }
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool> {
        let (from, to) = (Place::of(from)?, Place::of(to)?);
        let Some(content) = from.get()? else { return Err(ErrorKind::NotFound.into()) };
        if to.parent()?.is_removed()? {
            return Err(ErrorKind::NotFound.into());
        }
        let is_made = to.put_new(&content)?;
        if is_made {
            from.remove()?;
        }
        Ok(is_made)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (Place::of(from)?, Place::of(to)?);
        // The store would copy the object to a key in its own bucket.
        if from.root != to.root {
            return Err(ErrorKind::CrossesDevices.into());
        }
        let objects = from.objects()?;
        match from.asked_anyway(|| objects.copy(&from.key, &to.key))? {
            Err(error) if is_uncopied(&error) => {
                copy_through(&from.store, &from.path, &to.path, Replace::Atomically)
                    .map_err(told)?;
            }
            copied => from.some(Ok(copied))?.ok_or(ErrorKind::NotFound)?,
        }
        to.store.forget(&to.key);
        from.remove()
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        Place::of(path)?.remove()
    }

    fn remove_empty_directory(&self, directory: &str) -> io::Result<bool> {
        let place = Place::of(directory)?;
        place.beside(TOMBSTONE)?.put(&Bytes::new())?;
        if !place.names()?.is_empty() {
            return Ok(false);
        }
        place.beside(&format!("/{MARK}"))?.remove()?;
        Ok(true)
    }

    fn remove_directory(&self, directory: &str) -> io::Result<()> {
        let place = Place::of(directory)?;
        let objects = place.objects()?;
        let listed = place.some(place.asked(|| async {
            let mut listing = objects.list(Some(&place.key));
            let mut found = Vec::new();
            while let Some(meta) = listing.next().await {
                let key = meta?.location;
                // The marker of the directory itself; without its slash, the key may be that of
                // another object.
                if key != place.key {
                    found.push(key);
                }
            }
            Ok(found)
        }))?;
        let keys = listed.unwrap_or_default();
        let removed = place.asked_anyway(|| async {
            let removals = futures_util::stream::iter(&keys).map(|key| async move {
                match objects.delete(key).await {
                    Err(object_store::Error::NotFound { .. }) => Ok(()),
                    removed => removed,
                }
            });
            removals.buffer_unordered(REMOVED_AT_ONCE).try_collect::<()>().await
        });
        keys.iter().for_each(|key| place.store.forget(key));
        place.some(removed).map(drop)
    }

    fn lock(&self, path: &str) -> io::Result<Locked> {
        match Place::of(path)?.head()? {
            Some(_) => Ok(Locked::Unsupported),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn touch(&self, path: &str) -> io::Result<()> {
        let place = Place::of(path)?;
        let (version, content) = place.current()?.ok_or(ErrorKind::NotFound)?;
        // An unconditional put would bring back an object that another process removes in between.
        if place.put_at(version, &content)? { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn age(&self, path: &str) -> io::Result<Option<Duration>> {
        let Some(meta) = Place::of(path)?.head()? else { return Ok(None) };
        Ok(Some(
            SystemTime::now()
                .duration_since(SystemTime::from(meta.last_modified))
                .unwrap_or_default(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rename_into_another_bucket_is_refused_before_any_request() {
        let error = RemoteDisk::default()
            .rename("s3://one-of-a-test/a", "s3://two-of-a-test/a")
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CrossesDevices);
    }

    #[test]
    fn directory_that_a_console_made_is_empty_and_removed_ones_are_not_in_it() {
        let object = |key: &str| {
            let location = Path::parse(key).unwrap();
            ObjectMeta {
                location,
                last_modified: SystemTime::UNIX_EPOCH.into(),
                size: 0,
                e_tag: None,
                version: None,
            }
        };
        let names = |keys: &[&str], prefixes: &[&str]| {
            let common_prefixes =
                prefixes.iter().map(|prefix| Path::parse(prefix).unwrap()).collect();
            let objects = keys.iter().map(|key| object(key)).collect();
            names_in(
                &Path::from("a/out"),
                &ListResult {
                    common_prefixes,
                    objects,
                    extensions: object_store::Extensions::default(),
                },
            )
        };
        assert!(names(&["a/out/"], &[]).is_empty());
        assert_eq!(
            names(
                &["a/out/", "a/out/out", "a/out/.directory", "a/out/x.removed"],
                &["a/out/x/", "a/out/y/"]
            ),
            ["out", "y"]
        );
    }
}
