//! The output directory, and a staged file that counts its bytes.

use crate::sink::Mode;
use crate::{Error, Result};
use shardmill_storage::{
    Disk, RemoteDisk, Staged, create_directory, is_remote, remove_stale_staging, resolved_path,
};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Small writes are buffered up to this size; image bodies bypass the buffer.
const BUFFER_LEN: usize = 256 << 10;

/// A staged file that counts the bytes written.
pub(crate) struct CountingFile {
    path: String,
    file: BufWriter<Counted>,
}

struct Counted {
    staged: Box<dyn Staged>,
    written: u64,
    hash: Option<Box<Xxh3>>,
}

impl CountingFile {
    /// With `is_hashed`, [`CountingFile::into_staged`] returns the xxHash3 of the content.
    pub(crate) fn new(staged: Box<dyn Staged>, path: &str, is_hashed: bool) -> Self {
        let hash = is_hashed.then(Box::default);
        Self {
            path: path.to_owned(),
            file: BufWriter::with_capacity(BUFFER_LEN, Counted { staged, written: 0, hash }),
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.file.get_ref().written + self.file.buffer().len() as u64
    }

    pub(crate) fn into_staged(self) -> Result<(Box<dyn Staged>, String)> {
        let path = self.path;
        let counted = self.file.into_inner().map_err(|error| shardmill_storage::Error::Write {
            path,
            source: error.into_error(),
        })?;
        Ok((
            counted.staged,
            counted.hash.map_or_else(String::new, |hash| format!("{:016x}", hash.digest())),
        ))
    }
}

impl Write for CountingFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Write for Counted {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.staged.write(buffer)?;
        self.written += written as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(buffer.get(..written).unwrap_or_default());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.staged.flush()
    }
}

pub(super) fn prepare(path: &str, mode: Mode, inputs: &[String]) -> Result<()> {
    if is_remote(path) {
        return prepare_remote(path, mode, inputs);
    }
    let path = &*resolved_path(path)?;
    let directory = Path::new(path);
    let failed =
        |source| Error::from(shardmill_storage::Error::Stage { path: path.to_owned(), source });
    match mode {
        Mode::Error if has_files(directory).map_err(failed)? => {
            return Err(Error::OutputExists { path: path.to_owned() });
        }
        Mode::Overwrite if directory.exists() => {
            refuse_to_delete_inputs(directory, inputs)?;
            empty(directory).map_err(failed)?;
        }
        _ => {}
    }
    create_directory(directory).map_err(failed)?;
    let _count = remove_stale_staging(path);
    Ok(())
}

/// A bucket has no directories, so only the objects below the path count.
fn prepare_remote(path: &str, mode: Mode, inputs: &[String]) -> Result<()> {
    let failed =
        |source| Error::from(shardmill_storage::Error::Stage { path: path.to_owned(), source });
    let directory = path.trim_end_matches('/');
    let is_taken =
        || RemoteDisk::default().list(directory).map(|names| !names.is_empty()).map_err(failed);
    match mode {
        Mode::Error if is_taken()? => Err(Error::OutputExists { path: path.to_owned() }),
        Mode::Overwrite => {
            match inputs.iter().find(|input| {
                input
                    .strip_prefix(directory)
                    .is_some_and(|below| below.is_empty() || below.starts_with('/'))
            }) {
                Some(input) => Err(Error::option(
                    "mode",
                    format!("overwrite would delete the input `{input}`"),
                )),
                None => RemoteDisk::default().remove_directory(directory).map_err(failed),
            }
        }
        _ => Ok(()),
    }
}

/// Hidden entries do not count: a killed run leaves staged files behind.
fn has_files(path: &Path) -> io::Result<bool> {
    if !path.is_dir() {
        return Ok(path.exists());
    }
    for entry in fs::read_dir(path)? {
        if !entry?.file_name().as_encoded_bytes().starts_with(b".") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refuse_to_delete_inputs(directory: &Path, inputs: &[String]) -> Result<()> {
    let resolved = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let output = resolved(directory);
    let is_below = |input: &&String| {
        resolved_path(input).is_ok_and(|input| resolved(Path::new(&*input)).starts_with(&output))
    };
    match inputs.iter().find(is_below) {
        Some(input) => {
            Err(Error::option("mode", format!("overwrite would delete the input `{input}`")))
        }
        None => Ok(()),
    }
}

fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
