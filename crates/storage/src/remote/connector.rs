//! The layer between the client of a store and its connections. It counts requests, abandons
//! responses that do not start in time, sends a second request when the first is late, and reports
//! the load of the store to the limiter.

use super::azure;
use super::conditional::ConditionalUploads;
use super::google;
use super::limiter::ConcurrencyLimiter;
use super::retry::{Cause, Judge, METADATA_HOSTS, RequestError};
use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpService, ReqwestConnector,
};
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A response is late when it takes this many times as long as most responses.
const LATE: u32 = 4;
const LEAST_PATIENCE: Duration = Duration::from_millis(100);
const REMEMBERED: usize = 64;
/// With fewer samples no response counts as late.
const TELLING: usize = 16;

#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) limiter: Arc<ConcurrencyLimiter>,
    pub(super) counts: Arc<Counts>,
    pub(super) conditional: Arc<ConditionalUploads>,
    /// The longest wait for the start of a response.
    pub(super) patience: Duration,
    /// All responses are files.
    pub(super) is_web: bool,
    pub(super) allows_imdsv1: bool,
    /// Objects are asked for as an emulator of Google's store wants it.
    pub(super) asks_by_json: bool,
}

/// An endpoint that has never responded is waited for less long than a store that went away and may
/// come back.
const NOBODY_AFTER: Duration = Duration::from_secs(5);

/// The lowest expected upload rate in bytes per second, so that a slow upload is not taken for one
/// that hangs.
const SLOWEST_UPLOAD: u64 = 64 << 10;

const LONGEST_UPLOAD: Duration = Duration::from_secs(1200);

/// Counts of the requests of a process to one store.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) retried: Arc<AtomicU64>,
    pub(super) bytes: AtomicU64,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The read timeout starts with the first byte sent, and would end an upload over
        // a slow connection.
        let patient = options.clone().with_read_timeout(LONGEST_UPLOAD);
        let uploads = ReqwestConnector::default().connect(&patient)?;
        let watched = self.watched(ReqwestConnector::default().connect(options)?, uploads);
        Ok(self.judged(watched))
    }
}

impl Connector {
    /// Wraps `client` in the decisions about its responses, and counts those that are sent again.
    pub(super) fn judged(&self, client: HttpClient) -> HttpClient {
        let retried = Arc::clone(&self.counts.retried);
        HttpClient::new(Judge {
            client,
            is_web: self.is_web,
            allows_imdsv1: self.allows_imdsv1,
            retried,
        })
    }

    /// Wraps `inner`, and `uploads` for requests with a body, in the checks of this module.
    pub(super) fn watched(&self, inner: HttpClient, uploads: HttpClient) -> HttpClient {
        HttpClient::new(Watched {
            inner,
            uploads,
            by: self.clone(),
            latencies: Mutex::default(),
            has_answered: AtomicBool::new(false),
            first_try: OnceLock::new(),
            has_given_credentials: AtomicBool::new(false),
        })
    }
}

/// Not retried.
fn unreachable_host(what: &dyn Display) -> HttpError {
    RequestError::new(Cause::Unreachable, format!("the host does not respond: {what}"))
        .of_kind(HttpErrorKind::Unknown)
}

#[derive(Debug)]
struct Watched {
    inner: HttpClient,
    uploads: HttpClient,
    by: Connector,
    latencies: Mutex<VecDeque<Duration>>,
    has_answered: AtomicBool,
    first_try: OnceLock<Instant>,
    has_given_credentials: AtomicBool,
}

impl Watched {
    /// An error that is not retried.
    fn nobody_there(&self, error: HttpError) -> HttpError {
        let is_hopeless = !self.has_answered.load(Ordering::Relaxed)
            && self.first_try.get_or_init(Instant::now).elapsed() > NOBODY_AFTER;
        if !is_hopeless || error.kind() != HttpErrorKind::Connect {
            return error;
        }
        unreachable_host(&error)
    }

    /// How long the start of a response may take before another request is sent; `None` with too
    /// few samples.
    fn late_after(&self) -> Option<Duration> {
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        if latencies.len() < TELLING {
            return None;
        }
        let mut sorted: Vec<Duration> = latencies.iter().copied().collect();
        drop(latencies);
        sorted.sort_unstable();
        // Nine of ten responses were faster.
        let usual = sorted.get(sorted.len() * 9 / 10).copied()?;
        Some(usual.saturating_mul(LATE).max(LEAST_PATIENCE))
    }

    fn remember(&self, latency: Duration) {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        if latencies.len() == REMEMBERED {
            latencies.pop_front();
        }
        latencies.push_back(latency);
    }

    /// Whether a metadata server that does not exist was asked for long enough.
    fn is_given_up(&self, host: Option<&str>, answer: &Result<HttpResponse, HttpError>) -> bool {
        if host.is_none_or(|host| !METADATA_HOSTS.contains(&host)) {
            return false;
        }
        if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
            self.has_given_credentials.store(true, Ordering::Relaxed);
        }
        if answer.as_ref().is_ok_and(|answer| !answer.status().is_server_error()) {
            // A permanent error is not retried.
            return false;
        }
        let is_late = self.first_try.get().is_some_and(|first| first.elapsed() > NOBODY_AFTER);
        is_late && !self.has_given_credentials.load(Ordering::Relaxed)
    }

    async fn answered(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.by.counts.requests.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        self.first_try.get_or_init(|| begun);
        let content = request.body().content_length() as u64;
        let client = if content == 0 { &self.inner } else { &self.uploads };
        let patience = self
            .by
            .patience
            .saturating_add(Duration::from_secs(content / SLOWEST_UPLOAD))
            .min(LONGEST_UPLOAD.max(self.by.patience));
        let answer = tokio::time::timeout(patience, client.execute(request)).await;
        if content == 0 {
            self.remember(begun.elapsed());
        }
        if matches!(answer, Ok(Ok(_))) {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        answer.map(|answer| answer.map_err(|error| self.nobody_there(error))).unwrap_or_else(|_| {
            Err(RequestError::new(Cause::NoAnswer, "no answer in time")
                .of_kind(HttpErrorKind::Timeout))
        })
    }

    async fn hedged(
        &self,
        request: HttpRequest,
        late: Duration,
    ) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let second = HttpRequest::from_parts(parts.clone(), HttpRequestBody::empty());
        let first = self.answered(HttpRequest::from_parts(parts, body));
        tokio::pin!(first);
        if let Ok(answer) = tokio::time::timeout(late, &mut first).await {
            return answer;
        }
        self.by.counts.repeated.fetch_add(1, Ordering::Relaxed);
        let second = self.answered(second);
        tokio::pin!(second);
        tokio::select! {
            answer = &mut first => match answer {
                Err(_) => second.await,
                answered => answered,
            },
            answer = &mut second => match answer {
                Err(_) => first.await,
                answered => answered,
            },
        }
    }
}

#[async_trait]
impl HttpService for Watched {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_read = request.method() == "GET" || request.method() == "HEAD";
        if request.method() == "POST"
            && request.uri().query().is_some_and(|query| self.by.conditional.has(query))
        {
            request
                .headers_mut()
                .insert("if-none-match", object_store::HeaderValue::from_static("*"));
        }
        azure::add_to(&mut request).await?;
        let is_json = self.by.asks_by_json && google::ask_by_json(&mut request)?;
        let host = request.uri().host().map(ToOwned::to_owned);
        let mut answer = match self.late_after().filter(|_| is_read) {
            Some(late) => self.hedged(request, late).await,
            None => self.answered(request).await,
        };
        if self.is_given_up(host.as_deref(), &answer) {
            let who = host.unwrap_or_default();
            return Err(unreachable_host(&who));
        }
        if is_json {
            answer = google::whole(answer?).await;
        }
        match answer.as_ref().map(|answer| answer.status().as_u16()) {
            Ok(429 | 503) => self.by.limiter.slow_down(),
            Ok(200..=299) => self.by.limiter.went_well(),
            _ => {}
        }
        answer
    }
}
