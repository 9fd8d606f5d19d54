//! Lists the files of a data set, with their names below its root.

use crate::Result;
use crate::lake::refuse_lake;
use crate::patterns::{root_of, segments};
use shardmill_storage::{AnyStore, RealNames, Store, is_remote, is_unreadable, resolved_path};
use std::collections::HashSet;

/// One file of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    pub path: String,
    /// Path below the user's path: part of the identity of the data set, wherever it is located.
    pub relative: String,
}

/// The files of a path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// In byte order of their relative paths.
    pub files: Vec<DataFile>,
    /// Files that describe or accompany data, or that are deliberately ignored.
    pub side_cars: Vec<SideCar>,
    /// The path names a single file explicitly.
    pub is_named: bool,
}

impl Listing {
    /// Rejects the files of `path` if they belong to a table of a lake.
    ///
    /// # Errors
    /// [`Error::LakeDirectory`](crate::Error::LakeDirectory).
    pub fn refuse_lake(&self, path: &str) -> Result<()> {
        let files = self.files.iter().map(|file| &*file.path);
        refuse_lake(path, files.chain(self.side_cars.iter().map(|file| &*file.path)))
    }
}

/// A file that is not data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideCar {
    pub path: String,
    pub reason: &'static str,
    /// The file may be data nevertheless.
    pub is_surprising: bool,
}

/// Why an object of a store is not read.
const UNREADABLE: &str = "its key cannot be requested: it starts or ends with `/`, \
    or has a part `.` or `..` or a control character";

/// Names of files that accompany data sets. They are data only if they are named explicitly.
pub const SIDE_CARS: [&str; 12] = [
    "dataset_dict.json",
    "dataset_info.json",
    "dataset_infos.json",
    "index.json",
    "metadata.json",
    "state.json",
    "LICENSE",
    "README.md",
    "MD5SUMS",
    "SHA1SUMS",
    "SHA256SUMS",
    "SHA512SUMS",
];

/// Name suffixes of files that accompany the file with the remaining name: indexes of MosaicML
/// Streaming, Energon, WebDataset, Megatron-LM and datatrove, checksums, backups of editors, and unfinished files.
const SIDE_CAR_SUFFIXES: [&str; 26] = [
    ".json.meta",
    ".csv.meta",
    ".tsv.meta",
    ".idx",
    ".ds.index",
    ".ds.loss",
    ".ds.metadata",
    ".provenance.parquet",
    ".crc",
    ".crc32",
    ".crc32c",
    ".md5",
    ".md5sum",
    ".sha1",
    ".sha1sum",
    ".sha224",
    ".sha256",
    ".sha256sum",
    ".sha384",
    ".sha512",
    ".sha512sum",
    "~",
    ".bak",
    ".tmp",
    ".swp",
    ".swo",
];

/// Whether the name of a file says that it accompanies data.
#[must_use]
pub fn accompanies(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let lower = name.to_ascii_lowercase();
    SIDE_CARS.contains(&name) || SIDE_CAR_SUFFIXES.iter().any(|suffix| lower.ends_with(suffix))
}

/// All files at or below `paths`: those of a directory or a glob in byte order of their relative
/// path, an explicit list in its own order. A file that is found twice counts once.
///
/// # Errors
/// As [`listing`].
pub fn data_files(paths: &[String]) -> Result<Vec<DataFile>> {
    let mut files: Vec<DataFile> = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        files
            .extend(listing(path)?.files.into_iter().filter(|file| seen.insert(file.path.clone())));
    }
    Ok(files)
}

/// All files at or below a path.
///
/// A path segment below the root that starts with `_` or `.`, [`SIDE_CARS`] and files with
/// [`SIDE_CAR_SUFFIXES`] are not data, unless the path names them itself.
///
/// # Errors
/// [`crate::Error::Storage`] for a path that does not exist or cannot be listed.
pub fn listing(path: &str) -> Result<Listing> {
    let path = &*resolved_path(path)?;
    let pattern = path.trim_end_matches('/');
    let root = root_of(pattern);
    let mut listing = Listing::default();
    for file in AnyStore.list(path)? {
        let below = below(root, &file);
        listing.is_named |= below.is_empty();
        match side_car(pattern, &file) {
            Some(reason) => {
                listing.side_cars.push(SideCar { path: file, reason, is_surprising: false });
            }
            None if is_remote(&file) && is_unreadable(&file) => {
                listing.side_cars.push(SideCar {
                    path: file,
                    reason: UNREADABLE,
                    is_surprising: true,
                });
            }
            None => {
                // A single file has its own name.
                let relative =
                    if below.is_empty() { file.rsplit('/').next().unwrap_or(&file) } else { below };
                listing.files.push(DataFile { relative: relative.to_owned(), path: file });
            }
        }
    }
    let is_pattern = root.len() < pattern.len();
    if listing.files.is_empty() && listing.side_cars.is_empty() && is_pattern {
        return Err(shardmill_storage::Error::NotFound { path: path.to_owned() }.into());
    }
    listing.files.sort_unstable_by(|a, b| a.relative.cmp(&b.relative));
    Ok(listing)
}

/// Rejects a path that is listed twice, by any of its names.
///
/// # Errors
/// [`crate::Error::ListedTwice`].
pub fn refuse_repeated(paths: &[String]) -> Result<()> {
    let (mut names, mut seen) = (RealNames::default(), HashSet::new());
    match paths.iter().find(|path| !seen.insert(names.of(path.trim_end_matches('/')))) {
        Some(path) => Err(crate::Error::ListedTwice { path: path.clone() }),
        None => Ok(()),
    }
}

/// The part of a listed path below the root. A glob may be expanded without the `.` and the
/// repeated slashes in it.
fn below<'a>(root: &str, file: &'a str) -> &'a str {
    // The keys of a store are names, in which an empty part counts.
    if let Some(rest) =
        file.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')).filter(|_| is_remote(file))
    {
        return rest;
    }
    let mut rest = file;
    for segment in segments(root) {
        match trimmed(rest).strip_prefix(segment) {
            Some(after) if after.is_empty() || after.starts_with('/') => rest = after,
            _ => return trimmed(file),
        }
    }
    trimmed(rest)
}

fn trimmed(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix('/').or_else(|| path.strip_prefix("./")) {
        path = rest;
    }
    path
}

/// Why a file is not data.
fn side_car(pattern: &str, file: &str) -> Option<&'static str> {
    let named = segments(pattern).map(Some).chain(std::iter::repeat(None));
    let is_hidden = |segment: &str| segment.starts_with(['_', '.']) && segment != "..";
    if !segments(file)
        .zip(named)
        .all(|(segment, named)| !is_hidden(segment) || named.is_some_and(is_hidden))
    {
        return Some("its name, or that of a directory above it, starts with `_` or `.`");
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    let is_named = pattern.rsplit('/').next() == Some(name);
    (accompanies(name) && !is_named)
        .then_some("files with this name accompany data and are not data")
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
        for name in [
            "b/k=1/2.parquet",
            "a.parquet",
            "_SUCCESS",
            "_temporary/x.parquet",
            ".hidden/y.parquet",
            "a.parquet.crc",
            "c",
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        let path = root.path().display().to_string();
        assert_eq!(
            relatives(&data_files(std::slice::from_ref(&path)).unwrap()),
            ["a.parquet", "b/k=1/2.parquet", "c"]
        );
        assert_eq!(
            relatives(&data_files(&[format!("{path}/")]).unwrap()),
            ["a.parquet", "b/k=1/2.parquet", "c"]
        );
        assert_eq!(
            relatives(&data_files(&[format!("{path}/*/k=*/*.parquet")]).unwrap()),
            ["b/k=1/2.parquet"]
        );
        assert_eq!(relatives(&data_files(&[format!("{path}/_temporary")]).unwrap()), ["x.parquet"]);
        assert_eq!(
            relatives(&data_files(&[format!("{path}/_temp*/*")]).unwrap()),
            ["_temporary/x.parquet"]
        );
        // A glob is expanded without repeated slashes.
        assert_eq!(
            relatives(&data_files(&[format!("{path}//b/*/*.parquet")]).unwrap()),
            ["k=1/2.parquet"]
        );
        assert_eq!(
            relatives(&data_files(&[format!("{path}//_temporary/*")]).unwrap()),
            ["x.parquet"]
        );
        assert_eq!(
            relatives(&data_files(&[format!("{path}/c"), format!("{path}/a.parquet")]).unwrap()),
            ["c", "a.parquet"]
        );
    }

    #[test]
    fn names_below_a_root_do_not_depend_on_how_it_is_written() {
        for (root, file) in [
            ("./d", "d/a/b"),
            ("d/./", "d/a/b"),
            ("/d//", "/d/a/b"),
            (".", "./a/b"),
            ("", "a/b"),
            ("s3://d", "s3://d/a/b"),
        ] {
            assert_eq!(below(root, file), "a/b", "{root}");
        }
        assert_eq!((below("./d/a", "d/a"), below("d", "da/b")), ("", "da/b"));
    }

    #[test]
    fn side_cars_are_data_only_where_they_are_named() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.json", "index.json", "b/state.json", "a.json.meta", "_SUCCESS"] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        let path = root.path().display().to_string();
        for pattern in [path.clone(), format!("{path}/**/*"), format!("file://{path}")] {
            let found = listing(&pattern).unwrap();
            assert_eq!(relatives(&found.files), ["a.json"], "{pattern}");
            assert!(found.side_cars.len() >= 4 && !found.is_named);
        }
        for named in [format!("{path}/index.json"), format!("{path}/*/state.json")] {
            assert_eq!(listing(&named).unwrap().files.len(), 1, "{named}");
        }
        assert!(listing(&format!("{path}/index.json")).unwrap().is_named);
    }

    #[test]
    fn path_that_is_listed_twice_by_any_of_its_names_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), b"x").unwrap();
        let path = root.path().display().to_string();
        for other in [format!("{path}/a"), format!("{path}//./a"), format!("file://{path}/a")] {
            let twice = [format!("{path}/a"), other];
            assert!(
                matches!(refuse_repeated(&twice), Err(crate::Error::ListedTwice { .. })),
                "{twice:?}"
            );
        }
        refuse_repeated(&[format!("{path}/a"), format!("{path}/b"), path.clone()]).unwrap();
    }

    #[test]
    fn data_set_below_a_hidden_directory_is_found() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("_data/.v1");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("a"), b"x").unwrap();
        assert_eq!(data_files(&[directory.display().to_string()]).unwrap().len(), 1);
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
