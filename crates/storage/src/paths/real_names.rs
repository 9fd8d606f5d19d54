//! Canonical names of local files.

use crate::local_path;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Resolves the directory of a path and its links, so that each file has one name. The file name
/// itself is kept, because the format follows from it.
#[derive(Debug, Default)]
pub struct RealNames(HashMap<PathBuf, PathBuf>);

impl RealNames {
    /// The canonical name of the file at `path`; unchanged if its directory
    /// is missing, and for URLs.
    pub fn of(&mut self, path: &str) -> String {
        let Ok(Some(local)) = local_path(path) else { return path.to_owned() };
        let plain = Path::new(&*local);
        let Some(name) = plain.file_name() else { return path.to_owned() };
        let directory =
            plain.parent().filter(|directory| *directory != "").unwrap_or(Path::new("."));
        let real = match self.0.get(directory) {
            Some(real) => real,
            None => match fs::canonicalize(directory) {
                Ok(real) => self.0.entry(directory.to_owned()).or_insert(real),
                Err(_gone) => return path.to_owned(),
            },
        };
        real.join(name).display().to_string()
    }

    /// As [`RealNames::of`]; of a link to a file, the name of that file. A link without a target
    /// has its own name.
    pub fn target_of(&mut self, path: &str) -> String {
        let name = self.of(path);
        let is_link = matches!(local_path(path), Ok(Some(_)))
            && fs::symlink_metadata(&name).is_ok_and(|metadata| metadata.is_symlink());
        match is_link.then(|| fs::canonicalize(&name)) {
            Some(Ok(target)) => target.display().to_string(),
            _ => name,
        }
    }
}
