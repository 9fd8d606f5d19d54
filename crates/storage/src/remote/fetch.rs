//! One run of bytes of one version, by as many requests at once as it is worth.

use super::answer::{Cause, RequestError, is_refusal, is_transient};
use super::client::Client;
use super::version::Version;
use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use futures_util::stream::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStoreExt as _};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longer runs are cut, so that several connections carry them.
const LONG: u64 = 24 << 20;
/// What one request of a long run asks for: so much takes far longer than its first byte does.
const PART: u64 = 8 << 20;
/// Of a server that sends no parts, so much is fetched at once and kept.
const WHOLE: u64 = 64 << 20;
/// Memory that nobody has to ask for first.
const ALWAYS_THERE: usize = 1 << 20;
/// Before a request is made again.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) enum Failure {
    /// There is another version now.
    Changed,
    Store(object_store::Error),
    /// It cannot be held.
    Memory,
}

impl Failure {
    fn is_transient(&self) -> bool {
        matches!(self, Self::Store(error) if is_transient(error))
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => Self::Changed,
            error => Self::Store(error),
        }
    }
}

/// The bytes of `span`.
pub(super) async fn span(client: &Client, key: &Path, version: &Version, span: Range<u64>, patience: Duration) -> Result<Bytes, Failure> {
    let len = usize::try_from(span.end.saturating_sub(span.start)).map_err(|_| Failure::Memory)?;
    let mut left = room(len)?;
    let mut parts = Vec::new();
    let mut start = span.start;
    while start < span.end {
        let end = if span.end - span.start > LONG { (start + PART).min(span.end) } else { span.end };
        let mut buffer = left;
        left = buffer.split_off(usize::try_from(end - start).map_err(|_| Failure::Memory)?);
        parts.push(patient_part(client, key, version, start..end, buffer, Instant::now() + patience));
        start = end;
    }
    let mut whole = BytesMut::new();
    for part in try_join_all(parts).await? {
        // They lie one behind the other in memory, so nothing is copied.
        whole.unsplit(part);
    }
    Ok(whole.freeze())
}

/// Memory for so many bytes. A length was said by somebody else; one that cannot be had must not end the process.
fn room(len: usize) -> Result<BytesMut, Failure> {
    if len > ALWAYS_THERE {
        let mut trial: Vec<u8> = Vec::new();
        trial.try_reserve_exact(len).map_err(|_| Failure::Memory)?;
    }
    Ok(BytesMut::with_capacity(len))
}

/// Asks until it goes well, or wrong for certain: beyond what the client repeats, an answer may end early or be of another length than it says.
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
            Err(failure) if failure.is_transient() && Instant::now() < until => tokio::time::sleep(PAUSE).await,
            Err(failure) => return Err(failure),
        }
    }
}

async fn part(client: &Client, key: &Path, version: &Version, span: Range<u64>, buffer: &mut BytesMut) -> Result<(), Failure> {
    let _permit = client.limiter.acquire().await;
    let options = GetOptions { range: Some(GetRange::Bounded(span.clone())), if_match: version.condition(), ..GetOptions::default() };
    let answer = client.objects.get_opts(key, options).await?;
    if version.is_other_than(&Version::of(&answer.meta)) || answer.range != span {
        return Err(Failure::Changed);
    }
    let len = usize::try_from(span.end - span.start).map_err(|_| Failure::Memory)?;
    fill(client, answer, buffer, len).await
}

/// Puts an answer of `len` bytes into the room that there is for it.
async fn fill(client: &Client, answer: GetResult, buffer: &mut BytesMut, len: usize) -> Result<(), Failure> {
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
        source: format!("the answer held {what} bytes than the {len} it announced").into(),
    })
}

/// Size and version of an object, with its last bytes where the store can send them unasked for where they begin.
pub(super) async fn tail(client: &Client, key: &Path, tail_bytes: u64, patience: Duration) -> Result<(ObjectMeta, Bytes), Failure> {
    let until = Instant::now() + patience;
    loop {
        match one_tail(client, key, tail_bytes, patience).await {
            Err(failure) if failure.is_transient() && Instant::now() < until => tokio::time::sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

async fn one_tail(client: &Client, key: &Path, tail_bytes: u64, patience: Duration) -> Result<(ObjectMeta, Bytes), Failure> {
    let _permit = client.limiter.acquire().await;
    if !client.knows_ends {
        return head(client, key).await;
    }
    let begun = Instant::now();
    let options = GetOptions { range: Some(GetRange::Suffix(tail_bytes.max(1))), ..GetOptions::default() };
    match client.objects.get_opts(key, options).await {
        Ok(answer) => {
            let meta = answer.meta.clone();
            let len = usize::try_from(answer.range.end.saturating_sub(answer.range.start)).map_err(|_| Failure::Memory)?;
            let mut bytes = room(len)?;
            fill(client, answer, &mut bytes, len).await?;
            Ok((meta, bytes.freeze()))
        }
        Err(error) if is_refusal(&error) => Err(error.into()),
        Err(object_store::Error::NotSupported { .. }) => whole(client, key).await,
        // Asking otherwise would take as long once more.
        Err(error) if begun.elapsed() >= patience => Err(error.into()),
        // An empty object has no last byte, and some stores know no such ranges.
        Err(error) => match client.objects.head(key).await {
            Ok(meta) => Ok((meta, Bytes::new())),
            Err(_) => Err(error.into()),
        },
    }
}

/// Of a store that sends no bytes from the end.
async fn head(client: &Client, key: &Path) -> Result<(ObjectMeta, Bytes), Failure> {
    match client.objects.head(key).await {
        Ok(meta) => Ok((meta, Bytes::new())),
        Err(refused) if is_refusal(&refused) => {
            // Refusals of this request have no words; those of another one say why.
            let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
            Err(client.objects.get_opts(key, options).await.err().unwrap_or(refused).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// All of an object, from a server that knows no ranges.
async fn whole(client: &Client, key: &Path) -> Result<(ObjectMeta, Bytes), Failure> {
    let answer = client.objects.get_opts(key, GetOptions::default()).await?;
    let meta = answer.meta.clone();
    if meta.size > WHOLE {
        let text = format!("the server sends files whole only, and this one has {} bytes; up to {WHOLE} are fetched whole", meta.size);
        let source = Box::new(RequestError::new(Cause::WholeFilesOnly, text));
        return Err(Failure::Store(object_store::Error::NotSupported { source }));
    }
    let len = usize::try_from(meta.size).map_err(|_| Failure::Memory)?;
    let mut bytes = room(len)?;
    fill(client, answer, &mut bytes, len).await?;
    Ok((meta, bytes.freeze()))
}
