//! What the refusals of stores mean.

use super::connector::METADATA_HOSTS;
use super::credentials::SOURCE_FAILED;
use super::options::StorageOptions;
use crate::{Error, Refusal};
use std::io;

/// Longer explanations of servers are cut.
const MAX_EXPLANATION: usize = 600;

/// Codes of bad requests that went wrong on their way.
const PASSING: [&str; 4] = ["RequestTimeout", "IncompleteBody", "BadDigest", "InternalError"];

/// What an endpoint is that was never there.
pub(super) const NOBODY: &str = "nobody answers there";
pub(super) const NO_ANSWER: &str = "no answer in time";

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
        _ => failed(path, doing, io::Error::new(kind(&text), cut(&at_endpoint(&text, options)))),
    }
}

/// Of what no answer explains.
fn kind(text: &str) -> io::ErrorKind {
    if text.contains(NOBODY) {
        return io::ErrorKind::ConnectionRefused;
    }
    // Answers that were given name their status; everything else was a connection.
    let is_connection = text.contains(NO_ANSWER) || text.contains("HTTP error") || text.contains("retry_timeout");
    if is_connection && !text.contains("status code: 4") { io::ErrorKind::TimedOut } else { io::ErrorKind::Other }
}

/// Where a body stays away, nobody has said yet who was asked.
fn at_endpoint(text: &str, options: &StorageOptions) -> String {
    let text = text.replace(&format!("max_retries: {}, ", usize::MAX), "");
    match options.endpoint().filter(|_| !text.contains("://")) {
        Some(endpoint) => format!("{text} (from {endpoint})"),
        None => text,
    }
}

/// Whether the same request may go well a moment later.
pub(super) fn may_pass(failure: &object_store::Error) -> bool {
    let is_unclear = matches!(failure, object_store::Error::Generic { .. } | object_store::Error::JoinError { .. });
    let text = chain(failure);
    is_unclear && refusal(failure, &text).is_none() && !text.contains(NOBODY) && !text.contains(NO_LENGTH) && !is_final(&text)
}

/// Answers that say the same however often they are asked for. An answer to HEAD has no words: of its 400, credentials that have expired are the cause.
fn is_final(text: &str) -> bool {
    let Some((_, answer)) = text.split_once("status code: ") else { return false };
    let (status, words) = answer.split_at_checked(3).unwrap_or_default();
    let may_differ = PASSING.iter().any(|code| words.contains(code));
    matches!(status, "404" | "405" | "411" | "413" | "414" | "501") || (status == "400" && !may_differ)
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
    if says(&["InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthenticationFailed", "Server failed to authenticate the request"]) {
        return Some(Refusal::Credentials);
    }
    if says(&METADATA_HOSTS) {
        return Some(Refusal::NoCredentials);
    }
    match failure {
        object_store::Error::PermissionDenied { .. } => Some(Refusal::Permission),
        object_store::Error::Unauthenticated { .. } => Some(Refusal::Credentials),
        // Listings are refused without a kind of their own.
        _ if says(&["AccessDenied", "status code: 403"]) => Some(Refusal::Permission),
        _ if says(&["status code: 401"]) => Some(Refusal::Credentials),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_for_good_is_not_asked_for_again() {
        let answered =
            |text: &str| object_store::Error::Generic { store: "S3", source: format!("Server returned non-2xx status code: {text}").into() };
        for final_answer in ["405 Method Not Allowed: <Error/>", "400 Bad Request: ", "501 Not Implemented: "] {
            assert!(!may_pass(&answered(final_answer)), "{final_answer}");
        }
        // An answer that announced more than there is was asked for its rest.
        assert!(may_pass(&answered("416 Range Not Satisfiable: <Error/>")));
        let with_words = "400 Bad Request: <Error><Code>IncompleteBody</Code></Error>";
        for passing in ["500 Internal Server Error: ", "503 Slow Down: ", "429 Too Many Requests: ", "408 Request Timeout: ", with_words] {
            assert!(may_pass(&answered(passing)), "{passing}");
        }
    }

    #[test]
    fn refusal_of_a_listing_is_known_by_its_words_or_its_status() {
        let answered =
            |text: &str| object_store::Error::Generic { store: "Azure", source: format!("Server returned non-2xx status code: {text}").into() };
        for (text, wanted) in [
            ("403 Forbidden: <Code>AuthorizationPermissionMismatch</Code>", Refusal::Permission),
            ("403 Forbidden: <Code>AuthenticationFailed</Code>", Refusal::Credentials),
            ("401 Unauthorized: ", Refusal::Credentials),
        ] {
            let failure = answered(text);
            assert_eq!(refusal(&failure, &chain(&failure)), Some(wanted), "{text}");
            assert!(!may_pass(&failure), "{text}");
        }
    }

    #[test]
    fn silence_is_an_outage_that_names_who_was_asked() {
        let options = StorageOptions::new([("endpoint".to_owned(), "http://host:1".to_owned())]);
        let silence = object_store::Error::Generic { store: "S3", source: "HTTP error: request or response body error: operation timed out".into() };
        let error = error_of(&silence, "s3://b/k", Doing::Reading { offset: 0, len: 1 }, &options);
        assert!(error.is_outage() && error.hint().is_some_and(|hint| hint.contains("retry_timeout")));
        assert!(std::error::Error::source(&error).is_some_and(|source| source.to_string().contains("http://host:1")));
    }
}
