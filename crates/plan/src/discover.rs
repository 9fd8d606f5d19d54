//! Finds the input files below the paths that a user gives.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_storage::store_of;

/// One file to read, and which version of it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    pub path: String,
    pub size: u64,
    pub modified_ns: i64,
    /// Only these blocks of the file; all of it when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<FilePart>,
}

/// Consecutive blocks of one file of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    pub first_block: usize,
    /// One behind the last.
    pub end_block: usize,
}

impl InputFile {
    /// The version of a file that is there now.
    ///
    /// # Errors
    /// [`Error::Storage`] for a file that cannot be opened.
    pub fn of(path: String) -> Result<Self> {
        let identity = store_of(&path)?.open(&path)?.identity();
        Ok(Self { path, size: identity.size, modified_ns: i64::try_from(identity.modified_ns).unwrap_or(i64::MAX), part: None })
    }
}

/// All files with one of `suffixes` (case-insensitive, such as `.tar.gz`) at or below `paths`, sorted by path.
///
/// Hidden files, `_SUCCESS` markers and `.crc` side files are nobody's data and are left out.
///
/// # Errors
/// [`Error::Storage`] for a missing path or a file that cannot be opened, [`Error::NoInput`] when nothing matches.
pub fn discover(paths: &[String], suffixes: &[String]) -> Result<Vec<InputFile>> {
    list_files(paths, suffixes)?.into_iter().map(InputFile::of).collect()
}

/// The paths of the files that [`discover`] finds, each once; none is opened.
///
/// # Errors
/// [`Error::Storage`] for a missing path, [`Error::NoInput`] when nothing matches.
pub fn list_files(paths: &[String], suffixes: &[String]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for path in paths {
        let found = store_of(path)?.list(path)?;
        files.extend(found.into_iter().filter(|found| is_data(path, found) && has_suffix(found, suffixes)));
    }
    files.sort_unstable();
    files.dedup();
    if files.is_empty() {
        return Err(Error::NoInput { paths: paths.join(", "), wanted: suffixes.join(" / ") });
    }
    Ok(files)
}

fn has_suffix(path: &str, suffixes: &[String]) -> bool {
    let path = path.to_ascii_lowercase();
    let path = without_shard_number(&path);
    suffixes.iter().any(|suffix| path.ends_with(&suffix.to_ascii_lowercase()))
}

/// `train.array_record` of `train.array_record-00000-of-00010`, as many name the shards of a data set.
#[must_use]
pub fn without_shard_number(path: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = path.rsplit_once("-of-").and_then(|(before, count)| Some((before.rsplit_once('-')?, count)));
    match parts {
        Some(((name, number), count)) if is_number(number) && is_number(count) => name,
        _ => path,
    }
}

/// Only the part below the user's own path is judged: a data set may well live below a hidden folder.
fn is_data(root: &str, path: &str) -> bool {
    let below = path.strip_prefix(root).unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_hidden = below.split('/').any(|part| part.starts_with('.') && part != "." && part != "..") && below != path;
    !(is_hidden || name.starts_with('.') || name == "_SUCCESS" || name.ends_with(".crc"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

    fn suffixes(list: &[&str]) -> Vec<String> {
        list.iter().map(|suffix| (*suffix).to_owned()).collect()
    }

    #[test]
    fn number_of_a_shard_behind_the_extension_is_no_part_of_it() {
        assert_eq!(without_shard_number("a/train.array_record-00000-of-00010"), "a/train.array_record");
        for whole in ["a.tar", "one-of-many.tar", "part-1-of-x", "-of-3", "a--of-1", ""] {
            assert_eq!(without_shard_number(whole), whole);
        }
    }

    #[test]
    fn directory_is_searched_recursively_without_hidden_files() -> TestResult {
        let root = tempfile::tempdir()?;
        fs::create_dir_all(root.path().join("b/.hidden"))?;
        for name in ["b/2.TAR", "a.tar.gz", ".x.tar", "b/.hidden/y.tar", "_SUCCESS", "z.txt", "q.tar.crc"] {
            fs::write(root.path().join(name), b"x")?;
        }
        let found = discover(&[root.path().display().to_string()], &suffixes(&[".tar", ".tar.gz"]))?;
        let names: Vec<_> = found.iter().map(|file| file.path.rsplit('/').next().unwrap_or("")).collect();
        assert_eq!(names, ["a.tar.gz", "2.TAR"]);
        Ok(())
    }

    #[test]
    fn missing_path_and_empty_directory_are_errors() -> TestResult {
        let root = tempfile::tempdir()?;
        let path = root.path().display().to_string();
        assert!(matches!(discover(&[format!("{path}/none")], &suffixes(&[".tar"])), Err(Error::Storage(_))));
        assert!(matches!(discover(&[path], &suffixes(&[".tar"])), Err(Error::NoInput { .. })));
        Ok(())
    }
}
