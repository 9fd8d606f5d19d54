//! Hides secrets in messages: values of options, credentials, and those parts of addresses that are
//! not the location.
//!
//! Messages quote paths, options and texts of other libraries, so the code that builds one cannot
//! know what it contains. Instead, secrets are registered where they enter the process, and every
//! message passes through [`redacted`] before a user sees it. The invariant: an option is treated
//! as secret unless it is known to be harmless.

use crate::local::append_list::AppendList;
use crate::remote::Service;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

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

/// Query parameters that name what is requested and contain no credentials.
const HARMLESS_PARAMETERS: [&str; 21] = [
    "alt",
    "comp",
    "continuation-token",
    "cursor",
    "delimiter",
    "encoding-type",
    "expand",
    "limit",
    "list-type",
    "marker",
    "max-keys",
    "maxresults",
    "partnumber",
    "prefix",
    "recursive",
    "restype",
    "revision",
    "start-after",
    "uploads",
    "versionid",
    "x-id",
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

/// Separators of the parameters of an address.
const MARKS: [char; 3] = ['?', '&', ';'];

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

/// Whether a scheme belongs to a store, so that it cannot mean anything else.
pub(crate) fn is_store_scheme(scheme: &str) -> bool {
    let scheme = scheme.to_ascii_lowercase();
    // Azure's older scheme is not supported, but its addresses contain the same secrets.
    Service::of(&scheme).is_some() || scheme == "wasbs"
}

/// The position of the colon of an address. The scheme of a store needs no slashes.
fn address_at(text: &str) -> Option<usize> {
    let is_store = |at: &usize| {
        let scheme = text.get(..*at).unwrap_or_default();
        let name =
            scheme.rsplit(|mark: char| !mark.is_ascii_alphanumeric()).next().unwrap_or_default();
        is_store_scheme(name)
            && text
                .get(at + 1..)
                .is_some_and(|rest| rest.starts_with(|mark: char| !mark.is_whitespace()))
    };
    let colons = text.match_indices(':').map(|(at, _)| at);
    colons
        .into_iter()
        .find(|at| text.get(at + 1..).is_some_and(|rest| rest.starts_with('/')) || is_store(at))
}

/// A path in the form that may be shown.
#[must_use]
pub(crate) fn shown(path: &str) -> String {
    if path.contains(':') { without_keys_in_urls(path) } else { path.to_owned() }
}

/// Whether a path is an address with credentials or a signature.
#[must_use]
pub fn has_keys(path: &str) -> bool {
    let is_key = |name: &str| {
        ["sig", "token", "secret", "passw", "key", "credential", "auth"]
            .iter()
            .any(|word| name.to_ascii_lowercase().contains(word))
    };
    let is_revealing = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => !is_harmless_parameter(name),
        None => is_key(pair),
    };
    let reveals = |url: &Url<'_>| {
        url.query
            .into_iter()
            .chain(url.fragment)
            .flat_map(|part| part.split(MARKS))
            .any(is_revealing)
    };
    path.contains(['@', '?', '#', ';'])
        && Url::of(path).is_some_and(|url| url.user.is_some() || reveals(&url))
}

/// `text` with addresses reduced to scheme, host, path and harmless parameters.
fn without_keys_in_urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = address_at(rest) {
        let (head, tail) = rest.split_at(at);
        let scheme = head
            .rfind(|mark: char| !(mark.is_ascii_alphanumeric() || matches!(mark, '+' | '-' | '.')))
            .map_or(0, |last| {
                head.get(last..)
                    .and_then(|found| found.chars().next())
                    .map_or(last, |mark| last + mark.len_utf8())
            });
        let end = tail
            .find(|mark: char| mark.is_whitespace() || matches!(mark, '`' | '"' | '<' | '>' | '\''))
            .unwrap_or(tail.len());
        let start = head.get(scheme..).unwrap_or_default();
        let (body, after) = tail.split_at(end);
        let url = format!("{start}{body}");
        out.push_str(head.get(..scheme).unwrap_or_default());
        out.push_str(&Url::of(&url).map_or_else(|| url.clone(), |found| found.plain()));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The parts of an address, as far as they can be determined: it may be malformed.
struct Url<'a> {
    /// With the slashes.
    scheme: &'a str,
    user: Option<&'a str>,
    /// Host and path.
    place: &'a str,
    /// With the preceding mark: `?`, or `;` for parameters of a path.
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> Url<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let at = address_at(url)?;
        let after = url.get(at + 1..)?;
        let slashes = after.len() - after.trim_start_matches('/').len();
        let (scheme, rest) = url.split_at_checked(at + 1 + slashes)?;
        if at == 0 {
            return None;
        }
        // A password may contain unquoted marks, so it is searched first.
        let user = userinfo(scheme.get(..at).unwrap_or_default(), rest);
        let (user, rest) = match user {
            Some(len) => (rest.get(..len), rest.get(len + 1..).unwrap_or_default()),
            None => (None, rest),
        };
        let is_web = scheme.starts_with("http");
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) if is_web || fragment.contains('=') => (rest, Some(fragment)),
            _ => (rest, None),
        };
        // In other schemes it may be a wildcard, as in `s3://bucket/year=202?/month=1/`.
        let is_query = |text: &str| {
            let name = text.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty()
                && name.bytes().all(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'%')
                })
        };
        let is_mark = |mark: char| mark == '?' || is_web && mark == ';';
        let (place, query) = match rest.find(is_mark).and_then(|at| rest.split_at_checked(at)) {
            Some((place, query)) if is_web || is_query(query.get(1..).unwrap_or_default()) => {
                (place, Some(query))
            }
            _ => (rest, None),
        };
        Some(Self { scheme, user, place, query, fragment })
    }

    fn secrets(&self) -> Vec<&'a str> {
        let pairs = self.query.into_iter().chain(self.fragment).flat_map(|part| part.split(MARKS));
        let values = pairs.filter_map(|pair| match pair.split_once('=') {
            Some((name, value)) => (!is_harmless_parameter(name)).then_some(value),
            None => (!pair.is_empty()).then_some(pair),
        });
        self.user.into_iter().chain(values).collect()
    }

    fn plain(&self) -> String {
        let mut text = self.scheme.to_owned();
        if self.user.is_some() {
            text.push_str("…@");
        }
        text.push_str(self.place);
        if let Some(query) = self.query {
            for pair in query.split_inclusive(MARKS) {
                let (pair, mark) = pair
                    .split_at_checked(pair.len() - usize::from(pair.ends_with(MARKS)))
                    .unwrap_or((pair, ""));
                text.push_str(&parameter(pair));
                text.push_str(mark);
            }
        }
        if self.fragment.is_some() {
            text.push_str("#…");
        }
        text
    }
}

fn is_harmless_parameter(name: &str) -> bool {
    HARMLESS_PARAMETERS.binary_search(&name.to_ascii_lowercase().as_str()).is_ok()
}

fn parameter(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if is_harmless_parameter(name) => pair.to_owned(),
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None if pair.is_empty() => String::new(),
        None => HIDDEN.to_owned(),
    }
}

/// The length of the part before the `@`, if it is a name or a password and not the container or
/// the revision of a path.
fn userinfo(scheme: &str, rest: &str) -> Option<usize> {
    let authority =
        rest.find(['/', '?', '#']).map_or(rest, |end| rest.get(..end).unwrap_or_default());
    if let Some(at) = authority.rfind('@') {
        let before = authority.get(..at).unwrap_or_default();
        let is_container = matches!(scheme, "abfs" | "abfss" | "adl")
            && !before.contains(':')
            && !before.to_ascii_lowercase().contains("%3a");
        return (!is_container).then_some(at);
    }
    // `name:pass/word@host`: the text after the colon is not a port.
    let (_, port) = authority.split_once(':')?;
    let is_port =
        matches!(scheme, "http" | "https") && port.len() <= 5 && port.parse::<u16>().is_ok();
    if is_port { None } else { rest.rfind('@') }
}

#[cfg(test)]
mod tests;
