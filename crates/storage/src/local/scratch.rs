//! Unnamed temporary disk space: it is freed when the process ends, however it ends.

use crate::local::file::read_exact_at;
use crate::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// An unnamed file. Any number of threads append to it and read from it.
#[derive(Debug)]
pub struct ScratchFile {
    directory: String,
    file: File,
    end: AtomicU64,
}

impl ScratchFile {
    /// # Errors
    /// [`Error::Stage`] when no file can be created in `directory`.
    pub fn create_in(directory: &Path) -> Result<Self> {
        let named = directory.display().to_string();
        let file =
            unnamed(directory).map_err(|source| Error::Stage { path: named.clone(), source })?;
        Ok(Self { directory: named, file, end: AtomicU64::new(0) })
    }

    /// Appends `bytes` and returns their offset.
    ///
    /// # Errors
    /// [`Error::Write`], usually because the disk is full.
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
                Err(error) => {
                    return Err(Error::Write {
                        path: self.directory.clone(),
                        source: error.into(),
                    });
                }
            }
        }
        Ok(start)
    }

    /// # Errors
    /// [`Error::Read`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len();
        read_exact_at(&self.file, buffer, offset).map_err(|source| Error::Read {
            path: self.directory.clone(),
            offset,
            len,
            source,
        })
    }
}

#[cfg(target_os = "linux")]
fn unnamed(directory: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};

    match rustix::fs::open(
        directory,
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    ) {
        Ok(file) => Ok(file.into()),
        // Some file systems cannot create an unnamed file.
        Err(_unsupported) => unlinked(directory),
    }
}

#[cfg(not(target_os = "linux"))]
fn unnamed(directory: &Path) -> io::Result<File> {
    unlinked(directory)
}

/// The file has a name for a moment, and keeps it if the process is killed in between.
fn unlinked(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".shardmill-{}.scratch", uuid::Uuid::new_v4().simple()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_bytes_are_read_back_and_no_name_is_left()
    -> std::result::Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let scratch = ScratchFile::create_in(directory.path())?;
        let places = [scratch.append(b"one")?, scratch.append(b"three")?];
        let mut buffer = [0; 5];
        scratch.read_at(places[1], &mut buffer)?;
        assert_eq!(&buffer, b"three");
        assert!(matches!(scratch.read_at(places[1] + 1, &mut buffer), Err(Error::Read { .. })));
        assert_eq!(std::fs::read_dir(directory.path())?.count(), 0);
        Ok(())
    }
}
