//! The operations of a commit protocol on a store without directories, locks and renames.
//!
//! They are emulated: a new object is put on the condition that it does not exist; a rename is such
//! a conditional copy, followed by a removal. A directory exists while an object is in it, if only
//! its marker object. A tombstone next to a removed directory guarantees that nothing can be
//! created in it: a writer looks for the tombstone before and after it creates an object, and
//! learns from the second look that the object came too late, or just in time for the listing of
//! the remover to find it. The invariant: an object that was created before the tombstone is in the
//! listing made after it.

mod place;

use super::retry::{Cause, cause_of};
use super::staged::copy_through;
use super::version::Version;
use crate::{Disk, Locked, Replace};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt as _;
use place::{Place, names_in, told};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime};

const TOMBSTONE: &str = ".removed";
const MARK: &str = ".directory";
/// Concurrent requests while a directory is removed.
const REMOVED_AT_ONCE: usize = 32;

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
    use object_store::path::Path;
    use object_store::{ListResult, ObjectMeta};

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
