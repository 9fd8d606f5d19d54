//! The store of one root, as used by the readers and writers of this workspace: open objects,
//! listings, and uploads.

use super::location::Location;
use super::object::{RemoteObject, TAIL};
use super::service::Service;
use super::staged::RemoteStaged;
use super::store::RemoteStore;
use crate::{Error, RangeRead, Result, Staged, Store, Unpublished};
use glob::Pattern;
use object_store::ObjectMeta;
use std::collections::HashSet;
use std::sync::Arc;

/// Open objects keep the store, which a trait method without `Arc<Self>` cannot express.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<RemoteStore>);

impl Store for Shared {
    fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        Ok(Arc::new(RemoteObject::open(&self.0, path, TAIL)?))
    }

    fn open_with_tail(&self, path: &str, tail_bytes: u64) -> Result<Arc<dyn RangeRead>> {
        Ok(Arc::new(RemoteObject::open(&self.0, path, tail_bytes)?))
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let location = Location::parse(path)?;
        if location.service == Service::Http {
            if location.key.is_empty() || location.key.ends_with('/') || location.key.contains('*')
            {
                let source = std::io::Error::new(
                    std::io::ErrorKind::Unsupported,
                    "HTTP servers cannot be listed",
                );
                return Err(Error::List { path: path.to_owned(), source });
            }
            return self.open(path).map(|_| vec![path.to_owned()]);
        }
        let key = location.key.trim_end_matches('/');
        let wildcard = key.find(['*', '?', '[']);
        if wildcard.is_none() && !key.is_empty() && !location.key.ends_with('/') {
            // One request resolves most paths: a file is named far more often than a directory with
            // the name of a file.
            let looks_like_file = key.rsplit('/').next().is_some_and(|name| name.contains('.'));
            match looks_like_file.then(|| self.open(path)) {
                None => {}
                // A directory of Azure may be an empty object, too.
                Some(Ok(object)) if object.size() == 0 && location.service == Service::Azure => {}
                Some(Ok(_)) => return Ok(vec![path.to_owned()]),
                Some(Err(Error::NotFound { .. })) => {}
                Some(Err(refused)) => return Err(refused),
            }
        }
        let directory = wildcard.map_or(key, |at| {
            key.get(..at)
                .and_then(|head| head.rsplit_once('/'))
                .map_or("", |(directory, _)| directory)
        });
        let mut found = self.0.below(directory, path)?;
        if let Some(pattern) = wildcard.map(|_| Pattern::new(key)) {
            let pattern = pattern.map_err(|error| Error::refused(path, error.to_string()))?;
            let options = glob::MatchOptions {
                case_sensitive: true,
                require_literal_separator: true,
                require_literal_leading_dot: false,
            };
            let is_literal = |found: &str| {
                found.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            // Matching directories are searched as well.
            let parts = |key: &str| {
                key.match_indices('/').map(|(at, _)| at).chain([key.len()]).collect::<Vec<_>>()
            };
            let fits = |key: &str| {
                parts(key)
                    .into_iter()
                    .filter_map(|at| key.get(..at))
                    .any(|part| pattern.matches_with(part, options))
            };
            // A name may itself contain such characters.
            let is_named = found.iter().any(|(found, _)| is_literal(found));
            found.retain(|(found, _)| if is_named { is_literal(found) } else { fits(found) });
        }
        let markers = markers(&found);
        found.retain(|(found, meta)| meta.size > 0 || (found != key && !markers.contains(found)));
        if found.is_empty() && wildcard.is_none() {
            // A name without a dot may still be a file.
            return self.open(path).map(|_| vec![path.to_owned()]);
        }
        if location.service != Service::Fsspec {
            // Many file systems report less in a listing than for a single file.
            self.0.remember(&found);
        }
        let mut paths: Vec<String> = found.iter().map(|(key, _)| location.path_of(key)).collect();
        paths.sort_unstable();
        Ok(paths)
    }

    fn directories_in(&self, directory: &str, names: &[&str]) -> Result<Vec<bool>> {
        let key = Location::parse(directory)?.key;
        let key = key.trim_end_matches('/');
        let prefix = if key.is_empty() { String::new() } else { format!("{key}/") };
        self.0.directories_in(&prefix, names, directory)
    }

    fn stage(&self, path: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>> {
        Ok(Box::new(RemoteStaged::start(Arc::clone(&self.0), path, None, unpublished)?))
    }

    fn stage_as(
        &self,
        path: &str,
        hidden: &str,
        unpublished: &Unpublished,
    ) -> Result<Box<dyn Staged>> {
        Ok(Box::new(RemoteStaged::start(Arc::clone(&self.0), path, Some(hidden), unpublished)?))
    }
}

/// Consoles and Hadoop create empty objects for directories: the keys of those that have other
/// objects below them.
fn markers(found: &[(String, ObjectMeta)]) -> HashSet<String> {
    let empty: HashSet<&str> =
        found.iter().filter(|(_, meta)| meta.size == 0).map(|(key, _)| key.as_str()).collect();
    if empty.is_empty() {
        return HashSet::new();
    }
    let mut markers = HashSet::new();
    for (key, _) in found {
        let above = key.match_indices('/').filter_map(|(at, _)| key.get(..at));
        markers.extend(above.filter(|directory| empty.contains(directory)).map(str::to_owned));
    }
    markers
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::path::Path;
    use std::time::SystemTime;

    #[test]
    fn empty_object_is_a_directory_only_if_others_are_below_it() {
        let object = |(key, size): (&str, u64)| {
            let location = Path::parse(key).unwrap();
            (
                location.to_string(),
                ObjectMeta {
                    location,
                    last_modified: SystemTime::UNIX_EPOCH.into(),
                    size,
                    e_tag: None,
                    version: None,
                },
            )
        };
        let found = [
            ("a/y=1/", 0),
            ("a/y=1/m=2/", 0),
            ("a/y=1/m=2/x.csv", 5),
            ("a/empty.csv", 0),
            ("a/y=10", 0),
            ("b", 7),
            ("b/c", 7),
        ];
        let mut markers: Vec<String> = markers(&found.map(object)).into_iter().collect();
        markers.sort_unstable();
        assert_eq!(markers, ["a/y=1", "a/y=1/m=2"]);
    }
}
