//! Fetches one run of bytes of one version, with several concurrent requests where that is faster.

use super::client::Client;
use super::failure::{Operation, error_of, failed};
use super::options::StorageOptions;
use super::retry::{Cause, RequestError, is_past_end, is_refusal, is_transient};
use super::version::Version;
use crate::Error;
use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use futures_util::stream::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStoreExt as _};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longer runs are split, so that several connections carry them.
const LONG: u64 = 24 << 20;
/// The size of one request of a long run; its transfer takes much longer than its first byte.
const PART: u64 = 8 << 20;
/// If a server does not support ranges, files up to this size are fetched whole and kept.
const WHOLE: u64 = 64 << 20;
/// Up to this size memory is allocated infallibly.
const ALWAYS_THERE: usize = 1 << 20;
/// Delay before a retry.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) enum Failure {
    /// The object has another version now.
    Changed,
    Store(object_store::Error),
    /// It does not fit into memory.
    Memory,
}

impl Failure {
    pub(super) fn error(
        &self,
        path: &str,
        operation: Operation,
        options: &StorageOptions,
    ) -> Error {
        match self {
            Self::Changed => Error::Changed { path: path.to_owned() },
            Self::Store(error) => error_of(error, path, operation, options),
            Self::Memory => {
                failed(path.to_owned(), operation, std::io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if is_transient(error))
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => {
                Self::Changed
            }
            error => Self::Store(error),
        }
    }
}

/// The bytes of `span`.
pub(super) async fn span(
    client: &Client,
    key: &Path,
    version: &Version,
    span: Range<u64>,
    patience: Duration,
) -> Result<Bytes, Failure> {
    let len = usize::try_from(span.end.saturating_sub(span.start)).map_err(|_| Failure::Memory)?;
    let mut left = room(len)?;
    let mut parts = Vec::new();
    let mut start = span.start;
    while start < span.end {
        let end =
            if span.end - span.start > LONG { (start + PART).min(span.end) } else { span.end };
        let mut buffer = left;
        left = buffer.split_off(usize::try_from(end - start).map_err(|_| Failure::Memory)?);
        parts.push(patient_part(
            client,
            key,
            version,
            start..end,
            buffer,
            Instant::now() + patience,
        ));
        start = end;
    }
    let mut whole = BytesMut::new();
    for part in try_join_all(parts).await? {
        // The parts are contiguous in memory, so nothing is copied.
        whole.unsplit(part);
    }
    Ok(whole.freeze())
}

/// Allocates `len` bytes. The length is untrusted; if it cannot be allocated,
/// the process must not abort.
fn room(len: usize) -> Result<BytesMut, Failure> {
    if len > ALWAYS_THERE {
        let mut trial: Vec<u8> = Vec::new();
        trial.try_reserve_exact(len).map_err(|_| Failure::Memory)?;
    }
    Ok(BytesMut::with_capacity(len))
}

/// Retries until success or a permanent error. Beyond the errors that the client retries, a
/// response may end early or have another length than it states.
async fn patient_part(
    client: &Client,
    key: &Path,
    version: &Version,
    span: Range<u64>,
    mut buffer: BytesMut,
    until: Instant,
) -> Result<BytesMut, Failure> {
    loop {
        match part(client, key, version, span.clone(), &mut buffer).await {
            Ok(()) => return Ok(buffer),
            Err(failure) if failure.is_transient() && Instant::now() < until => {
                client.counts.retried.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

async fn part(
    client: &Client,
    key: &Path,
    version: &Version,
    span: Range<u64>,
    buffer: &mut BytesMut,
) -> Result<(), Failure> {
    let _permit = client.limiter.acquire().await;
    let options = GetOptions {
        range: Some(GetRange::Bounded(span.clone())),
        if_match: version.condition(),
        ..GetOptions::default()
    };
    let answer = client.objects.get_opts(key, options).await;
    // Without a strong tag, a server looks at the range before the version.
    let is_past_end = answer.as_ref().is_err_and(is_past_end);
    if is_past_end && is_replaced(client, key, version).await {
        return Err(Failure::Changed);
    }
    let answer = answer?;
    if version.is_other_than(&Version::of(&answer.meta)) || answer.range != span {
        return Err(Failure::Changed);
    }
    let len = usize::try_from(span.end - span.start).map_err(|_| Failure::Memory)?;
    fill(client, answer, buffer, len).await
}

/// Whether the object certainly has another version now.
async fn is_replaced(client: &Client, key: &Path, version: &Version) -> bool {
    client.objects.head(key).await.is_ok_and(|meta| version.is_other_than(&Version::of(&meta)))
}

/// Copies a response of `len` bytes into `buffer`.
async fn fill(
    client: &Client,
    answer: GetResult,
    buffer: &mut BytesMut,
    len: usize,
) -> Result<(), Failure> {
    buffer.clear();
    let mut body = answer.into_stream();
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        client.counts.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        if chunk.len() > len - buffer.len() {
            return Err(wrong_length(len, "more"));
        }
        buffer.extend_from_slice(&chunk);
    }
    if buffer.len() == len { Ok(()) } else { Err(wrong_length(len, "fewer")) }
}

fn wrong_length(len: usize, what: &str) -> Failure {
    Failure::Store(object_store::Error::Generic {
        store: "remote",
        source: format!("the response held {what} bytes than the {len} it announced").into(),
    })
}

/// Size and version of an object, with its last bytes if the store serves suffix ranges.
pub(super) async fn tail(
    client: &Client,
    key: &Path,
    tail_bytes: u64,
    patience: Duration,
) -> Result<(ObjectMeta, Bytes), Failure> {
    let until = Instant::now() + patience;
    loop {
        match one_tail(client, key, tail_bytes, patience).await {
            Err(failure) if failure.is_transient() && Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

async fn one_tail(
    client: &Client,
    key: &Path,
    tail_bytes: u64,
    patience: Duration,
) -> Result<(ObjectMeta, Bytes), Failure> {
    let _permit = client.limiter.acquire().await;
    if !client.knows_ends {
        return head(client, key).await;
    }
    let begun = Instant::now();
    let options =
        GetOptions { range: Some(GetRange::Suffix(tail_bytes.max(1))), ..GetOptions::default() };
    match client.objects.get_opts(key, options).await {
        Ok(answer) => {
            let meta = answer.meta.clone();
            let len = usize::try_from(answer.range.end.saturating_sub(answer.range.start))
                .map_err(|_| Failure::Memory)?;
            let mut bytes = room(len)?;
            fill(client, answer, &mut bytes, len).await?;
            Ok((meta, bytes.freeze()))
        }
        Err(error) if is_refusal(&error) => Err(error.into()),
        Err(object_store::Error::NotSupported { .. }) => whole(client, key).await,
        // The fallback would take as long again.
        Err(error) if begun.elapsed() >= patience => Err(error.into()),
        // An empty object has no last byte, and some stores do not support suffix ranges.
        Err(error) => match client.objects.head(key).await {
            Ok(meta) => Ok((meta, Bytes::new())),
            Err(_) => Err(error.into()),
        },
    }
}

/// For a store without suffix ranges.
async fn head(client: &Client, key: &Path) -> Result<(ObjectMeta, Bytes), Failure> {
    match client.objects.head(key).await {
        Ok(meta) => Ok((meta, Bytes::new())),
        Err(refused) if is_refusal(&refused) => {
            // Responses to HEAD have no body; those to this request state the reason.
            let options =
                GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
            Err(client.objects.get_opts(key, options).await.err().unwrap_or(refused).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads a whole object from a server without range requests.
async fn whole(client: &Client, key: &Path) -> Result<(ObjectMeta, Bytes), Failure> {
    let answer = client.objects.get_opts(key, GetOptions::default()).await?;
    let meta = answer.meta.clone();
    if meta.size > WHOLE {
        let text = format!(
            "the server sends only whole files, and this one has {} bytes; \
             files up to {WHOLE} bytes are supported",
            meta.size
        );
        let source = Box::new(RequestError::new(Cause::WholeFilesOnly, text));
        return Err(Failure::Store(object_store::Error::NotSupported { source }));
    }
    let len = usize::try_from(meta.size).map_err(|_| Failure::Memory)?;
    let mut bytes = room(len)?;
    fill(client, answer, &mut bytes, len).await?;
    Ok((meta, bytes.freeze()))
}

#[cfg(test)]
mod tests {
    use super::super::conditional::ConditionalUploads;
    use super::super::connector::Counts;
    use super::super::limiter::ConcurrencyLimiter;
    use super::super::read_only::{ReadOnly, Readable};
    use super::*;
    use async_trait::async_trait;
    use futures_util::stream;
    use object_store::client::HttpErrorKind;
    use object_store::{Attributes, Extensions, GetResultPayload};
    use std::sync::Arc;
    use std::time::SystemTime;

    /// An object of a server that knows its size and refuses every range.
    #[derive(Debug)]
    struct Short(u64);

    fn meta(size: u64) -> ObjectMeta {
        ObjectMeta {
            location: Path::from("key"),
            last_modified: SystemTime::UNIX_EPOCH.into(),
            size,
            e_tag: None,
            version: None,
        }
    }

    #[async_trait]
    impl Readable for Short {
        const NAME: &'static str = "a server";

        async fn get(&self, _key: &Path, options: GetOptions) -> object_store::Result<GetResult> {
            if !options.head {
                let cause = Cause::Status { status: 416, code: None, retry_after: None };
                let source = Box::new(
                    RequestError::new(cause, "past the end").of_kind(HttpErrorKind::Unknown),
                );
                return Err(object_store::Error::Generic { store: "HTTP", source });
            }
            let payload = GetResultPayload::Stream(stream::empty().boxed());
            Ok(GetResult {
                payload,
                meta: meta(self.0),
                range: 0..self.0,
                attributes: Attributes::new(),
                extensions: Extensions::default(),
            })
        }

        async fn list(&self, _prefix: Option<&Path>) -> object_store::Result<Vec<ObjectMeta>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn range_past_the_end_is_another_version_only_if_the_object_has_one() {
        let version = Version::of(&meta(1000));
        for (size, is_changed) in [(10, true), (1000, false)] {
            let client = Client {
                objects: Arc::new(ReadOnly(Arc::new(Short(size)))),
                parts: None,
                pages: None,
                limiter: Arc::new(ConcurrencyLimiter::new(8)),
                counts: Arc::new(Counts::default()),
                conditional: Arc::new(ConditionalUploads::default()),
                knows_ends: true,
            };
            let answer =
                span(&client, &Path::from("key"), &version, 100..200, Duration::from_millis(1))
                    .await;
            assert_eq!(matches!(answer, Err(Failure::Changed)), is_changed);
            assert!(answer.is_err());
        }
    }
}
