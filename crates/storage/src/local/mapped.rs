//! A whole local file as bytes, whose pages are shared by all processes of the machine.

use crate::{Error, LocalFile, Result};
use memmap2::Mmap;
use std::ops::Deref;

/// A read-only mapping of a file that is published atomically and never written in place.
///
/// Creating a mapping reads nothing: the system loads a page when it is first accessed, and evicts
/// it when memory is short. If a mapped file is truncated, accessing a page past its end ends the
/// process with SIGBUS. Only copying would prevent that, so map only files that this project
/// writes: they are replaced by a rename, and existing mappings keep the old content.
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
}

#[expect(
    unsafe_code,
    reason = "mapping a file is unsafe by nature; this is the one place \
        of the workspace that does it"
)]
fn map(file: &LocalFile) -> std::io::Result<Mmap> {
    // SAFETY: the slice stays valid as long as the file is neither written nor truncated while it
    // is mapped. The files that are opened here are published by a rename and never written again;
    // a replacement creates another inode. Readers do not trust any number in them.
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
    fn replaced_file_keeps_its_old_content_for_those_who_mapped_it()
    -> std::result::Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("a").display().to_string();
        std::fs::write(&path, b"old")?;
        let mapped = MappedFile::open(&path)?;
        std::fs::write(format!("{path}.new"), b"new")?;
        std::fs::rename(format!("{path}.new"), &path)?;
        assert_eq!((&*mapped, &*MappedFile::open(&path)?), (&b"old"[..], &b"new"[..]));
        Ok(())
    }

    #[test]
    fn empty_file_has_no_bytes_and_a_directory_is_an_error()
    -> std::result::Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("a").display().to_string();
        std::fs::write(&path, b"")?;
        assert!(MappedFile::open(&path)?.is_empty());
        assert!(matches!(
            MappedFile::open(&directory.path().display().to_string()),
            Err(Error::Open { .. })
        ));
        Ok(())
    }
}
