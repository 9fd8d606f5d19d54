//! Converts errors of stores into errors of this crate, with the reason and the path
//! and without secrets.

use super::options::StorageOptions;
use super::retry::{Cause, cause_of, is_of_connection, request_error};
use crate::{Error, Refusal};
use std::io;

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Opening,
    Listing,
    Reading { offset: u64, len: usize },
    Writing,
    Publishing,
}

/// `failure` as an error about `path`, without secrets.
pub(super) fn error_of(
    failure: &object_store::Error,
    path: &str,
    operation: Operation,
    options: &StorageOptions,
) -> Error {
    let explanation = || {
        options
            .scrubbed(&request_error(failure).map_or_else(|| chain(failure), ToString::to_string))
    };
    if let Some(refusal) = refusal(failure) {
        return Error::Refused { path: path.to_owned(), refusal, explanation: explanation() };
    }
    let path = path.to_owned();
    match failure {
        object_store::Error::NotFound { .. } => Error::NotFound { path },
        object_store::Error::AlreadyExists { .. } => Error::AlreadyExists { path },
        object_store::Error::Precondition { .. }
            if matches!(operation, Operation::Reading { .. } | Operation::Opening) =>
        {
            Error::Changed { path }
        }
        object_store::Error::Precondition { .. } => Error::AlreadyExists { path },
        _ => failed(
            path,
            operation,
            io::Error::new(kind(failure), at_endpoint(&explanation(), options)),
        ),
    }
}

fn kind(failure: &object_store::Error) -> io::ErrorKind {
    match cause_of(failure) {
        Some(Cause::Unreachable) => io::ErrorKind::ConnectionRefused,
        Some(cause) if cause.is_transient() => io::ErrorKind::TimedOut,
        Some(_) => io::ErrorKind::Other,
        None if is_of_connection(failure) => io::ErrorKind::TimedOut,
        None => io::ErrorKind::Other,
    }
}

/// Adds the endpoint, which errors of bodies and timeouts do not name.
fn at_endpoint(text: &str, options: &StorageOptions) -> String {
    match options.endpoint().filter(|_| !text.contains("://")) {
        Some(endpoint) => format!("{text} (from {endpoint})"),
        None => text.to_owned(),
    }
}

pub(super) fn failed(path: String, operation: Operation, source: io::Error) -> Error {
    match operation {
        Operation::Opening => Error::Open { path, source },
        Operation::Listing => Error::List { path, source },
        Operation::Reading { offset, len } => Error::Read { path, offset, len, source },
        Operation::Writing => Error::Write { path, source },
        Operation::Publishing => Error::Publish { path, source },
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
    // Retries are not limited by number, so this part is meaningless.
    text.replace(&format!("max_retries: {}, ", usize::MAX), "")
        .trim()
        .trim_start_matches("Operation not supported: ")
        .to_owned()
}

fn refusal(failure: &object_store::Error) -> Option<Refusal> {
    match (cause_of(failure), failure) {
        (Some(Cause::CredentialSource), _) => Some(Refusal::CredentialSource),
        (Some(Cause::WholeFilesOnly), _) => Some(Refusal::WholeOnly),
        (Some(Cause::NoCredentials), _) => Some(Refusal::NoCredentials),
        (Some(Cause::Status { status, code, .. }), _) => {
            code.as_deref().and_then(of_code).or_else(|| of_status(*status))
        }
        (Some(Cause::Unreachable | Cause::NoAnswer | Cause::NoLength), _) => None,
        (None, object_store::Error::PermissionDenied { .. }) => Some(Refusal::Permission),
        (None, object_store::Error::Unauthenticated { .. }) => Some(Refusal::Credentials),
        (None, _) => None,
    }
}

/// Maps the codes of S3, Google and Azure, and of the Hugging Face Hub, which reports a private
/// data set as missing.
fn of_code(code: &str) -> Option<Refusal> {
    Some(match code {
        "RepoNotFound" => Refusal::NoSuchDataset,
        "RevisionNotFound" => Refusal::NoSuchRevision,
        "GatedRepo" => Refusal::Gated,
        "InvalidHubToken" => Refusal::Token,
        "NoSuchBucket" | "ContainerNotFound" => Refusal::NoSuchBucket,
        "ExpiredToken" | "TokenRefreshRequired" | "RequestExpired" => Refusal::Expired,
        "RequestTimeTooSkewed" => Refusal::Clock,
        "PermanentRedirect"
        | "AuthorizationHeaderMalformed"
        | "IllegalLocationConstraintException" => Refusal::Region,
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "InvalidToken"
        | "AuthenticationFailed"
        | "AuthorizationFailure" => Refusal::Credentials,
        _ => return None,
    })
}

fn of_status(status: u16) -> Option<Refusal> {
    match status {
        // A bucket in another region responds with a redirect, which signed requests do not follow.
        300..=399 => Some(Refusal::Region),
        401 => Some(Refusal::Credentials),
        // Returned by a listing; a missing object is a separate error.
        404 => Some(Refusal::NoSuchBucket),
        403 => Some(Refusal::Permission),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::retry::RequestError;
    use super::*;
    use object_store::client::HttpErrorKind;

    fn answered(status: u16, code: Option<&str>) -> object_store::Error {
        let cause = Cause::Status { status, code: code.map(str::to_owned), retry_after: None };
        let error = RequestError::new(cause, "explained").of_kind(HttpErrorKind::Unknown);
        object_store::Error::Generic { store: "S3", source: Box::new(error) }
    }

    #[test]
    fn refusal_is_known_by_its_code_before_its_status() {
        for (status, code, wanted) in [
            (403, Some("AuthorizationPermissionMismatch"), Some(Refusal::Permission)),
            (403, Some("AuthenticationFailed"), Some(Refusal::Credentials)),
            (403, Some("RequestTimeTooSkewed"), Some(Refusal::Clock)),
            (400, Some("ExpiredToken"), Some(Refusal::Expired)),
            (404, Some("NoSuchBucket"), Some(Refusal::NoSuchBucket)),
            (401, None, Some(Refusal::Credentials)),
            (301, None, Some(Refusal::Region)),
            (500, None, None),
            (405, None, None),
        ] {
            assert_eq!(refusal(&answered(status, code)), wanted, "{status} {code:?}");
        }
    }

    #[test]
    fn silence_is_an_outage_that_names_who_was_asked() {
        let options = StorageOptions::new([("endpoint".to_owned(), "http://host:1".to_owned())]);
        let silence =
            RequestError::new(Cause::NoAnswer, "no answer in time").of_kind(HttpErrorKind::Timeout);
        let silence = object_store::Error::Generic { store: "S3", source: Box::new(silence) };
        let error =
            error_of(&silence, "s3://b/k", Operation::Reading { offset: 0, len: 1 }, &options);
        assert!(
            error.is_outage() && error.hint().is_some_and(|hint| hint.contains("retry_timeout"))
        );
        assert!(
            std::error::Error::source(&error)
                .is_some_and(|source| source.to_string().contains("http://host:1"))
        );
    }
}
