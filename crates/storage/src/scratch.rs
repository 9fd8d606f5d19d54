//! Room on a disk without a name: it is gone with the process, however that ends.

use crate::local::read_exact_at;
use crate::{Error, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that never has a name. Any number of threads append to it and read from it.
#[derive(Debug)]
pub struct ScratchFile {
    folder: String,
    file: File,
    end: AtomicU64,
}

impl ScratchFile {
    /// # Errors
    /// [`Error::Stage`] when `folder` cannot take a file.
    pub fn create_in(folder: &Path) -> Result<Self> {
        let named = folder.display().to_string();
        let file = unnamed(folder).map_err(|source| Error::Stage { path: named.clone(), source })?;
        Ok(Self { folder: named, file, end: AtomicU64::new(0) })
    }

    /// Returns where the bytes begin.
    ///
    /// # Errors
    /// [`Error::Write`], mostly because the disk is full.
    pub fn append(&self, mut bytes: &[u8]) -> Result<u64> {
        let start = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut offset = start;
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.file, bytes, offset) {
                Ok(len) => {
                    bytes = bytes.get(len..).unwrap_or_default();
                    offset += len as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::Write { path: self.folder.clone(), source: error.into() }),
            }
        }
        Ok(start)
    }

    /// # Errors
    /// [`Error::Read`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len();
        read_exact_at(&self.file, buffer, offset).map_err(|source| Error::Read { path: self.folder.clone(), offset, len, source })
    }
}

fn unnamed(folder: &Path) -> io::Result<File> {
    match rustix::fs::open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Some file systems cannot make a file without a name; then it has one for a moment.
        Err(_unsupported) => {
            let path = folder.join(format!(".shardmill-{}.scratch", uuid::Uuid::new_v4().simple()));
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_back_and_no_name_is_left() -> std::result::Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let scratch = ScratchFile::create_in(folder.path())?;
        let places = [scratch.append(b"one")?, scratch.append(b"three")?];
        let mut buffer = [0; 5];
        scratch.read_at(places[1], &mut buffer)?;
        assert_eq!(&buffer, b"three");
        assert!(matches!(scratch.read_at(places[1] + 1, &mut buffer), Err(Error::Read { .. })));
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
        Ok(())
    }
}
