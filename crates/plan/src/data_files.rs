//! Finds the files of a data set, and what they are called below its root.

use crate::Result;
use shardmill_storage::store_of;
use std::collections::HashSet;

/// One file of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    pub path: String,
    /// Below the root of the path that the user gave: part of the identity of the data set, wherever it lies.
    pub relative: String,
}

/// All files at or below `paths`: those of a directory or a glob in byte order of their relative path, an explicit list in its own order.
///
/// A segment below the root that starts with `_` or `.`, and `.crc` side files, are nobody's data, unless the path names them so itself.
///
/// # Errors
/// [`crate::Error::Storage`] for a path that does not exist or cannot be listed.
pub fn data_files(paths: &[String]) -> Result<Vec<DataFile>> {
    let mut files: Vec<DataFile> = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        let pattern = path.trim_end_matches('/');
        let root = root_of(pattern);
        let mut found: Vec<DataFile> = Vec::new();
        for file in store_of(path)?.list(path)? {
            if is_data(pattern, &file) {
                let below = file.strip_prefix(root).unwrap_or(&file).trim_start_matches('/');
                // A single file is called by its own name.
                let relative = if below.is_empty() { file.rsplit('/').next().unwrap_or(&file) } else { below };
                found.push(DataFile { relative: relative.to_owned(), path: file });
            }
        }
        let is_pattern = root.len() < pattern.strip_prefix("file://").unwrap_or(pattern).len();
        if found.is_empty() && is_pattern {
            return Err(shardmill_storage::Error::NotFound { path: path.clone() }.into());
        }
        found.sort_unstable_by(|a, b| a.relative.cmp(&b.relative));
        files.extend(found.into_iter().filter(|file| seen.insert(file.path.clone())));
    }
    Ok(files)
}

/// The part of a path before its first wildcard.
fn root_of(pattern: &str) -> &str {
    let plain = pattern.strip_prefix("file://").unwrap_or(pattern);
    match plain.find(['*', '?', '[']) {
        Some(wildcard) if std::fs::metadata(plain).is_err() => {
            plain.get(..wildcard).and_then(|head| head.rfind('/').and_then(|end| head.get(..end))).unwrap_or("")
        }
        _ => plain,
    }
}

fn is_data(pattern: &str, file: &str) -> bool {
    let named = pattern.strip_prefix("file://").unwrap_or(pattern).split('/').map(Some).chain(std::iter::repeat(None));
    let is_hidden = |segment: &str| segment.starts_with(['_', '.']) && segment != "." && segment != "..";
    let visible = file.split('/').zip(named).all(|(segment, named)| !is_hidden(segment) || named.is_some_and(is_hidden));
    visible && !(file.ends_with(".crc") && pattern != file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn relatives(files: &[DataFile]) -> Vec<&str> {
        files.iter().map(|file| file.relative.as_str()).collect()
    }

    #[test]
    fn directory_is_walked_without_hidden_segments_and_side_files() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b/k=1/2.parquet", "a.parquet", "_SUCCESS", "_temporary/x.parquet", ".hidden/y.parquet", "a.parquet.crc", "c"] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        let path = root.path().display().to_string();
        assert_eq!(relatives(&data_files(std::slice::from_ref(&path)).unwrap()), ["a.parquet", "b/k=1/2.parquet", "c"]);
        assert_eq!(relatives(&data_files(&[format!("{path}/")]).unwrap()), ["a.parquet", "b/k=1/2.parquet", "c"]);
        assert_eq!(relatives(&data_files(&[format!("{path}/*/k=*/*.parquet")]).unwrap()), ["b/k=1/2.parquet"]);
        assert_eq!(relatives(&data_files(&[format!("{path}/_temporary")]).unwrap()), ["x.parquet"]);
        assert_eq!(relatives(&data_files(&[format!("{path}/_temp*/*")]).unwrap()), ["_temporary/x.parquet"]);
        assert_eq!(relatives(&data_files(&[format!("{path}/c"), format!("{path}/a.parquet")]).unwrap()), ["c", "a.parquet"]);
    }

    #[test]
    fn data_set_below_a_hidden_folder_is_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("_data/.v1");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a"), b"x").unwrap();
        assert_eq!(data_files(&[folder.display().to_string()]).unwrap().len(), 1);
    }

    #[test]
    fn empty_directory_has_no_files_and_a_missing_path_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().display().to_string();
        assert!(data_files(std::slice::from_ref(&path)).unwrap().is_empty());
        assert!(matches!(data_files(&[format!("{path}/none")]), Err(crate::Error::Storage(_))));
        assert!(matches!(data_files(&[format!("{path}/*.none")]), Err(crate::Error::Storage(_))));
    }
}
