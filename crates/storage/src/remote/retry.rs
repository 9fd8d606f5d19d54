//! Why a request to a store failed, as data: the status and code of the response, or how far the
//! request got.
//!
//! [`Judge`] turns responses into errors that carry a [`Cause`]; object_store passes them on, and
//! [`cause_of`] finds them again. The invariant: decisions about errors depend on a [`Cause`],
//! never on the text of an error.

use super::keys;
use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The metadata servers of virtual machines. On other machines these addresses do not respond, or a
/// proxy responds in its own way.
pub(super) const METADATA_HOSTS: [&str; 3] =
    ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

/// Longer explanations of servers are truncated.
const MAX_EXPLANATION: usize = 600;

/// Codes of status 400 responses that are transient.
const TRANSIENT: [&str; 4] = ["RequestTimeout", "IncompleteBody", "BadDigest", "InternalError"];

/// Codes of status 404 responses that mean more than one missing object.
const MISSING_ROOTS: [&str; 4] =
    ["NoSuchBucket", "ContainerNotFound", "RepoNotFound", "RevisionNotFound"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// The store responded.
    Status { status: u16, code: Option<String>, retry_after: Option<Duration> },
    /// The endpoint never responded.
    Unreachable,
    /// No response started in time.
    NoAnswer,
    /// The server does not state the length of its response.
    NoLength,
    /// The server sends only whole files, and this one is too large for that.
    WholeFilesOnly,
    /// The user's credential provider failed.
    CredentialSource,
    /// No credentials were found, and this machine does not provide its own.
    NoCredentials,
}

impl Cause {
    /// Whether the same request may succeed later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::NoAnswer => true,
            Self::Status { status: 501, .. } => false,
            // Status 416: a truncated response was continued past the end of the object.
            Self::Status { status: 408 | 416 | 425 | 429 | 500..=599, .. } => true,
            // Responses to HEAD have no code: their status 400 is usually caused
            // by expired credentials.
            Self::Status { status: 400, code: Some(code), .. } => {
                TRANSIENT.contains(&code.as_str())
            }
            _ => false,
        }
    }
}

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct RequestError {
    pub(super) cause: Cause,
    text: String,
}

impl RequestError {
    pub(super) fn new(cause: Cause, text: impl Into<String>) -> Self {
        Self { cause, text: text.into() }
    }

    /// As a connection error. object_store retries requests that failed
    /// with `kind` [`HttpErrorKind::Request`].
    pub(super) fn of_kind(self, kind: HttpErrorKind) -> HttpError {
        HttpError::new(kind, self)
    }
}

/// The first error of type `E` in a chain of sources.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |error| (**error).source())
        .find_map(|error| error.downcast_ref())
}

pub(super) fn request_error(error: &object_store::Error) -> Option<&RequestError> {
    find(error)
}

pub(super) fn cause_of(error: &object_store::Error) -> Option<&Cause> {
    request_error(error).map(|error| &error.cause)
}

/// Whether a connection broke or was never established.
pub(super) fn is_of_connection(error: &object_store::Error) -> bool {
    find::<HttpError>(error).is_some()
}

/// Whether the same request may succeed later.
pub(super) fn is_transient(error: &object_store::Error) -> bool {
    match cause_of(error) {
        Some(cause) => cause.is_transient(),
        None => matches!(
            error,
            object_store::Error::Generic { .. } | object_store::Error::JoinError { .. }
        ),
    }
}

/// Whether the store responded that the object does not exist, or is not accessible to this user.
pub(super) fn is_refusal(error: &object_store::Error) -> bool {
    matches!(cause_of(error), Some(Cause::Status { status: 401 | 403, .. }))
        || matches!(
            error,
            object_store::Error::NotFound { .. }
                | object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. }
        )
}

/// Whether the store responded that a range begins past the end of the object.
pub(super) fn is_past_end(error: &object_store::Error) -> bool {
    matches!(cause_of(error), Some(Cause::Status { status: 416, .. }))
}

/// Turns error responses into errors with a [`Cause`], except those
/// that object_store handles itself.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) client: HttpClient,
    /// All responses are files, whose length must be known.
    pub(super) is_web: bool,
    /// If a metadata server rejects a token, it is asked without one.
    pub(super) allows_imdsv1: bool,
    /// Requests that object_store sends again, unless its time is over.
    pub(super) retried: Arc<AtomicU64>,
}

#[async_trait]
impl HttpService for Judge {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let judged = self.judged(request).await;
        if judged.as_ref().is_err_and(|error| error.kind() != HttpErrorKind::Unknown) {
            self.retried.fetch_add(1, Ordering::Relaxed);
        }
        judged
    }
}

impl Judge {
    async fn judged(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_metadata = request.uri().host().is_some_and(|host| METADATA_HOSTS.contains(&host));
        let is_listing = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("list-type=") || query.contains("comp=list"));
        let is_read = request.method() == "GET" || request.method() == "HEAD";
        let answer = match self.client.execute(request).await {
            Err(error) if is_metadata => {
                let kind = error.kind();
                return Err(
                    RequestError::new(Cause::NoCredentials, error.to_string()).of_kind(kind)
                );
            }
            answer => answer?,
        };
        let status = answer.status().as_u16();
        if answer.status().is_success() {
            if self.is_web && is_read && !answer.headers().contains_key("content-length") {
                return Err(RequestError::new(
                    Cause::NoLength,
                    "the server does not state a Content-Length",
                )
                .of_kind(HttpErrorKind::Unknown));
            }
            return if is_listing && is_read {
                keys::with_escaped_keys(answer).await
            } else {
                Ok(answer)
            };
        }
        if matches!(status, 304 | 409 | 412) || (status == 403 && is_metadata && self.allows_imdsv1)
        {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let body = body.bytes().await?;
        let content = String::from_utf8_lossy(&body);
        let header = |name: &str| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let code = header("x-error-code")
            .or_else(|| header("x-ms-error-code"))
            .or_else(|| element(&content, "Code"));
        if status == 404
            && !is_metadata
            && !is_listing
            && !code.as_deref().is_some_and(|code| MISSING_ROOTS.contains(&code))
        {
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(body)));
        }
        let message = header("x-error-message")
            .or_else(|| element(&content, "Message"))
            .unwrap_or_else(|| content.trim().to_owned());
        let text = explained(
            parts.status.as_str(),
            parts.status.canonical_reason().unwrap_or_default(),
            code.as_deref(),
            &message,
        );
        let retry_after = header("retry-after")
            .and_then(|seconds| seconds.trim().parse().ok())
            .map(Duration::from_secs);
        let cause = if is_metadata {
            Cause::NoCredentials
        } else {
            Cause::Status { status, code, retry_after }
        };
        // An unsatisfiable range is not retried here; the object is requested again elsewhere.
        let is_repeated = cause.is_transient() && status != 416;
        if is_repeated {
            tracing::info!(target: "shardmill.storage", "retrying a request: {text}");
        }
        let kind = if is_repeated { HttpErrorKind::Request } else { HttpErrorKind::Unknown };
        Err(RequestError::new(cause, text).of_kind(kind))
    }
}

fn explained(status: &str, reason: &str, code: Option<&str>, message: &str) -> String {
    let message = match message.char_indices().nth(MAX_EXPLANATION) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    };
    match (code, message.is_empty()) {
        (Some(code), false) => format!("{message} ({code})"),
        (Some(code), true) => format!("status {status} {reason} ({code})"),
        (None, false) => format!("status {status} {reason}: {message}"),
        (None, true) => format!("status {status} {reason}"),
    }
}

/// The content of an element of an XML response.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(value, _)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, code: Option<&str>) -> Cause {
        Cause::Status { status, code: code.map(str::to_owned), retry_after: None }
    }

    #[test]
    fn final_answers_are_not_asked_for_again_and_transient_ones_are() {
        for cause in [
            status(405, None),
            status(400, None),
            status(501, None),
            status(403, None),
            status(404, None),
            Cause::Unreachable,
            Cause::NoLength,
        ] {
            assert!(!cause.is_transient(), "{cause:?}");
        }
        for cause in [
            status(500, None),
            status(503, None),
            status(429, None),
            status(408, None),
            status(400, Some("IncompleteBody")),
            Cause::NoAnswer,
        ] {
            assert!(cause.is_transient(), "{cause:?}");
        }
    }

    /// Answers every request with one status, headers and body.
    #[derive(Debug)]
    struct Fixed(u16, &'static [(&'static str, &'static str)], &'static str);

    #[async_trait]
    impl HttpService for Fixed {
        async fn call(&self, _request: HttpRequest) -> Result<HttpResponse, HttpError> {
            let mut answer = HttpResponse::new(HttpResponseBody::from(self.2.to_owned()));
            *answer.status_mut() = self.0.try_into().unwrap();
            for (name, value) in self.1 {
                answer.headers_mut().insert(*name, object_store::HeaderValue::from_static(value));
            }
            Ok(answer)
        }
    }

    async fn judged(fixed: Fixed) -> Result<u16, (Cause, HttpErrorKind, String)> {
        let judge = Judge {
            client: HttpClient::new(fixed),
            is_web: false,
            allows_imdsv1: false,
            retried: Arc::default(),
        };
        let request = HttpRequest::new(object_store::client::HttpRequestBody::empty());
        judge.call(request).await.map(|answer| answer.status().as_u16()).map_err(|error| {
            let kind = error.kind();
            // Wrapped as object_store does it.
            let error = object_store::Error::Generic { store: "S3", source: Box::new(error) };
            (cause_of(&error).cloned().unwrap(), kind, request_error(&error).unwrap().to_string())
        })
    }

    #[tokio::test]
    async fn code_is_found_in_headers_and_in_xml_and_survives_the_client() {
        let denied = judged(Fixed(
            403,
            &[],
            "<Error><Code>AccessDenied</Code><Message>No way</Message></Error>",
        ))
        .await;
        assert_eq!(
            denied,
            Err((
                status(403, Some("AccessDenied")),
                HttpErrorKind::Unknown,
                "No way (AccessDenied)".to_owned()
            ))
        );
        let azure = judged(Fixed(403, &[("x-ms-error-code", "AuthenticationFailed")], "")).await;
        assert_eq!(
            azure.map_err(|(cause, ..)| cause),
            Err(status(403, Some("AuthenticationFailed")))
        );
        let busy = judged(Fixed(503, &[("retry-after", "7")], "<Code>SlowDown</Code>")).await;
        let cause = Cause::Status {
            status: 503,
            code: Some("SlowDown".to_owned()),
            retry_after: Some(Duration::from_secs(7)),
        };
        assert_eq!(
            busy.map_err(|(cause, kind, _)| (cause, kind)),
            Err((cause, HttpErrorKind::Request))
        );
    }

    #[tokio::test]
    async fn answers_that_the_client_acts_on_are_left_to_it() {
        for passed in [200, 204, 304, 404, 409, 412] {
            assert_eq!(judged(Fixed(passed, &[], "")).await, Ok(passed));
        }
        let bucket = judged(Fixed(404, &[], "<Code>NoSuchBucket</Code>")).await;
        assert_eq!(bucket.map_err(|(cause, ..)| cause), Err(status(404, Some("NoSuchBucket"))));
    }
}
