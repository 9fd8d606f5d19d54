//! Recognizes the directories of table formats: Delta, Iceberg and Hudi.
//!
//! Such a directory also holds files of older versions and of deleted rows, and only the log of the
//! table says which files are current. Used before the files of a directory or a glob are read. The
//! invariant: a directory at, above or below a mark is an error, never a list of files.

use crate::patterns::root_of;
use crate::{Error, Result};
use shardmill_storage::{AnyStore, Store, is_remote, resolved_path};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// A table format, recognized by what it keeps in the directory of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lake {
    Delta,
    Iceberg,
    Hudi,
}

impl Lake {
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Delta => "a Delta table",
            Self::Iceberg => "an Iceberg table",
            Self::Hudi => "a Hudi table",
        }
    }

    /// The mark, as users see it.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Self::Delta => "_delta_log/",
            Self::Iceberg => "metadata/*.metadata.json",
            Self::Hudi => ".hoodie/",
        }
    }
}

/// Names of directories that mark the directory of a table, with its format.
const MARKS: [(&str, Lake); 3] =
    [("_delta_log", Lake::Delta), (".hoodie", Lake::Hudi), (METADATA, Lake::Iceberg)];

const METADATA: &str = "metadata";

/// A `metadata` directory marks an Iceberg table only if it has a file with this suffix.
const METADATA_SUFFIX: &str = ".metadata.json";

/// Rejects a directory or a glob if a directory at, below or above it is that of a table. `listed`
/// are all files that were found there.
///
/// Local directories are searched upwards to the root. In a store, one request lists the parent
/// directory, and for a glob, another one lists the directory of the glob.
///
/// # Errors
/// [`Error::LakeDirectory`].
pub(crate) fn refuse_lake<'a>(
    path: &str,
    listed: impl Iterator<Item = &'a str> + Clone,
) -> Result<()> {
    let path = &*resolved_path(path)?;
    let pattern = path.trim_end_matches('/');
    // A file that is named is read.
    if listed.clone().any(|file| file == pattern) {
        return Ok(());
    }
    let root = root_of(pattern);
    let is_pattern = root.len() < pattern.len();
    for path in listed.clone() {
        if let Some((directory, lake)) = marked(path) {
            return Err(refused(directory, lake));
        }
    }
    let parents = listed.map(|path| {
        path.rsplit_once('/')
            .map_or(".", |(directory, _)| if directory.is_empty() { "/" } else { directory })
    });
    let asked: BTreeSet<PathBuf> = if is_remote(root) {
        let above =
            root.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.ends_with('/'));
        above.into_iter().chain(is_pattern.then_some(root)).map(PathBuf::from).collect()
    } else if is_pattern {
        parents.collect::<BTreeSet<_>>().into_iter().flat_map(ancestors).collect()
    } else {
        ancestors(if root.is_empty() { "/" } else { root }).collect()
    };
    for directory in asked.iter().filter_map(|directory| directory.to_str()) {
        if let Some(lake) = lake_of(directory) {
            return Err(refused(directory, lake));
        }
    }
    Ok(())
}

fn refused(directory: &str, lake: Lake) -> Error {
    Error::LakeDirectory { directory: directory.to_owned(), lake }
}

/// The directory and all directories above it, by the given path and by the resolved one.
fn ancestors(directory: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let directory = Path::new(directory);
    // The part of a path before `..` is not above the directory.
    let given = std::path::absolute(directory)
        .ok()
        .filter(|path| !path.components().any(|part| part == Component::ParentDir));
    let names = [given, directory.canonicalize().ok()];
    names
        .into_iter()
        .flatten()
        .flat_map(|name| name.ancestors().map(Path::to_owned).collect::<Vec<_>>())
}

/// The directory of the table whose mark contains a listed file.
fn marked(path: &str) -> Option<(&str, Lake)> {
    MARKS.iter().find_map(|(name, lake)| {
        let is_whole =
            |at: &usize| path.get(..*at).is_none_or(|head| head.is_empty() || head.ends_with('/'));
        let (at, rest) =
            path.match_indices(name).filter(|(at, _)| is_whole(at)).find_map(|(at, name)| {
                let rest = path.get(at + name.len()..)?.strip_prefix('/')?;
                (name != METADATA || (rest.ends_with(METADATA_SUFFIX) && !rest.contains('/')))
                    .then_some((at, rest))
            })?;
        let directory = path.get(..at)?.trim_end_matches('/');
        (!rest.is_empty()).then_some((if directory.is_empty() { "." } else { directory }, *lake))
    })
}

/// A directory that cannot be listed counts as one without a mark: users may have access only to
/// what is below it.
fn lake_of(directory: &str) -> Option<Lake> {
    let found = AnyStore.directories_in(directory, &MARKS.map(|(name, _)| name)).ok()?;
    let is_lake = |lake: Lake| {
        let metadata = || {
            AnyStore
                .list(&format!("{}/{METADATA}/", directory.trim_end_matches('/')))
                .unwrap_or_default()
        };
        lake != Lake::Iceberg || metadata().iter().any(|path| marked(path).is_some())
    };
    MARKS
        .iter()
        .zip(found)
        .find(|((_, lake), is_there)| *is_there && is_lake(*lake))
        .map(|((_, lake), _)| *lake)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_a_directory_with_its_whole_name() {
        for (path, directory) in [
            ("d/_delta_log/0.json", "d"),
            ("/a/d/_delta_log/x/0.json", "/a/d"),
            ("_delta_log/0.json", "."),
            ("s3://b/t/metadata/v1.metadata.json", "s3://b/t"),
            ("s3://b/t/.hoodie/hoodie.properties", "s3://b/t"),
            ("my_delta_log/d/_delta_log/0.json", "my_delta_log/d"),
        ] {
            assert_eq!(marked(path).map(|(directory, _)| directory), Some(directory), "{path}");
        }
        for path in [
            "d/_delta_log",
            "d/x_delta_log/0",
            "d/_delta_logs/0",
            "d/metadata/a.json",
            "d/metadata/x/v1.metadata.json",
            "d/v1.metadata.json",
        ] {
            assert_eq!(marked(path), None, "{path}");
        }
    }
}
