//! Hides secrets in messages: values of options, credentials, and those parts of addresses that are
//! not the location.
//!
//! Messages quote paths, options and texts of other libraries, so the code that builds one cannot
//! know what it contains. Instead, secrets are registered where they enter the process, and every
//! message passes through [`redacted`] before a user sees it. The invariant: an option is treated
//! as secret unless it is known to be harmless.

mod addresses;

use crate::local::append_list::AppendList;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

pub use addresses::has_keys;
use addresses::{Url, without_keys_in_urls};
pub(crate) use addresses::{is_store_scheme, shown};

/// Options whose values may be shown, stored and sent. All others are secret.
const HARMLESS: [&str; 44] = [
    "account_name",
    "allow_http",
    "anon",
    "aws_allow_http",
    "aws_default_region",
    "aws_endpoint",
    "aws_endpoint_url",
    "aws_region",
    "aws_skip_signature",
    "aws_unsigned_payload",
    "aws_virtual_hosted_style_request",
    "azure_allow_http",
    "azure_endpoint",
    "azure_storage_account_name",
    "azure_storage_endpoint",
    "azure_storage_use_emulator",
    "base_url",
    "bucket",
    "bucket_name",
    "cache_bytes",
    "cache_dir",
    "checksum_algorithm",
    "connect_timeout",
    "container_name",
    "default_region",
    "endpoint",
    "endpoint_url",
    "google_base_url",
    "google_bucket",
    "google_skip_signature",
    "max_requests",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "profile",
    "region",
    "request_timeout",
    "retry_timeout",
    "revisions",
    "skip_signature",
    "timeout",
    "unsigned_payload",
    "use_emulator",
    "use_fabric_endpoint",
    "virtual_hosted_style_request",
];

/// Words in the name of an environment variable whose value is a secret.
const SECRET_WORDS: [&str; 14] = [
    "ACCOUNT",
    "AUTH",
    "AUTHORIZATION",
    "CREDENTIAL",
    "CREDENTIALS",
    "KEY",
    "PASSWD",
    "PASSWORD",
    "PROXY",
    "SAS",
    "SECRET",
    "SIGNATURE",
    "STRING",
    "TOKEN",
];
/// Prefixes of variables that belong to stores.
const STORES: [&str; 8] = ["AWS", "AZURE", "GCP", "GCS", "GOOGLE", "HF", "HUGGING", "HUGGINGFACE"];

/// Shorter values occur in messages by chance.
const SHORTEST: usize = 6;
const HIDDEN: &str = "…";

/// Whether the value of an option may be shown.
#[must_use]
pub(crate) fn is_harmless(option: &str) -> bool {
    HARMLESS.binary_search(&option).is_ok()
}

/// Registered secrets. The list is lock-free, so a forked child finds it consistent.
static KNOWN: AppendList<Known> = AppendList::new();

struct Known {
    secret: String,
    /// All forms in which it may occur in a message, the longest first.
    forms: Vec<String>,
}

impl fmt::Debug for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(HIDDEN)
    }
}

/// From now on, `secret` is hidden in all messages of this process. If it is JSON, its parts are
/// hidden as well.
pub fn hide(secret: &str) {
    let text = secret.trim();
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(text) {
        hide_parts(&value);
    }
    for part in text.lines().filter(|part| part.len() < text.len() && !part.starts_with("-----")) {
        add(part.trim());
    }
    add(text);
}

fn hide_parts(value: &Value) {
    match value {
        Value::String(text) => hide(text),
        Value::Array(values) => values.iter().for_each(hide_parts),
        // Endpoints and account names are public.
        Value::Object(values) => {
            let is_secret = |name: &str| {
                !name.ends_with("_uri")
                    && !name.ends_with("_url")
                    && !matches!(name, "type" | "universe_domain" | "project_id")
            };
            values
                .iter()
                .filter(|(name, _)| is_secret(name))
                .for_each(|(_, value)| hide_parts(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add(secret: &str) {
    if secret.chars().count() < SHORTEST {
        return;
    }
    if !KNOWN.iter().any(|known| known.secret == secret) {
        KNOWN.push(Known { secret: secret.to_owned(), forms: forms_of(secret) });
    }
}

/// A secret itself, and its encodings in requests, addresses and messages.
fn forms_of(secret: &str) -> Vec<String> {
    const UNRESERVED: AsciiSet =
        NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    const IN_PATHS: AsciiSet = UNRESERVED.remove(b'/');
    const LOOSE: AsciiSet = IN_PATHS
        .remove(b'!')
        .remove(b'*')
        .remove(b'\'')
        .remove(b'(')
        .remove(b')')
        .remove(b'+')
        .remove(b'=')
        .remove(b':')
        .remove(b'@');
    let mut forms = BTreeSet::from([secret.to_owned()]);
    for set in [NON_ALPHANUMERIC, &UNRESERVED, &IN_PATHS, &LOOSE] {
        let encoded = utf8_percent_encode(secret, set).to_string();
        forms.extend([encoded.replace("%20", "+"), lower_hex(&encoded), encoded]);
    }
    let unquoted =
        |text: String| text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned();
    let json = unquoted(Value::from(secret).to_string());
    forms.extend([ascii(&json), json.replace('/', "\\/"), json]);
    forms.insert(unquoted(format!("{secret:?}")));
    forms.extend([secret.replace('\\', "\\\\"), secret.replace('\\', "\\\\").replace('\'', "\\'")]);
    forms.insert(
        secret
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;"),
    );
    for bytes in [secret.as_bytes().to_vec(), format!("{secret}\n").into_bytes()] {
        for before in 0..3 {
            forms.extend(in_base64(&bytes, before));
        }
    }
    forms.insert(secret.bytes().map(|byte| format!("{byte:02x}")).collect());
    let mut forms: Vec<String> =
        forms.into_iter().filter(|form| form.chars().count() >= SHORTEST).collect();
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms
}

/// Its base64 form after `before` other bytes, as in `name:password`: only the characters that do
/// not depend on neighbouring bytes.
fn in_base64(secret: &[u8], before: usize) -> [String; 2] {
    let padded = [vec![0; before], secret.to_vec()].concat();
    let (skip, end) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    let cut = |text: String| {
        text.get(skip..end).filter(|core| core.len() >= 8).unwrap_or_default().to_owned()
    };
    [cut(STANDARD_NO_PAD.encode(&padded)), cut(URL_SAFE_NO_PAD.encode(&padded))]
}

/// Converts the digits after each `%` to lower case.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| match part.split_at_checked(2) {
        Some((digits, rest)) => format!("{text}%{}{rest}", digits.to_ascii_lowercase()),
        None => format!("{text}%{part}"),
    })
}

fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for mark in json.chars() {
        if mark.is_ascii() {
            text.push(mark);
        } else {
            mark.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

/// Registers secrets in environment variables that stores read. Called where they are read.
pub(crate) fn hide_environment() {
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) =
            (name.to_str().map(str::to_ascii_uppercase), value.to_str())
        else {
            continue;
        };
        let words: Vec<&str> = name.split('_').collect();
        let is_named = words.iter().any(|word| SECRET_WORDS.contains(word));
        let is_json = value.trim_start().starts_with('{');
        let is_of_store = words.first().is_some_and(|first| STORES.contains(first));
        if name.ends_with("_PROXY") {
            hide_in_url(value);
        } else if is_of_store && is_named && (is_json || !is_place(&name, value)) {
            hide(value);
        }
    }
}

/// Whether a variable names the location or the owner of a secret, and not the secret itself.
fn is_place(name: &str, value: &str) -> bool {
    ["_FILE", "_PATH", "_DIR", "_URI", "_URL", "_NAME", "_HOME"]
        .iter()
        .any(|end| name.ends_with(end))
        || value.contains("://")
        || (value.starts_with(['/', '~', '.'])
            && std::path::Path::new(value).components().count() > 1)
}

/// Registers the parts of an address that are not its location, so that they are hidden however a
/// library quotes them.
pub(crate) fn hide_in_url(url: &str) {
    for secret in Url::of(url).map(|url| url.secrets()).unwrap_or_default() {
        add(secret);
        let plain = percent_encoding::percent_decode_str(secret).decode_utf8_lossy();
        add(&plain);
        plain.split(':').for_each(add);
    }
}

/// `text` without registered secrets, and without those parts of addresses
/// that are not the location.
#[must_use]
pub fn redacted(text: &str) -> String {
    static ENVIRONMENT: OnceLock<()> = OnceLock::new();
    ENVIRONMENT.get_or_init(hide_environment);
    let mut found: Vec<&str> = KNOWN
        .iter()
        .flat_map(|known| &known.forms)
        .map(String::as_str)
        .filter(|form| text.contains(form))
        .collect();
    // The longest first: a secret may be part of another one, whose rest would remain.
    found.sort_unstable_by_key(|form| std::cmp::Reverse(form.len()));
    let hidden = found.into_iter().fold(text.to_owned(), |text, form| text.replace(form, HIDDEN));
    without_keys_in_urls(&hidden)
}

#[cfg(test)]
mod tests;
