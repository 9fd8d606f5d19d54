//! A whole local file as bytes, whose pages all processes of the machine share.

use crate::{Error, LocalFile, Result};
use memmap2::Mmap;
use std::ops::Deref;

/// A read-only mapping of a file that is published atomically and never written in place.
///
/// Nothing is read when it is made: the system brings a page when it is first touched, and takes it back when memory is short. A file that somebody cuts
/// while it is mapped ends the process with SIGBUS when a page behind its end is touched; there is no defence against that but copying, so only files of
/// ours, which are replaced by a rename and leave the old content to those who map it, are meant for this.
#[derive(Debug)]
pub struct MappedFile {
    path: String,
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Mmap>,
}

impl MappedFile {
    /// # Errors
    /// [`Error::NotFound`] or [`Error::Open`].
    pub fn open(path: &str) -> Result<Self> {
        let file = LocalFile::open(path)?;
        if file.is_empty() {
            return Ok(Self { path: path.to_owned(), map: None });
        }
        let map = map(&file).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), map: Some(map) })
    }

    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Says that pages will be needed in no order, so that reading ahead would be in vain.
    pub fn expect_random_access(&self) {
        if let Some(map) = &self.map {
            let _advice = map.advise(memmap2::Advice::Random);
        }
    }
}

#[expect(unsafe_code, reason = "mapping a file is unsafe by nature; this is the one place of the workspace that does it")]
fn map(file: &LocalFile) -> std::io::Result<Mmap> {
    // SAFETY: the slice stays valid as long as the file is neither written nor cut under the mapping. The files that are opened here are published by
    // rename and never written again; whoever replaces one makes another inode. Readers take no number in them for granted.
    unsafe { Mmap::map(file.as_file()) }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_file_keeps_its_old_content_for_those_who_mapped_it() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("a").display().to_string();
        std::fs::write(&path, b"old")?;
        let mapped = MappedFile::open(&path)?;
        std::fs::write(format!("{path}.new"), b"new")?;
        std::fs::rename(format!("{path}.new"), &path)?;
        assert_eq!((&*mapped, &*MappedFile::open(&path)?), (&b"old"[..], &b"new"[..]));
        Ok(())
    }

    #[test]
    fn empty_file_is_no_bytes_and_a_folder_is_an_error() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("a").display().to_string();
        std::fs::write(&path, b"")?;
        assert!(MappedFile::open(&path)?.is_empty());
        assert!(matches!(MappedFile::open(&folder.path().display().to_string()), Err(Error::Open { .. })));
        Ok(())
    }
}
