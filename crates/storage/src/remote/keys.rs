//! Keys that object_store refuses, such as `a//b` and `a/./b`.
//!
//! object_store parses the keys of a listing, and fails for the whole listing if it refuses one.
//! Such keys are therefore escaped in the responses of the store, and restored after they were
//! parsed. The invariant: a key is read by exactly its own name, or is not read.

use object_store::client::{HttpError, HttpResponse, HttpResponseBody};
use object_store::path::{Error, Path, PathPart};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quick_xml::escape::{escape, unescape};
use std::borrow::Cow;

/// Starts an escaped key. A key that starts with this private character is escaped too.
const ESCAPED: char = '\u{10FFFD}';

/// The XML elements that contain keys.
const ELEMENTS: [&str; 3] = ["Key", "Name", "Prefix"];

/// The path that is exactly the key, if it can be requested. Clients resolve `.` and `..` in
/// addresses, and object_store drops a slash at the start.
///
/// # Errors
/// For a key that cannot be requested.
pub(super) fn literal(key: &str) -> Result<Path, Error> {
    match Path::parse(key) {
        Err(Error::EmptySegment { .. }) if !key.starts_with('/') && !key.ends_with('/') => {
            key.split('/').try_fold(Path::default(), |path, segment| {
                let part = PathPart::parse(segment)
                    .map_err(|source| Error::BadSegment { path: key.to_owned(), source })?;
                Ok(path.join(part))
            })
        }
        parsed => parsed,
    }
}

fn is_regular(key: &str) -> bool {
    !key.starts_with(ESCAPED) && Path::parse(key).is_ok_and(|path| path.as_ref() == key)
}

/// The path of a key in a listing.
pub(super) fn listed(key: &str) -> Path {
    if is_regular(key) {
        Path::parse(key).unwrap_or_default()
    } else {
        Path::from_iter([PathPart::parse(&escaped(key)).unwrap_or_default()])
    }
}

fn escaped(key: &str) -> String {
    format!("{ESCAPED}{}", utf8_percent_encode(key, NON_ALPHANUMERIC))
}

/// The key of a path in a listing.
pub(super) fn key_of(path: &Path) -> Cow<'_, str> {
    match path.as_ref().strip_prefix(ESCAPED) {
        Some(key) => percent_decode_str(key).decode_utf8_lossy(),
        None => Cow::Borrowed(path.as_ref()),
    }
}

pub(super) fn is_escaped(path: &Path) -> bool {
    path.as_ref().starts_with(ESCAPED)
}

/// Whether a key cannot be requested by its own name.
pub(super) fn is_unreadable(key: &str) -> bool {
    literal(key).map_or(true, |path| path.as_ref() != key)
}

/// The response to a listing, with irregular keys escaped.
///
/// # Errors
/// When the body cannot be received.
pub(super) async fn with_escaped_keys(answer: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = answer.into_parts();
    let body = body.bytes().await?;
    let changed = std::str::from_utf8(&body).ok().and_then(escaped_listing);
    let body = changed.map_or_else(|| HttpResponseBody::from(body), HttpResponseBody::from);
    Ok(HttpResponse::from_parts(parts, body))
}

/// `None` if no key is irregular.
fn escaped_listing(text: &str) -> Option<String> {
    let (mut changed, mut copied) = (String::new(), 0);
    for (at, _) in text.match_indices('<') {
        let Some((start, content)) = text.get(at + 1..).and_then(element) else { continue };
        let Some(key) = text
            .get(start_of(at, start)..start_of(at, start) + content)
            .and_then(|content| unescape(content).ok())
        else {
            continue;
        };
        let is_prefix = start == "Prefix"
            || text.get(..at).is_some_and(|before| before.trim_end().ends_with("<BlobPrefix>"));
        let is_kept = if is_prefix { Path::parse(&*key).is_ok() } else { is_regular(&key) };
        if is_kept {
            continue;
        }
        changed.push_str(text.get(copied..start_of(at, start))?);
        changed.push_str(&escape(escaped(&key)));
        copied = start_of(at, start) + content;
    }
    changed.push_str(text.get(copied..)?);
    (copied > 0).then_some(changed)
}

/// Where the content of an element begins if its tag begins at `at`.
fn start_of(at: usize, name: &str) -> usize {
    at + name.len() + 2
}

/// The name of the element whose tag begins here, and the length of its content.
fn element(text: &str) -> Option<(&'static str, usize)> {
    let name = ELEMENTS
        .into_iter()
        .find(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with('>')))?;
    Some((name, text.get(name.len() + 1..)?.find('<')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_restored_and_only_those_that_requests_can_name_are_readable() {
        for (key, is_readable) in [
            ("a/b", true),
            ("a//b", true),
            ("a///b c%20", true),
            ("a/./b", false),
            ("a/../b", false),
            ("/a", false),
            ("a/", false),
            ("a//", false),
            ("a/b\nc", false),
            ("a//./b", false),
            ("\u{10FFFD}a", true),
        ] {
            assert_eq!(key_of(&listed(key)), key);
            assert_eq!(is_unreadable(key), !is_readable, "{key:?}");
        }
    }

    #[test]
    fn only_irregular_keys_of_a_listing_are_changed() {
        let keys = ["a/b", "a//b&c", "a/./b", "a/<b>"];
        let contents: String = keys
            .iter()
            .map(|key| format!("<Contents><Key>{}</Key><Size>1</Size></Contents>", escape(*key)))
            .collect();
        let text = format!(
            "<R><Name>bucket</Name><Prefix>a/</Prefix>{contents}\
             <CommonPrefixes><Prefix>a/x/</Prefix></CommonPrefixes></R>"
        );
        let changed = escaped_listing(&text).unwrap();
        let found = |text: &str| {
            text.split("<Key>")
                .skip(1)
                .map(|rest| unescape(rest.split('<').next().unwrap()).unwrap().into_owned())
                .collect::<Vec<_>>()
        };
        let restored: Vec<String> = found(&changed)
            .iter()
            .map(|key| key_of(&Path::parse(key).unwrap()).into_owned())
            .collect();
        assert_eq!(restored, keys);
        assert!(
            changed.contains("<Prefix>a/</Prefix>")
                && changed.contains("<Prefix>a/x/</Prefix>")
                && changed.contains("<Key>a/b</Key>")
        );
        assert_eq!(escaped_listing("<R><Contents><Key>a/b</Key></Contents></R>"), None);
        let azure = "<BlobPrefix><Name>a/x/</Name></BlobPrefix>";
        assert_eq!(escaped_listing(azure), None);
        assert!(escaped_listing("<Blob><Name>a/x/</Name></Blob>").is_some());
    }
}
