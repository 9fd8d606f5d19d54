//! Read-only stores: they implement reading and listing, and every other request is rejected.

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::BTreeSet;
use std::fmt::{self, Debug, Display};
use std::sync::Arc;

/// The readable part of a store.
#[async_trait]
pub(super) trait Readable: Debug + Send + Sync + 'static {
    /// Its name in errors.
    const NAME: &'static str;

    async fn get(&self, key: &Path, options: GetOptions) -> Result<GetResult>;

    /// Everything below a prefix; empty when the directory does not exist.
    async fn list(&self, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>>;
}

#[derive(Debug)]
pub(super) struct ReadOnly<T>(pub(super) Arc<T>);

impl<T: Readable> Display for ReadOnly<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(T::NAME)
    }
}

fn refused<A, T: Readable>() -> Result<A> {
    Err(Error::NotSupported { source: format!("{} is read only", T::NAME).into() })
}

#[async_trait]
impl<T: Readable> ObjectStore for ReadOnly<T> {
    async fn put_opts(
        &self,
        _location: &Path,
        _payload: PutPayload,
        _options: PutOptions,
    ) -> Result<PutResult> {
        refused::<_, T>()
    }

    async fn put_multipart_opts(
        &self,
        _location: &Path,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        refused::<_, T>()
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        locations.then(|_| async { refused::<_, T>() }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (readable, prefix) = (Arc::clone(&self.0), prefix.cloned());
        let listed = async move {
            Ok::<_, Error>(stream::iter(readable.list(prefix.as_ref()).await?.into_iter().map(Ok)))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        let (mut objects, mut directories) = (Vec::new(), BTreeSet::new());
        for meta in self.0.list(Some(prefix)).await? {
            let Some(mut parts) = meta.location.prefix_match(prefix) else { continue };
            let (first, is_deeper) = (parts.next(), parts.next().is_some());
            drop(parts);
            match first {
                Some(directory) if is_deeper => {
                    directories.insert(prefix.clone().join(directory));
                }
                Some(_) => objects.push(meta),
                None => {}
            }
        }
        Ok(ListResult {
            common_prefixes: directories.into_iter().collect(),
            objects,
            extensions: object_store::Extensions::default(),
        })
    }

    async fn copy_opts(&self, _from: &Path, _to: &Path, _options: CopyOptions) -> Result<()> {
        refused::<_, T>()
    }
}
