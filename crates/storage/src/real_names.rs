//! Local files under one name each.

use crate::local_path;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The one name of a file, from whatever folder and through whatever links its folder is named. Its own name stays: the format follows from it.
#[derive(Debug, Default)]
pub struct RealNames(HashMap<PathBuf, PathBuf>);

impl RealNames {
    /// The name of the file at `path`; as it is when its folder is gone, and for URLs of other stores.
    pub fn of(&mut self, path: &str) -> String {
        let Ok(Some(local)) = local_path(path) else { return path.to_owned() };
        let plain = Path::new(&*local);
        let Some(name) = plain.file_name() else { return path.to_owned() };
        let folder = plain.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
        let real = match self.0.get(folder) {
            Some(real) => real,
            None => match fs::canonicalize(folder) {
                Ok(real) => self.0.entry(folder.to_owned()).or_insert(real),
                Err(_gone) => return path.to_owned(),
            },
        };
        real.join(name).display().to_string()
    }
}
