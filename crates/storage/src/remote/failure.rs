//! What the refusals of stores mean.

use super::credentials::SOURCE_FAILED;
use super::options::StorageOptions;
use crate::{Error, Refusal};
use std::io;

/// Longer explanations of servers are cut.
const MAX_EXPLANATION: usize = 600;

/// What an endpoint is that was never there.
pub(super) const NOBODY: &str = "nobody answers there";

/// A server that does not say how long its answer is will not say so later.
const NO_LENGTH: &str = "Content-Length Header missing";

/// What a server is that sends files from their start to their end only.
pub(super) const WHOLE_ONLY: &str = "the server sends files whole only";

/// What was being done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Opening,
    Listing,
    Reading { offset: u64, len: usize },
    Writing,
    Publishing,
}

/// `failure` as an error about `path`, without secrets.
pub(super) fn error_of(failure: &object_store::Error, path: &str, doing: Doing, options: &StorageOptions) -> Error {
    let text = options.scrubbed(&chain(failure));
    if let Some(refusal) = refusal(failure, &text) {
        return Error::Refused { path: path.to_owned(), refusal, explanation: cut(&text) };
    }
    let path = path.to_owned();
    match failure {
        object_store::Error::NotFound { .. } => Error::NotFound { path },
        object_store::Error::AlreadyExists { .. } => Error::AlreadyExists { path },
        object_store::Error::Precondition { .. } if matches!(doing, Doing::Reading { .. } | Doing::Opening) => Error::Changed { path },
        object_store::Error::Precondition { .. } => Error::AlreadyExists { path },
        _ => failed(path, doing, io::Error::other(cut(&text))),
    }
}

/// Whether the same request may go well a moment later.
pub(super) fn may_pass(failure: &object_store::Error) -> bool {
    let is_unclear = matches!(failure, object_store::Error::Generic { .. } | object_store::Error::JoinError { .. });
    let text = chain(failure);
    is_unclear && refusal(failure, &text).is_none() && !text.contains(NOBODY) && !text.contains(NO_LENGTH)
}

pub(super) fn failed(path: String, doing: Doing, source: io::Error) -> Error {
    match doing {
        Doing::Opening => Error::Open { path, source },
        Doing::Listing => Error::List { path, source },
        Doing::Reading { offset, len } => Error::Read { path, offset, len, source },
        Doing::Writing => Error::Write { path, source },
        Doing::Publishing => Error::Publish { path, source },
    }
}

fn chain(failure: &object_store::Error) -> String {
    let mut text = failure.to_string();
    let mut source = std::error::Error::source(failure);
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

/// What the server says, of an answer in XML.
fn said(text: &str) -> Option<String> {
    let part = |name: &str| text.split_once(&format!("<{name}>"))?.1.split_once(&format!("</{name}>")).map(|(value, _)| value.trim());
    Some(format!("{} ({})", part("Message")?, part("Code")?))
}

fn cut(text: &str) -> String {
    let text = &*said(text).unwrap_or_else(|| text.trim().trim_start_matches("Operation not supported: ").to_owned());
    match text.char_indices().nth(MAX_EXPLANATION) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Of the Hugging Face Hub, which says of a data set that is private that there is none.
const HUB_CODES: [(&str, Refusal); 4] = [
    ("RepoNotFound", Refusal::NoSuchDataset),
    ("RevisionNotFound", Refusal::NoSuchRevision),
    ("GatedRepo", Refusal::Gated),
    ("Invalid credentials in Authorization header", Refusal::Token),
];

/// The codes are those of S3; others say the same by their status.
fn refusal(failure: &object_store::Error, text: &str) -> Option<Refusal> {
    let says = |codes: &[&str]| codes.iter().any(|code| text.contains(code));
    if says(&[SOURCE_FAILED]) {
        return Some(Refusal::CredentialSource);
    }
    if says(&[WHOLE_ONLY]) {
        return Some(Refusal::WholeOnly);
    }
    if let Some((_, refusal)) = HUB_CODES.iter().find(|(code, _)| says(&[code])) {
        return Some(*refusal);
    }
    if says(&["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]) {
        return Some(Refusal::NoSuchBucket);
    }
    if says(&["ExpiredToken", "TokenRefreshRequired", "RequestExpired", "The provided token has expired"]) {
        return Some(Refusal::Expired);
    }
    if says(&["RequestTimeTooSkewed"]) {
        return Some(Refusal::Clock);
    }
    if says(&["PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraint", "without following redirect", "BareRedirect"]) {
        return Some(Refusal::Region);
    }
    if says(&["InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthenticationFailed"]) {
        return Some(Refusal::Credentials);
    }
    if says(&["169.254.169.254", "169.254.170.2", "metadata.google.internal"]) {
        return Some(Refusal::NoCredentials);
    }
    match failure {
        object_store::Error::PermissionDenied { .. } => Some(Refusal::Permission),
        object_store::Error::Unauthenticated { .. } => Some(Refusal::Credentials),
        _ if says(&["AccessDenied"]) => Some(Refusal::Permission),
        _ => None,
    }
}
