//! An object that is being uploaded: its parts are sent while it is written, and the last request
//! makes it visible.
//!
//! The object is not visible before that request. A writer that dies leaves an incomplete upload,
//! which the bucket's lifecycle rule removes. Under [`Replace::Never`] the last request carries the
//! condition that the object does not exist, so one of two writers is rejected.

use super::failure::{Operation, error_of, failed};
use super::location::Location;
use super::object::RemoteObject;
use super::retry::is_transient;
use super::runtime;
use super::store::RemoteStore;
use super::token::{Token, head_only};
use crate::{Error, RangeRead, Replace, Result, Sealed, Staged, Unpublished};
use bytes::BytesMut;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The size of a part, and the limit for an upload in one request.
const PART: usize = 8 << 20;
/// S3 allows 10,000 parts. The size doubles after each run of this many, so that they hold an
/// object of 5 TB, the limit of S3.
const PARTS_OF_A_SIZE: usize = 1000;
const MOST_DOUBLINGS: usize = 8;
/// Delay before a part is sent again.
const PAUSE: Duration = Duration::from_millis(500);
/// Read at once by a copy, with several concurrent requests.
const COPIED_AT_ONCE: u64 = 32 << 20;
/// Concurrent uploads of parts.
const MAX_UNDER_WAY: usize = 4;

type Sending = JoinHandle<object_store::Result<PartId>>;

/// An object that is being written.
#[derive(Debug)]
pub(super) struct RemoteStaged {
    store: Arc<RemoteStore>,
    path: String,
    key: Path,
    /// The full path of the hidden name.
    hidden: Option<String>,
    buffer: BytesMut,
    /// Whether the first part is sent last.
    holds_start: bool,
    held: Option<BytesMut>,
    upload: Option<String>,
    sending: VecDeque<Sending>,
    sent: Vec<PartId>,
    written: u64,
    is_done: bool,
    unpublished: Unpublished,
    token: Token,
    process: u32,
}

impl RemoteStaged {
    /// With `hidden`, the object is created under that name next to `path`,
    /// and the caller renames it.
    pub(super) fn start(
        store: Arc<RemoteStore>,
        path: &str,
        hidden: Option<&str>,
        unpublished: &Unpublished,
    ) -> Result<Self> {
        let location = Location::parse(path)?;
        if let Some(why) = location.service.read_only() {
            return Err(Error::Stage {
                path: path.to_owned(),
                source: io::Error::new(io::ErrorKind::Unsupported, why),
            });
        }
        unpublished.check(path)?;
        Ok(Self {
            store,
            path: path.to_owned(),
            key: match hidden {
                Some(hidden) => Location::parse(&beside(path, hidden))?.object()?,
                None => location.object()?,
            },
            hidden: hidden.map(|hidden| beside(path, hidden)),
            buffer: BytesMut::new(),
            holds_start: false,
            held: None,
            upload: None,
            sending: VecDeque::new(),
            sent: Vec::new(),
            written: 0,
            is_done: false,
            unpublished: unpublished.clone(),
            token: Token::new(),
            process: std::process::id(),
        })
    }

    fn part_len(&self) -> usize {
        len_of_part(self.next_part())
    }

    fn next_part(&self) -> usize {
        self.sent.len() + self.sending.len() + usize::from(self.held.is_some())
    }

    fn parts(&self) -> Result<Arc<dyn MultipartStore>> {
        let unable = || {
            failed(
                self.path.clone(),
                Operation::Writing,
                io::Error::new(
                    io::ErrorKind::Unsupported,
                    "the store does not support multipart uploads",
                ),
            )
        };
        self.store.client()?.parts.clone().ok_or_else(unable)
    }

    /// Sends an idempotent request: its earlier effect is recognized by the token, or replaced.
    fn wait<T, F>(&self, operation: Operation, request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let answer = runtime::wait_patiently(self.store.patience(), request)
            .map_err(|source| failed(self.path.clone(), operation, source))?;
        answer.map_err(|error| error_of(&error, &self.path, operation, &self.store.options))
    }

    /// Sends the buffer as the next part, or holds it.
    fn send(&mut self) -> Result<()> {
        if self.holds_start && self.held.is_none() {
            self.held = Some(self.buffer.split());
            return Ok(());
        }
        self.send_as(self.next_part())
    }

    /// Sends the buffer as a part.
    fn send_as(&mut self, number: usize) -> Result<()> {
        let parts = self.parts()?;
        let upload = match self.upload.clone() {
            Some(upload) => upload,
            None => {
                let options = PutMultipartOptions {
                    attributes: self.token.attributes(),
                    ..PutMultipartOptions::default()
                };
                let upload = self.wait(Operation::Writing, || {
                    parts.create_multipart_opts(&self.key, options.clone())
                })?;
                self.upload = Some(upload.clone());
                upload
            }
        };
        while self.sending.len() >= MAX_UNDER_WAY {
            self.receive()?;
        }
        let (key, payload) = (self.key.clone(), PutPayload::from(self.buffer.split().freeze()));
        let (limiter, patience) =
            (Arc::clone(&self.store.client()?.limiter), self.store.patience());
        let request = async move {
            let _permit = limiter.acquire().await;
            let begun = Instant::now();
            loop {
                match parts.put_part(&key, &upload, number, payload.clone()).await {
                    Err(error) if is_transient(&error) && begun.elapsed() < patience => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    answer => return answer,
                }
            }
        };
        self.sending.push_back(
            runtime::spawn(request)
                .map_err(|source| failed(self.path.clone(), Operation::Writing, source))?,
        );
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        let Some(sending) = self.sending.pop_front() else { return Ok(()) };
        let part = runtime::wait(sending)
            .map_err(|source| failed(self.path.clone(), Operation::Writing, source))?;
        let part = part.map_err(|error| {
            failed(self.path.clone(), Operation::Writing, io::Error::other(error))
        })?;
        self.sent.push(part.map_err(|error| {
            error_of(&error, &self.path, Operation::Writing, &self.store.options)
        })?);
        Ok(())
    }

    /// Uploads everything without a name. An object sent in one request stays in memory.
    fn finish(&mut self) -> Result<()> {
        if self.upload.is_some() && !self.buffer.is_empty() {
            self.send()?;
        }
        let held = self.held.take();
        let is_first_last = held.is_some() && self.upload.is_some();
        if let Some(mut held) = held {
            held.unsplit(self.buffer.split());
            self.buffer = held;
        }
        if is_first_last {
            self.send_as(0)?;
        }
        while !self.sending.is_empty() {
            self.receive()?;
        }
        if is_first_last {
            self.sent.rotate_right(1);
        }
        Ok(())
    }

    fn complete(&mut self, replace: Replace) -> Result<()> {
        self.unpublished.check(&self.path)?;
        self.finish()?;
        let client = self.store.client()?;
        match self.upload.clone() {
            None => {
                let payload = PutPayload::from(self.buffer.split().freeze());
                let mode =
                    if replace == Replace::Never { PutMode::Create } else { PutMode::Overwrite };
                let options = PutOptions {
                    mode,
                    attributes: self.token.attributes(),
                    ..PutOptions::default()
                };
                let put = || {
                    self.wait(Operation::Publishing, || {
                        client.objects.put_opts(&self.key, payload.clone(), options.clone())
                    })
                };
                self.once(|| put().map(drop))?;
            }
            Some(upload) => {
                let parts = self.parts()?;
                if replace == Replace::Never {
                    self.refuse_taken()?;
                    client.conditional.add(&upload);
                }
                let complete = || {
                    self.wait(Operation::Publishing, || {
                        parts.complete_multipart(&self.key, &upload, self.sent.clone())
                    })
                };
                let completed = self.once(|| complete().map(drop));
                client.conditional.remove(&upload);
                completed?;
            }
        }
        self.store.forget(&self.key);
        self.is_done = true;
        Ok(())
    }

    /// If a response was lost, the repeated request finds the object of the first one. Two
    /// concurrent writers may both be rejected.
    fn once(&self, request: impl Fn() -> Result<()>) -> Result<()> {
        let begun = Instant::now();
        loop {
            let refused = match request() {
                Err(refused @ (Error::AlreadyExists { .. } | Error::NotFound { .. })) => refused,
                published => return published,
            };
            let is_conflict = matches!(refused, Error::AlreadyExists { .. });
            match self.is_ours() {
                Some(true) => return Ok(()),
                None if is_conflict && begun.elapsed() < self.store.patience() => {
                    std::thread::sleep(PAUSE);
                }
                _ => return Err(refused),
            }
        }
    }

    /// Whether the object belongs to this writer; `None` when it does not exist.
    fn is_ours(&self) -> Option<bool> {
        let Ok(client) = self.store.client() else { return Some(false) };
        match runtime::wait_patiently(self.store.patience(), || {
            client.objects.get_opts(&self.key, head_only())
        }) {
            Ok(Ok(answer)) => Some(self.token.is_of(&answer.attributes)),
            Ok(Err(object_store::Error::NotFound { .. })) => None,
            _ => Some(false),
        }
    }

    /// For stores without conditional requests; there, two concurrent writers may both succeed.
    fn refuse_taken(&self) -> Result<()> {
        let client = self.store.client()?;
        match runtime::wait(client.objects.head(&self.key)) {
            Ok(Ok(_)) => Err(Error::AlreadyExists { path: self.path.clone() }),
            _ => Ok(()),
        }
    }
}

/// Creates the object `to` with the content of `from`, through this process: S3 copies at most 5
/// GiB, and replaces an existing object.
///
/// # Errors
/// [`Error::NotFound`] when there is no object `from`; as [`Staged::publish`].
pub(super) fn copy_through(
    store: &Arc<RemoteStore>,
    from: &str,
    to: &str,
    replace: Replace,
) -> Result<()> {
    let source = RemoteObject::open(store, from, 0)?;
    let mut copy =
        Box::new(RemoteStaged::start(Arc::clone(store), to, None, &Unpublished::default())?);
    let mut start = 0;
    while start < source.size() {
        let range = start..source.size().min(start + COPIED_AT_ONCE);
        start = range.end;
        for bytes in source.read_ranges(&[range])? {
            copy.write_all(&bytes)
                .map_err(|error| failed(to.to_owned(), Operation::Writing, error))?;
        }
    }
    copy.publish(replace)
}

fn len_of_part(number: usize) -> usize {
    PART << (number / PARTS_OF_A_SIZE).min(MOST_DOUBLINGS)
}

/// The path of `name` in the directory of `path`.
fn beside(path: &str, name: &str) -> String {
    path.rsplit_once('/')
        .map_or_else(|| name.to_owned(), |(directory, _)| format!("{directory}/{name}"))
}

impl Write for RemoteStaged {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let room = self.part_len().saturating_sub(self.buffer.len()).min(buffer.len());
        let part = buffer.get(..room).unwrap_or_default();
        if self.buffer.capacity() == 0 {
            self.buffer.reserve(buffer.len().min(PART));
        }
        self.buffer.extend_from_slice(part);
        self.written += part.len() as u64;
        if self.buffer.len() >= self.part_len() {
            self.send().map_err(io::Error::other)?;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Staged for RemoteStaged {
    fn publish(mut self: Box<Self>, replace: Replace) -> Result<()> {
        self.complete(replace)
    }

    fn seal(mut self: Box<Self>) -> Result<Sealed> {
        self.complete(Replace::Never)?;
        let path = self.hidden.clone().unwrap_or_else(|| self.path.clone());
        Ok(Sealed { path, target: self.path.clone(), bytes: self.written })
    }

    fn sync(&mut self) -> Result<()> {
        self.finish()
    }

    fn hold_start(&mut self) {
        self.holds_start = true;
    }

    fn replace_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        let start = match &mut self.held {
            Some(held) => held.get_mut(..bytes.len()),
            None if self.upload.is_none() => self.buffer.get_mut(..bytes.len()),
            None => None,
        };
        start.ok_or(io::ErrorKind::Unsupported)?.copy_from_slice(bytes);
        Ok(())
    }

    fn name(mut self: Box<Self>, name: Option<&str>, replace: Replace) -> Result<()> {
        let own = self.path.rsplit('/').next().unwrap_or_default();
        let wanted = name.unwrap_or(own);
        let renamed = (self.key.filename() != Some(wanted)).then(|| wanted.to_owned());
        let Some(name) = renamed else { return self.complete(replace) };
        let target = beside(&self.path, &name);
        let target_key = Location::parse(&target)?.object()?;
        if self.upload.is_none() {
            (self.key, self.path) = (target_key, target);
            return self.complete(replace);
        }
        // An upload has its key from the start, where an existing object must stay; another key
        // gets a copy.
        let first = self.hidden.clone().unwrap_or_else(|| self.path.clone());
        self.complete(Replace::Never)?;
        let copied = copy_through(&self.store, &first, &target, replace);
        let client = self.store.client()?;
        match self.wait(Operation::Publishing, || client.objects.delete(&self.key)) {
            // A request whose response was lost is repeated.
            Err(Error::NotFound { .. }) => copied,
            removed => copied.and(removed),
        }
    }
}

impl Drop for RemoteStaged {
    fn drop(&mut self) {
        // A forked child has a copy; the upload belongs to its parent.
        let is_over = self.is_done || self.process != std::process::id();
        let (Some(upload), false) = (self.upload.take(), is_over) else { return };
        let Ok(parts) = self.parts() else { return };
        let (key, sending) = (self.key.clone(), std::mem::take(&mut self.sending));
        let _unnamed_uploads_are_removed_by_the_bucket = runtime::wait(async move {
            for part in sending {
                part.abort();
            }
            tokio::time::timeout(Duration::from_secs(5), parts.abort_multipart(&key, &upload)).await
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_a_store_allows_hold_the_largest_object() {
        let parts: Vec<usize> = (0..10_000).map(len_of_part).collect();
        assert!(parts.iter().sum::<usize>() >= 5 << 40);
        assert_eq!((parts.first(), parts.last()), (Some(&(8 << 20)), Some(&(2 << 30))));
    }
}
