//! What the environment says of Google's store to Google's own tools, beside what object_store reads from it.
//!
//! The invariant: a token of the environment goes to Google and to nobody else; an emulator gets none.

use std::env;

/// The names that Google's client libraries read, the first that is set.
const EMULATORS: [&str; 2] = ["CLOUD_STORAGE_EMULATOR_ENDPOINT", "STORAGE_EMULATOR_HOST"];
/// The names that Terraform and `gcloud` read. Google's client libraries have no variable for a token.
const TOKENS: [&str; 2] = ["GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"];

/// Address of the emulator that is to be asked in place of Google.
///
/// # Errors
/// When a variable holds what is no address.
pub(super) fn emulator() -> Result<Option<String>, String> {
    for name in EMULATORS {
        if let Some(text) = variable(name) {
            let address = address_of(&text).ok_or_else(|| format!("the environment variable {name} must look like http://localhost:9000"))?;
            return Ok(Some(address));
        }
    }
    Ok(None)
}

/// With scheme and authority, and without a slash at its end. What stands before an `@` is a password, which is neither sent nor shown.
fn address_of(text: &str) -> Option<String> {
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = reqwest::Url::parse(&text).ok()?;
    let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none() && url.path() == "/";
    (matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain).then(|| text.trim_end_matches('/').to_owned())
}

/// What the environment says who asks.
pub(super) fn token() -> Option<String> {
    TOKENS.into_iter().find_map(variable)
}

/// A variable that is set to nothing is not set.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulator_is_named_with_or_without_its_scheme() {
        for (text, address) in
            [("http://127.0.0.1:9000/", "http://127.0.0.1:9000"), ("localhost:4443", "http://localhost:4443"), ("https://host", "https://host")]
        {
            assert_eq!(address_of(text).as_deref(), Some(address));
        }
    }

    #[test]
    fn what_is_no_plain_address_is_no_emulator() {
        for text in ["ftp://host", "http://", "http://name:secret@host", "http://host/path", "http://host?x", "a b"] {
            assert_eq!(address_of(text), None, "{text}");
        }
    }
}
