//! An fsspec file system as a store. It is slow: requests run Python code, one at a time.

use super::keys;
use super::providers::{FsspecFile, FsspecFiles};
use super::read_only::Readable;
use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, Error, Extensions, GetOptions, GetResult, GetResultPayload, ObjectMeta, Result,
};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

const STORE: &str = "file system";

#[derive(Debug)]
pub(super) struct FsspecStore {
    /// With the slash that precedes keys.
    root: String,
    files: Arc<dyn FsspecFiles>,
}

impl FsspecStore {
    pub(super) fn new(root: &str, files: &Arc<dyn FsspecFiles>) -> Self {
        Self { root: format!("{root}/"), files: Arc::clone(files) }
    }

    async fn asked<T: Send + 'static>(
        &self,
        path: String,
        ask: fn(&dyn FsspecFiles, &str) -> io::Result<T>,
    ) -> Result<T> {
        let files = Arc::clone(&self.files);
        let key = path.clone();
        tokio::task::spawn_blocking(move || ask(&*files, &path))
            .await?
            .map_err(|error| error_of(key, error))
    }

    fn meta(&self, file: FsspecFile) -> Option<ObjectMeta> {
        let location = keys::listed(file.path.strip_prefix(&self.root)?);
        // If the file system has no version marks, the size serves as one.
        Some(ObjectMeta {
            location,
            last_modified: SystemTime::UNIX_EPOCH.into(),
            size: file.size,
            e_tag: file.mark,
            version: None,
        })
    }
}

fn error_of(path: String, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path, source: error.into() },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { path, source: error.into() },
        io::ErrorKind::TimedOut
        | io::ErrorKind::Interrupted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionRefused => Error::Generic { store: STORE, source: error.into() },
        // Not retried: it would fail again.
        _ => Error::NotSupported { source: error.into() },
    }
}

#[async_trait]
impl Readable for FsspecStore {
    const NAME: &'static str = "an fsspec file system";

    async fn get(&self, key: &Path, options: GetOptions) -> Result<GetResult> {
        let path = format!("{}{key}", self.root);
        let found = self.asked(path.clone(), |files, path| files.info(path)).await?;
        let missing =
            || Error::NotFound { path: path.clone(), source: "the file does not exist".into() };
        let meta = found.and_then(|file| self.meta(file)).ok_or_else(missing)?;
        let range = match &options.range {
            Some(wanted) => wanted
                .as_range(meta.size)
                .map_err(|error| Error::NotSupported { source: error.to_string().into() })?,
            None => 0..meta.size,
        };
        let is_wanted = !options.head && !range.is_empty();
        let bytes = if is_wanted {
            let (files, range) = (Arc::clone(&self.files), range.clone());
            let asked = path.clone();
            tokio::task::spawn_blocking(move || files.read(&asked, range))
                .await?
                .map_err(|error| error_of(path, error))?
        } else {
            bytes::Bytes::new()
        };
        let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult {
            payload,
            meta,
            range,
            attributes: Attributes::new(),
            extensions: Extensions::default(),
        })
    }

    async fn list(&self, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>> {
        let path = format!("{}{}", self.root, prefix.map_or("", |prefix| prefix.as_ref()));
        match self.asked(path, |files, path| files.find(path)).await {
            Ok(found) => Ok(found.into_iter().filter_map(|file| self.meta(file)).collect()),
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
