//! Whether a path is local or names an object in a store.
//!
//! Every function that takes a path uses this module. The invariant: a path that looks like a URL
//! is served by its store, is a file URL, or is an error; it is never treated as the name of a
//! local directory.

pub(crate) mod real_names;
pub(crate) mod roots;

use crate::secrets::is_store_scheme;
use crate::{Error, Result, is_remote};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The local path of `path`, with file URLs resolved; `None` for a path of a store.
///
/// File URLs are `file:/abs`, `file:///abs` and `file://localhost/abs`, percent-encoded. A colon
/// alone does not make a URL: `12:30.csv` is a local file.
///
/// # Errors
/// [`Error::UnsupportedScheme`] for a scheme that no store serves, [`Error::FileUrl`] for a file
/// URL without an absolute path of this machine, and [`Error::SingleSlash`] for `s3:/bucket`, which
/// path libraries make of a URL, and `s3:bucket`.
pub fn local_path(path: &str) -> Result<Option<Cow<'_, str>>> {
    let Some((scheme, rest)) = split_scheme(path) else { return Ok(Some(Cow::Borrowed(path))) };
    if scheme.eq_ignore_ascii_case("file") {
        return file_url(path, rest).map(Some);
    }
    if is_remote(path) {
        return Ok(None);
    }
    match rest.starts_with("//") {
        true => Err(Error::UnsupportedScheme { path: path.to_owned(), scheme: scheme.to_owned() }),
        false => Err(Error::SingleSlash { path: path.to_owned(), scheme: scheme.to_owned() }),
    }
}

/// As [`local_path`]; paths of stores are returned unchanged.
///
/// # Errors
/// As [`local_path`].
pub fn resolved_path(path: &str) -> Result<Cow<'_, str>> {
    Ok(local_path(path)?.unwrap_or(Cow::Borrowed(path)))
}

/// Whether `path` is local, including paths that are not valid: options of a store do
/// not apply to it.
#[must_use]
pub fn is_local(path: &str) -> bool {
    split_scheme(path).is_none_or(|(scheme, _)| scheme.eq_ignore_ascii_case("file"))
}

/// `(scheme, rest after the colon)` of text that looks like a URL.
fn split_scheme(path: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = path.split_once(':')?;
    // Chained fsspec URLs, such as `simplecache::s3://`, contain further colons and slashes.
    let (scheme, rest) = match rest.split_once("://") {
        Some((layers, _)) if rest.starts_with(':') && !layers.contains('/') => {
            path.split_at_checked(scheme.len() + 1 + layers.len())?
        }
        _ => (scheme, rest),
    };
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let is_file = scheme.eq_ignore_ascii_case("file");
    // A single letter is a drive of another operating system; here it is an ordinary name.
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|letter| {
            letter.is_ascii_alphanumeric() || matches!(letter, '+' | '.' | '-' | '_' | ':')
        });
    (is_scheme && (is_file || rest.starts_with('/') || is_store_scheme(scheme)))
        .then_some((scheme, rest))
}

fn file_url<'a>(path: &str, rest: &'a str) -> Result<Cow<'a, str>> {
    let refused = |reason| Error::FileUrl { path: path.to_owned(), reason };
    let local = match rest.strip_prefix("//") {
        None => rest,
        Some(authority) => {
            let end = authority.find('/').unwrap_or(authority.len());
            match authority.split_at_checked(end) {
                Some((host, local))
                    if host.is_empty() || host.eq_ignore_ascii_case("localhost") =>
                {
                    local
                }
                _ => return Err(refused("it names another host")),
            }
        }
    };
    if !local.starts_with('/') {
        return Err(refused("its path is not absolute"));
    }
    let decoded = percent_decode_str(local)
        .decode_utf8()
        .map_err(|_| refused("it is not valid UTF-8 after percent-decoding"))?;
    if decoded.contains('\0') {
        return Err(refused("it holds a NUL character"));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_file_url_is_its_local_path() {
        let expected = |path: &str| local_path(path).unwrap().map(Cow::into_owned);
        for path in [
            "/a/b c",
            "file:/a/b c",
            "file:///a/b c",
            "file://localhost/a/b c",
            "FILE://LOCALHOST/a/b%20c",
            "file:/a/b%20c",
            "file:///%61/b%20c",
        ] {
            assert_eq!(expected(path).as_deref(), Some("/a/b c"), "{path}");
        }
        assert_eq!(expected("file:///a%2Fb/100%/%zz/%C3%A9").as_deref(), Some("/a/b/100%/%zz/é"));
    }

    #[test]
    fn names_with_colons_are_local() {
        for path in [
            "a",
            "12:30.csv",
            "dir/s4://b",
            "./foo:/bar",
            "/foo:/bar",
            "c:/x",
            "foo:bar",
            "a b:/c",
            ":/x",
            "://x",
            "",
        ] {
            assert_eq!(local_path(path).unwrap().as_deref(), Some(path));
            assert!(is_local(path));
        }
    }

    #[test]
    fn paths_of_stores_are_not_local() {
        for path in
            ["s3://b/x", "gs://b", "az://c/k", "https://h/a", "hf://datasets/o/n", "abfss://c/x"]
        {
            assert_eq!(local_path(path).unwrap(), None);
            assert!(!is_local(path));
        }
    }

    #[test]
    fn url_of_an_unserved_scheme_is_an_error() {
        for (path, name) in [
            ("s4://b/x", "s4"),
            ("S3://b/x", "S3"),
            ("a+b.c-d://x", "a+b.c-d"),
            ("simplecache::s3://b/x", "simplecache::s3"),
            ("x_y://z", "x_y"),
        ] {
            assert!(
                matches!(
                    local_path(path),
                    Err(Error::UnsupportedScheme { scheme, .. }) if scheme == name
                ),
                "{path}"
            );
            assert!(!is_local(path));
        }
        for path in ["s3:/b/x", "s4:/b/x", "https:/h/x"] {
            assert!(matches!(local_path(path), Err(Error::SingleSlash { .. })), "{path}");
        }
        for path in [
            "file://otherhost/a",
            "file://",
            "file:",
            "file:a/b",
            "file://localhost",
            "file:///%ff",
            "file:///%00",
            "file://localhost:80/a",
        ] {
            assert!(matches!(local_path(path), Err(Error::FileUrl { .. })), "{path}");
            assert!(is_local(path));
        }
    }
}
