//! What the environment says of Google's store to Google's own tools, beside what object_store
//! reads from it; and how an emulator is asked.
//!
//! The invariant: a token from the environment is sent only to Google; an emulator gets none.

use object_store::HeaderValue;
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody};
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderMap, IF_MATCH, LAST_MODIFIED};
use std::env;
use std::time::Duration;

/// Google's client for C++ reads it, and so does array_record: what it names need not speak the XML
/// API, in which object_store asks.
const JSON_EMULATOR: &str = "CLOUD_STORAGE_EMULATOR_ENDPOINT";
/// The names that Google's client libraries read, the first that is set.
const EMULATORS: [&str; 2] = [JSON_EMULATOR, "STORAGE_EMULATOR_HOST"];
/// Far longer than a connection takes to become free after the end of an answer.
const RETURN: Duration = Duration::from_millis(2);
/// The names that Terraform and `gcloud` read. Google's client libraries
/// have no variable for a token.
const TOKENS: [&str; 2] = ["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"];

/// Address of the emulator to use instead of Google.
///
/// # Errors
/// When a variable does not hold a valid address.
pub(super) fn emulator() -> Result<Option<String>, String> {
    for name in EMULATORS {
        if let Some(text) = variable(name) {
            let address = address_of(&text).ok_or_else(|| {
                format!("the environment variable {name} must look like http://localhost:9000")
            })?;
            return Ok(Some(address));
        }
    }
    Ok(None)
}

/// Whether objects of the emulator are read by the JSON API.
pub(super) fn has_json_emulator() -> bool {
    variable(JSON_EMULATOR).is_some()
}

/// Makes of a request for an object, which is in the XML API, the one in the JSON API; false when
/// it asks for something else.
pub(super) fn ask_by_json(request: &mut HttpRequest) -> Result<bool, HttpError> {
    let uri = request.uri();
    let is_read = matches!(request.method().as_str(), "GET" | "HEAD") && uri.query().is_none();
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Ok(false);
    };
    // A slash in the name of an object is encoded already.
    let Some((bucket, object)) =
        uri.path().get(1..).and_then(|path| path.split_once('/')).filter(|_| is_read)
    else {
        return Ok(false);
    };
    let address = format!("{scheme}://{authority}/storage/v1/b/{bucket}/o/{object}?alt=media");
    *request.uri_mut() =
        address.parse().map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
    // The tag may be one that `complete` made up; versions are compared when the answer is there.
    request.headers_mut().remove(IF_MATCH);
    Ok(true)
}

/// The whole answer of an emulator. The next request finds its connection free: the tests of
/// array_record count connections, too.
pub(super) async fn whole(answer: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (mut parts, body) = answer.into_parts();
    complete(&mut parts.headers);
    let body = body.bytes().await?;
    tokio::time::sleep(RETURN).await;
    Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(body)))
}

/// Adds to an answer what object_store insists on and an emulator may leave out. Versions differ by
/// their number, or by their size where they have none.
fn complete(headers: &mut HeaderMap) {
    let generation = headers.get("x-goog-generation").cloned();
    let size = || {
        HeaderValue::from_str(headers.get(CONTENT_RANGE)?.to_str().ok()?.rsplit('/').next()?).ok()
    };
    let tag = generation.or_else(size).unwrap_or(HeaderValue::from_static(""));
    headers.entry(ETAG).or_insert(tag);
    headers
        .entry(LAST_MODIFIED)
        .or_insert(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
}

/// With scheme and authority, and without a slash at its end. What stands before an `@` is a
/// password, which is neither sent nor shown.
fn address_of(text: &str) -> Option<String> {
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = reqwest::Url::parse(&text).ok()?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.path() == "/";
    (matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain)
        .then(|| text.trim_end_matches('/').to_owned())
}

/// The access token from the environment.
pub(super) fn token() -> Option<String> {
    TOKENS.into_iter().find_map(variable)
}

/// An empty variable counts as unset.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
