//! Restricts where paths stored in data may lead.
//!
//! A path in a row was written by the author of the file, so it must not decide what is read with
//! the user's permissions. The invariant: a file is checked by the location of its open descriptor,
//! not by the requested name; so links are followed, and none leads outside.

use crate::remote::{is_named, store_of};
use crate::{Error, LocalFile, RangeRead, Result, is_remote, local_path, resolved_path};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const WILDCARDS: [char; 3] = ['*', '?', '['];

/// The directories and prefixes below which the paths of rows are read.
#[derive(Debug, Clone, Default)]
pub struct Roots(Arc<Named>);

#[derive(Debug, Default)]
struct Named {
    inputs: Vec<String>,
    roots: Vec<String>,
    local: OnceLock<BTreeSet<PathBuf>>,
}

impl Roots {
    /// The roots of a job that reads `inputs`: their directories, and `roots`. A file or a glob
    /// stands for its directory.
    #[must_use]
    pub fn new(inputs: &[String], roots: &[String]) -> Self {
        Self(Arc::new(Named {
            inputs: inputs.to_vec(),
            roots: roots.to_vec(),
            local: OnceLock::new(),
        }))
    }

    /// # Errors
    /// [`Error::OutsideRoots`], and as [`crate::AnyStore`].
    pub fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        self.open_with_tail(path, None)
    }

    /// As [`crate::Store::open_with_tail`] if a tail length is given.
    ///
    /// # Errors
    /// As [`Roots::open`].
    pub fn open_with_tail(
        &self,
        path: &str,
        tail_bytes: Option<u64>,
    ) -> Result<Arc<dyn RangeRead>> {
        if !is_remote(path) {
            return Ok(Arc::new(self.open_local(path)?));
        }
        let store = store_of(path)?;
        if !self.holds_remote(path) {
            return Err(Error::OutsideRoots { path: path.to_owned() });
        }
        match tail_bytes {
            Some(bytes) => store.open_with_tail(path, bytes),
            None => store.open(path),
        }
    }

    #[cfg(target_os = "linux")]
    fn open_local(&self, path: &str) -> Result<LocalFile> {
        use rustix::fs::{Mode, OFlags};
        use std::os::fd::AsRawFd as _;

        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
            _ => Error::Open { path: path.to_owned(), source },
        };
        // Opened with `O_PATH`, because opening a device may have side effects.
        let found =
            rustix::fs::open(&*resolved_path(path)?, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| failed(error.into()))?;
        let handle = format!("/proc/self/fd/{}", found.as_raw_fd());
        self.check(path, &fs::read_link(&handle).map_err(failed)?)?;
        LocalFile::open_as(path, &handle)
    }

    #[cfg(not(target_os = "linux"))]
    fn open_local(&self, path: &str) -> Result<LocalFile> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let real = fs::canonicalize(&*resolved_path(path)?).map_err(failed)?;
        self.check(path, &real)?;
        let file = LocalFile::open_as(path, &real.display().to_string())?;
        // A directory may have been replaced by a link.
        self.check(path, &fs::canonicalize(&real).map_err(failed)?)?;
        Ok(file)
    }

    fn check(&self, path: &str, real: &Path) -> Result<()> {
        if self.local().iter().any(|root| real.starts_with(root)) {
            Ok(())
        } else {
            Err(Error::OutsideRoots { path: path.to_owned() })
        }
    }

    /// Without links. A root that does not exist is ignored.
    fn local(&self) -> &BTreeSet<PathBuf> {
        self.0.local.get_or_init(|| {
            let local = |path: &String| local_path(path).ok().flatten().map(Cow::into_owned);
            let inputs: BTreeSet<String> =
                self.0.inputs.iter().filter_map(local).map(|path| directory_of(&path)).collect();
            inputs
                .into_iter()
                .chain(self.0.roots.iter().filter_map(local))
                .filter_map(|path| fs::canonicalize(path).ok())
                .collect()
        })
    }

    fn holds_remote(&self, path: &str) -> bool {
        // Stores do not resolve these, but an HTTP server may.
        let climbs = |part: &str| {
            matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..")
        };
        if path.contains('\0')
            || path.split_once("://").is_some_and(|(_, rest)| rest.split(['/', '\\']).any(climbs))
        {
            return false;
        }
        let inputs = self.0.inputs.iter().map(|input| prefix_of(input));
        let mut roots = inputs.chain(self.0.roots.iter().map(|root| root.trim_end_matches('/')));
        is_named(path)
            || roots.any(|root| {
                root.contains("://")
                    && path
                        .strip_prefix(root)
                        .is_some_and(|rest| rest.starts_with('/') || rest.is_empty())
            })
    }
}

/// The directory of a local input.
fn directory_of(path: &str) -> String {
    let directory = |path: &str| match path.rsplit_once('/') {
        Some(("", _)) => "/".to_owned(),
        Some((directory, _)) => directory.to_owned(),
        None => ".".to_owned(),
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => path.to_owned(),
        Ok(_) => directory(path),
        Err(_) => path
            .find(WILDCARDS)
            .and_then(|at| path.get(..at))
            .map_or_else(|| directory(path), directory),
    }
}

/// The prefix of a remote input. A path with the file name of a shard is itself a prefix, because a
/// store has no directories.
fn prefix_of(path: &str) -> &str {
    let head = path
        .find(WILDCARDS)
        .and_then(|at| path.get(..at))
        .map_or(path, |head| head.rsplit_once('/').map_or(head, |(head, _)| head));
    let head = head.trim_end_matches('/');
    match head.rsplit_once('/') {
        Some((directory, name))
            if head.len() == path.len() && is_file_name(name) && !directory.ends_with('/') =>
        {
            directory
        }
        _ => head,
    }
}

fn is_file_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    [".parquet", ".tar", ".tgz", ".jsonl", ".ndjson", ".json"]
        .iter()
        .any(|suffix| plain.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_below_a_root_are_read_and_no_name_leads_outside() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        for name in ["in", "in/deep", "out", "inn"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["in/a", "in/deep/b", "out/secret", "inn/c"] {
            fs::write(at(name), name).unwrap();
        }
        for (target, link) in [
            (at("out/secret"), "in/link"),
            (at("out"), "in/dir"),
            (at("in/a"), "in/deep/back"),
            (at("in"), "alias"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let roots = Roots::new(&[at("alias")], &[]);
        for (name, is_held) in [
            ("in/a", true),
            ("in/deep/../a", true),
            ("in/deep/back", true),
            ("alias/deep/b", true),
            ("out/../in/a", true),
            ("in/../out/secret", false),
            ("in/link", false),
            ("in/dir/secret", false),
            ("inn/c", false),
        ] {
            let opened = roots.open(&at(name));
            assert_eq!(opened.is_ok(), is_held, "{name}: {opened:?}");
            assert!(is_held || matches!(opened, Err(Error::OutsideRoots { .. })), "{name}");
        }
        assert!(matches!(roots.open("/dev/null"), Err(Error::OutsideRoots { .. })));
        assert!(matches!(roots.open(&at("in/none")), Err(Error::NotFound { .. })));
        assert!(
            roots.open(&format!("{}\0", at("in/a"))).is_err()
                && roots.open(&at("in/deep")).is_err()
        );
        assert!(Roots::new(&[at("in")], &[at("out")]).open(&at("in/dir/secret")).is_ok());
        assert!(Roots::new(&[at("in/a"), at("in/*.tar")], &[]).open(&at("in/deep/b")).is_ok());
        assert!(Roots::default().open(&at("in/a")).is_err());
    }

    #[test]
    fn remote_root_is_a_prefix_of_whole_names() {
        let holds =
            |input: &str, path: &str| Roots::new(&[input.to_owned()], &[]).holds_remote(path);
        assert!(
            holds("s3://b/a", "s3://b/a/x.jpg")
                && holds("s3://b/a/", "s3://b/a/x.jpg")
                && holds("s3://b/a/1.parquet", "s3://b/a/x/y.jpg")
                && holds("s3://b/a/1.jsonl.gz", "s3://b/a/x.jpg")
        );
        assert!(
            holds("s3://b/a/*.parquet", "s3://b/a/x.jpg")
                && holds("s3://b", "s3://b/x")
                && holds("s3://b/1.tar", "s3://b/x")
        );
        for path in [
            "s3://b/ab/x",
            "s3://b/x",
            "s3://other/a/x",
            "s3://b/a/../x",
            "s3://b/a/%2E%2e/x",
            "gs://b/a/x",
            "s3://b/a/x\0",
        ] {
            assert!(!holds("s3://b/a", path), "{path}");
        }
    }
}
