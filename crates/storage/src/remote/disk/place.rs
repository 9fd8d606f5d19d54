//! A key of a store, and the requests for it.

use super::{MARK, TOMBSTONE};
use crate::remote::failure::{Operation, error_of};
use crate::remote::keys::is_escaped;
use crate::remote::location::Location;
use crate::remote::registry;
use crate::remote::runtime;
use crate::remote::service::Service;
use crate::remote::store::RemoteStore;
use crate::remote::token::{Token, head_only};
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{
    GetResult, ListResult, ObjectMeta, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Delay before a request that conflicted with another one is retried.
const PAUSE: Duration = Duration::from_millis(100);

/// A store and a key in it.
pub(super) struct Place {
    pub(super) store: Arc<RemoteStore>,
    /// The part of the path before the key.
    pub(super) root: String,
    pub(super) path: String,
    pub(super) key: Path,
    /// Whether the store can list directories.
    is_listed: bool,
}

impl Place {
    pub(super) fn of(path: &str) -> io::Result<Self> {
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

    pub(super) fn beside(&self, name: &str) -> io::Result<Self> {
        Self::of(&format!("{}{name}", self.path))
    }

    pub(super) fn parent(&self) -> io::Result<Self> {
        Self::of(self.path.rsplit_once('/').map_or("", |(directory, _)| directory))
    }

    /// Retries, so every request must be idempotent.
    pub(super) fn asked<T, F>(
        &self,
        request: impl FnMut() -> F,
    ) -> io::Result<object_store::Result<T>>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        runtime::wait_patiently(self.store.patience(), request)
    }

    /// As [`Place::asked`], for requests without a condition: a conflict with a concurrent request
    /// is retried.
    pub(super) fn asked_anyway<T, F>(
        &self,
        request: impl Fn() -> F,
    ) -> io::Result<object_store::Result<T>>
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

    pub(super) fn some<T>(
        &self,
        answer: io::Result<object_store::Result<T>>,
    ) -> io::Result<Option<T>> {
        match answer? {
            Ok(value) => Ok(Some(value)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    pub(super) fn objects(&self) -> io::Result<&dyn object_store::ObjectStore> {
        Ok(&*self.store.client().map_err(io::Error::other)?.objects)
    }

    pub(super) fn head(&self) -> io::Result<Option<ObjectMeta>> {
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

    pub(super) fn get(&self) -> io::Result<Option<Bytes>> {
        let objects = self.objects()?;
        self.some(self.asked(|| async { objects.get(&self.key).await?.bytes().await }))
    }

    /// Returns whether the object was created; false when there is another one.
    pub(super) fn put_new(&self, content: &Bytes) -> io::Result<bool> {
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
    pub(super) fn current(&self) -> io::Result<Option<(UpdateVersion, Bytes)>> {
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
    pub(super) fn put_over(&self, known: &[u8], content: &Bytes) -> io::Result<bool> {
        match self.current()?.filter(|(_, bytes)| bytes == known) {
            Some((version, _)) => self.put_at(version, content),
            None => Ok(false),
        }
    }

    /// Returns whether the object was replaced; false when it is missing or has another version.
    pub(super) fn put_at(&self, version: UpdateVersion, content: &Bytes) -> io::Result<bool> {
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

    pub(super) fn put(&self, content: &Bytes) -> io::Result<()> {
        let objects = self.objects()?;
        let answer =
            self.asked_anyway(|| objects.put(&self.key, PutPayload::from(content.clone())))?;
        self.store.forget(&self.key);
        answer.map(drop).map_err(|error| self.failed(&error))
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        let objects = self.objects()?;
        let answer = self.asked_anyway(|| objects.delete(&self.key));
        self.store.forget(&self.key);
        self.some(answer).map(drop)
    }

    /// What is in the directory; `None` if the store knows no such directory.
    pub(super) fn listed(&self) -> io::Result<Option<ListResult>> {
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
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.listed()?.map(|listed| names_in(&self.key, &listed)).unwrap_or_default())
    }

    pub(super) fn is_removed(&self) -> io::Result<bool> {
        Ok(self.beside(TOMBSTONE)?.head()?.is_some())
    }

    pub(super) fn is_directory(&self) -> io::Result<bool> {
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
pub(super) fn names_in(key: &Path, listed: &ListResult) -> Vec<String> {
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

pub(super) fn told(error: crate::Error) -> io::Error {
    io::Error::new(error.io_kind().unwrap_or(ErrorKind::Other), Told(error))
}
