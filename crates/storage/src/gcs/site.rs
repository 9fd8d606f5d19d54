//! Where the objects are and who asks for them, as the environment says when an object is opened.
//!
//! The invariant: a token goes to Google by TLS and nowhere else. An emulator gets none, and it alone may speak plain HTTP.

use std::env;
use std::io;
use std::time::Duration;
use ureq::http::HeaderValue;

const GOOGLE: &str = "https://storage.googleapis.com";
/// The name that Google's own clients read.
const EMULATOR: &str = "CLOUD_STORAGE_EMULATOR_ENDPOINT";
/// The names that Terraform and `gcloud` read. Google's client libraries have no variable for a token.
const TOKENS: [&str; 2] = ["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"];

/// Before the second attempt; the third waits four times as long.
const BACKOFF: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub(super) struct Site {
    /// Scheme and authority, without a slash at the end.
    pub(super) base: String,
    /// The header `Authorization`; asked again when a token has expired.
    pub(super) authorization: fn() -> io::Result<Option<HeaderValue>>,
    pub(super) backoff: Duration,
}

impl Site {
    /// # Errors
    /// When a variable holds what cannot be used.
    pub(super) fn from_environment() -> io::Result<Self> {
        match variable(EMULATOR)? {
            Some(endpoint) => Self::emulator(&endpoint),
            None => Ok(Self { base: GOOGLE.to_owned(), authorization: bearer_token, backoff: BACKOFF }),
        }
    }

    fn emulator(endpoint: &str) -> io::Result<Self> {
        let authority = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
        // What stands before an `@` is a password: it is neither sent nor shown.
        let is_usable = |authority: &str| {
            let host = authority.trim_end_matches('/');
            !host.is_empty() && !host.contains(['@', '?', '#', '/', ' '])
        };
        if !authority.is_some_and(is_usable) {
            return Err(invalid(format!("the environment variable {EMULATOR} must look like http://localhost:9000")));
        }
        Ok(Self { base: endpoint.trim_end_matches('/').to_owned(), authorization: || Ok(None), backoff: BACKOFF })
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.base.starts_with("https://")
    }

    /// The URL of the content of `gs://bucket/object`.
    ///
    /// # Errors
    /// When the path names no object.
    pub(super) fn url_of(&self, path: &str) -> io::Result<String> {
        let (_, name) = path.split_once("://").unwrap_or_default();
        let (bucket, object) = name.split_once('/').unwrap_or_default();
        if bucket.is_empty() || object.is_empty() {
            return Err(invalid("an object's path looks like gs://bucket/object".to_owned()));
        }
        Ok(format!("{}/storage/v1/b/{}/o/{}?alt=media", self.base, encoded(bucket), encoded(object)))
    }
}

fn bearer_token() -> io::Result<Option<HeaderValue>> {
    for name in TOKENS {
        if let Some(token) = variable(name)? {
            return bearer(&token).map(Some).ok_or_else(|| invalid(format!("the environment variable {name} does not hold an access token")));
        }
    }
    Ok(None)
}

pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    // Debug output of the header shows that it is there and not what it is.
    value.set_sensitive(true);
    Some(value)
}

/// A variable that is set to nothing is not set.
fn variable(name: &str) -> io::Result<Option<String>> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.trim().is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(invalid(format!("the environment variable {name} is not UTF-8"))),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// The name as one segment of a URL: a slash in it separates nothing there.
fn encoded(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_an_object_is_one_segment_of_the_url() {
        let site = Site::emulator("http://127.0.0.1:9000/").unwrap();
        let url = site.url_of("gs://bucket/a/b c?d#e%\r\né").unwrap();
        assert_eq!(url, "http://127.0.0.1:9000/storage/v1/b/bucket/o/a%2Fb%20c%3Fd%23e%25%0D%0A%C3%A9?alt=media");
    }

    #[test]
    fn path_without_an_object_is_an_error() {
        let site = Site::emulator("http://127.0.0.1:9000").unwrap();
        for path in ["gs://", "gs://bucket", "gs://bucket/", "gs:///object"] {
            assert!(site.url_of(path).is_err(), "{path}");
        }
    }

    #[test]
    fn endpoint_that_is_no_plain_address_is_refused_without_being_shown() {
        for endpoint in ["127.0.0.1:9000", "ftp://host", "http://", "http://name:secret@host", "http://host/path", "http://host?x"] {
            let error = Site::emulator(endpoint).unwrap_err().to_string();
            assert!(error.contains(EMULATOR) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn emulator_is_never_given_a_token() {
        let site = Site::emulator("https://host").unwrap();
        assert!((site.authorization)().unwrap().is_none());
    }

    #[test]
    fn token_is_not_shown() {
        let header = bearer(" ya29.secret\n").unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer ya29.secret");
        assert!(!format!("{header:?}").contains("secret"));
        assert!(bearer("a\r\nb: c").is_none() && bearer("a b").is_none());
    }
}
