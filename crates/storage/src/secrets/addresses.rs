//! Addresses in texts, without the parts that are not their location.

use super::HIDDEN;
use crate::remote::Service;

/// Query parameters that name what is requested and contain no credentials.
pub(super) const HARMLESS_PARAMETERS: [&str; 21] = [
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

/// Separators of the parameters of an address.
const MARKS: [char; 3] = ['?', '&', ';'];

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
pub(super) fn without_keys_in_urls(text: &str) -> String {
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
pub(super) struct Url<'a> {
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
    pub(super) fn of(url: &'a str) -> Option<Self> {
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

    pub(super) fn secrets(&self) -> Vec<&'a str> {
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
