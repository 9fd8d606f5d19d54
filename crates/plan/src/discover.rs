//! Finds the input files below the user's paths.

use crate::Result;
use crate::lake::refuse_lake;
use crate::patterns::segments;
use serde::{Deserialize, Serialize};
use shardmill_storage::{AnyStore, Store};

/// A file to read, and the version that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    pub path: String,
    pub size: u64,
    pub modified_ns: i64,
    /// Only these blocks of the file; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<FilePart>,
}

/// Consecutive blocks of one file of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    pub first_block: usize,
    /// One past the last.
    pub end_block: usize,
}

impl InputFile {
    /// The current version of a file.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage) for a file that cannot be opened.
    pub fn of(path: String) -> Result<Self> {
        let identity = AnyStore.open(&path)?.identity();
        Ok(Self {
            path,
            size: identity.size,
            modified_ns: i64::try_from(identity.modified_ns).unwrap_or(i64::MAX),
            part: None,
        })
    }

    /// Whether the file still exists in this version.
    #[must_use]
    pub fn is_current(&self) -> bool {
        Self::of(self.path.clone())
            .is_ok_and(|now| (now.size, now.modified_ns) == (self.size, self.modified_ns))
    }
}

/// The files at or below a path, sorted. Hidden files, `_SUCCESS` markers
/// and `.crc` side files are skipped.
///
/// # Errors
/// [`Error::Storage`](crate::Error::Storage) for a path that does not exist or cannot be listed,
/// and [`Error::LakeDirectory`](crate::Error::LakeDirectory) for a directory of a table format.
pub fn visible_files(path: &str) -> Result<Vec<String>> {
    let mut files = AnyStore.list(path)?;
    refuse_lake(path, files.iter().map(String::as_str))?;
    files.retain(|file| is_data(path, file));
    files.sort_unstable();
    Ok(files)
}

/// Hidden segments are data only where the user's path has them: a data set may
/// be below a hidden directory.
fn is_data(pattern: &str, path: &str) -> bool {
    let named = segments(pattern).map(Some).chain(std::iter::repeat(None));
    let is_hidden = |segment: &str| segment.starts_with('.') && segment != "..";
    let is_visible = segments(path)
        .zip(named)
        .all(|(segment, named)| !is_hidden(segment) || named.is_some_and(is_hidden));
    let name = path.rsplit('/').next().unwrap_or(path);
    is_visible && name != "_SUCCESS" && !name.ends_with(".crc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn directory_is_searched_recursively_without_hidden_files() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("b/.hidden")).unwrap();
        for name in
            ["b/2.TAR", "a.tar.gz", ".x.tar", "b/.hidden/y.tar", "_SUCCESS", "z.txt", "q.tar.crc"]
        {
            fs::write(root.path().join(name), b"x").unwrap();
        }
        let found = visible_files(&root.path().display().to_string()).unwrap();
        let names: Vec<_> =
            found.iter().map(|file| file.rsplit('/').next().unwrap_or("")).collect();
        assert_eq!(names, ["a.tar.gz", "2.TAR", "z.txt"]);
    }

    #[test]
    fn glob_finds_hidden_files_only_where_it_names_them() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(".hidden/b")).unwrap();
        for name in ["a.tar", ".x.tar", ".hidden/y.tar", ".hidden/b/z.tar"] {
            fs::write(root.path().join(name), b"x").unwrap();
        }
        let root = root.path().display().to_string();
        let found = |pattern: &str| {
            let files = visible_files(&format!("{root}/{pattern}")).unwrap();
            files
                .iter()
                .map(|file| file.rsplit('/').next().unwrap_or("").to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("*"), ["a.tar"]);
        assert_eq!(found("**/*.tar"), ["a.tar"]);
        assert_eq!(found(".hidden/*"), ["z.tar", "y.tar"]);
        assert_eq!(found(".x.tar"), [".x.tar"]);
    }

    #[test]
    fn missing_path_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        assert!(visible_files(&format!("{}/none", root.path().display())).is_err());
    }
}
