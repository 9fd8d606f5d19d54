//! Local files: opened once, read by `pread` from any thread.

use crate::{
    Error, Identity, LocalStaged, RangeRead, Result, Staged, Store, Unpublished, len_within,
    resolved_path,
};
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Without it, opening a named pipe would wait for a writer; it has no effect on regular files.
#[expect(clippy::cast_possible_wrap, reason = "a flag of the C interface, where flags are signed")]
pub(crate) const NO_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// The file systems of this machine.
#[derive(Debug, Default, Clone)]
pub struct LocalStore {}

/// One open local file.
#[derive(Debug)]
pub struct LocalFile {
    path: String,
    file: File,
    identity: Identity,
}

impl LocalFile {
    /// # Errors
    /// [`Error::NotFound`] or [`Error::Open`].
    pub fn open(path: &str) -> Result<Self> {
        Self::open_as(path, &resolved_path(path)?)
    }

    /// Opens `name`; errors show `path`.
    pub(crate) fn open_as(path: &str, name: &str) -> Result<Self> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path: path.to_owned() },
            _ => Error::Open { path: path.to_owned(), source },
        };
        let file = File::options().read(true).custom_flags(NO_WAIT).open(name).map_err(failed)?;
        Self::from_file(path, file)
    }

    /// Wraps an open file, such as an unnamed temporary one; errors show `path`.
    ///
    /// # Errors
    /// [`Error::Open`] when it cannot be inspected, or is not a regular file.
    pub fn from_file(path: &str, file: File) -> Result<Self> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if !metadata.is_file() {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "pipes and devices do not support reads of ranges",
            )));
        }
        Ok(Self { path: path.to_owned(), file, identity: identity_of(&metadata) })
    }

    fn failed(&self, offset: u64, len: usize, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::ShortRead {
                path: self.path.clone(),
                offset,
                len,
                end: offset.saturating_add(len as u64),
            },
            _ => Error::Read { path: self.path.clone(), offset, len, source },
        }
    }

    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.identity.size == 0
    }
}

/// As [`std::os::unix::fs::FileExt::read_exact_at`], without the C library, whose `pread` is a
/// cancellation point with a cost for each call.
pub(crate) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                buffer = buffer.get_mut(len..).unwrap_or_default();
                offset += len as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// As [`read_exact_at`], into new memory that is not zeroed first.
pub(crate) fn read_new_at(file: &File, len: usize, mut offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    while bytes.len() < len {
        match rustix::io::pread(file, spare_capacity(&mut bytes), offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => offset += read as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocator may return more capacity than requested.
    bytes.truncate(len);
    Ok(bytes)
}

fn identity_of(metadata: &Metadata) -> Identity {
    let modified_ns =
        i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    Identity { size: metadata.len(), modified_ns }
}

impl RangeRead for LocalFile {
    fn path(&self) -> &str {
        &self.path
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len();
        read_exact_at(&self.file, buffer, offset).map_err(|source| self.failed(offset, len, source))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let lens: Vec<usize> =
            ranges.iter().map(|range| len_within(self, range)).collect::<Result<_>>()?;
        let read = |(range, len): (&Range<u64>, usize)| {
            let bytes = read_new_at(&self.file, len, range.start)
                .map_err(|source| self.failed(range.start, len, source))?;
            Ok(bytes.into())
        };
        ranges.iter().zip(lens).map(read).collect()
    }

    fn is_unchanged(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| identity_of(&metadata) == self.identity)
    }
}

impl Store for LocalStore {
    fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        Ok(Arc::new(LocalFile::open(path)?))
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        let plain = &*resolved_path(path)?;
        let mut files = Vec::new();
        match fs::metadata(plain) {
            Ok(metadata) if metadata.is_dir() => files_below(Path::new(plain), &mut files)?,
            Ok(_) => files.push(plain.to_owned()),
            Err(_) if plain.contains(['*', '?', '[']) => expand(plain, &mut files)?,
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NotFound { path: path.to_owned() });
            }
            Err(source) => return Err(Error::List { path: path.to_owned(), source }),
        }
        files.sort_unstable();
        files.dedup();
        Ok(files)
    }

    fn directories_in(&self, directory: &str, names: &[&str]) -> Result<Vec<bool>> {
        let directory = resolved_path(directory)?;
        Ok(names.iter().map(|name| Path::new(&*directory).join(name).is_dir()).collect())
    }

    fn stage(&self, path: &str, unpublished: &Unpublished) -> Result<Box<dyn Staged>> {
        Ok(Box::new(LocalStaged::create(&resolved_path(path)?, unpublished)?))
    }

    fn stage_as(
        &self,
        path: &str,
        hidden: &str,
        unpublished: &Unpublished,
    ) -> Result<Box<dyn Staged>> {
        Ok(Box::new(LocalStaged::create_as(&resolved_path(path)?, Some(hidden), unpublished)?))
    }
}

/// The files below a directory, by each of their names: links are followed, except to a directory
/// that contains them.
fn files_below(root: &Path, files: &mut Vec<String>) -> Result<()> {
    let real = fs::canonicalize(root).map_err(failed_in(root))?;
    Walk { above: Vec::new(), files }.list(root, &real)
}

struct Walk<'a> {
    /// Canonical paths of the directories being listed, innermost last. None is listed again below
    /// itself, so that links that form a loop end.
    above: Vec<PathBuf>,
    files: &'a mut Vec<String>,
}

impl Walk<'_> {
    fn list(&mut self, directory: &Path, real: &PathBuf) -> Result<()> {
        if self.above.contains(real) {
            return Ok(());
        }
        self.above.push(real.clone());
        for entry in fs::read_dir(directory).map_err(failed_in(directory))? {
            let entry = entry.map_err(failed_in(directory))?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed_in(directory))?);
            if kind.is_dir() {
                self.list(&path, &real.join(entry.file_name()))?;
            } else if kind.is_symlink() {
                self.follow(&path)?;
            } else if kind.is_file() {
                self.files.push(utf8(&path)?);
            }
        }
        self.above.pop();
        Ok(())
    }

    /// A link without a target is listed, so that opening it fails.
    fn follow(&mut self, link: &Path) -> Result<()> {
        match fs::metadata(link) {
            Ok(metadata) if metadata.is_dir() => {
                let real = fs::canonicalize(link).map_err(failed_in(link))?;
                let contains_link =
                    self.above.last().is_some_and(|directory| directory.starts_with(&real));
                if contains_link { Ok(()) } else { self.list(link, &real) }
            }
            Ok(metadata) if !metadata.is_file() => Ok(()),
            _file_or_dangling => {
                self.files.push(utf8(link)?);
                Ok(())
            }
        }
    }
}

fn failed_in(directory: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::List { path: directory.display().to_string(), source }
}

fn expand(pattern: &str, files: &mut Vec<String>) -> Result<()> {
    let failed = |message: String| Error::List {
        path: pattern.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, message),
    };
    // For the library, `**` at the end stands for directories alone.
    let files_too = if pattern.ends_with("/**") { "/*" } else { "" };
    for path in
        glob::glob(&format!("{pattern}{files_too}")).map_err(|error| failed(error.to_string()))?
    {
        let path = path.map_err(|error| failed(error.to_string()))?;
        if path.is_dir() {
            files_below(&path, files)?;
        } else {
            files.push(utf8(&path)?);
        }
    }
    Ok(())
}

fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| Error::List {
        path: path.display().to_string(),
        source: io::Error::new(io::ErrorKind::InvalidData, "the path is not UTF-8"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

    // rustix cannot create pipes on other systems.
    #[cfg(target_os = "linux")]
    #[test]
    fn named_pipe_is_refused_and_not_waited_for() -> TestResult {
        let directory = tempfile::tempdir()?;
        let pipe = directory.path().join("a.tar");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )?;
        let path = pipe.display().to_string();
        assert!(matches!(LocalFile::open(&path), Err(Error::Open { .. })));
        assert!(LocalStore::default().list(&directory.path().display().to_string())?.is_empty());
        Ok(())
    }

    #[test]
    fn ranges_of_a_file_come_as_they_were_asked_and_none_goes_beyond_its_end() -> TestResult {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("a").display().to_string();
        fs::write(&path, b"0123456789")?;
        let file = crate::AnyStore.open_with_tail(&path, 1 << 40)?;
        assert_eq!(file.read_ranges(&[8..10, 0..3, 4..4])?, [b"89".as_slice(), b"012", b""]);
        for range in [8..11, 0..u64::MAX, Range { start: 5, end: 4 }] {
            assert!(matches!(file.read_ranges(&[range]), Err(Error::ShortRead { .. })));
        }
        Ok(())
    }

    #[test]
    fn file_that_shrinks_after_it_was_opened_is_a_short_read_that_names_it() -> TestResult {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("a.tar");
        fs::write(&path, [7; 100])?;
        let file = LocalFile::open(&path.display().to_string())?;
        fs::write(&path, [7; 50])?;
        let mut buffer = [0; 100];
        assert!(matches!(file.read_at(0, &mut buffer), Err(Error::ShortRead { end: 100, .. })));
        assert!(matches!(
            file.read_ranges(&[10..20, 0..100]),
            Err(Error::ShortRead { end: 100, .. })
        ));
        file.read_at(0, &mut buffer[..50])?;
        Ok(())
    }

    #[test]
    fn ranges_that_overlap_are_empty_or_stand_in_any_order_are_read_as_they_stand() -> TestResult {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("a.tar");
        let content: Vec<u8> = (0..=255).cycle().take(1000).collect();
        fs::write(&path, &content)?;
        let file = LocalFile::open(&path.display().to_string())?;
        let ranges = [900..1000, 0..1000, 5..5, 3..7];
        let expected: Vec<&[u8]> = vec![&content[900..], &content, &[], &content[3..7]];
        assert_eq!(file.read_ranges(&ranges)?, expected);
        assert!(matches!(
            file.read_ranges(std::slice::from_ref(&(990..1001))),
            Err(Error::ShortRead { end: 1001, .. })
        ));
        Ok(())
    }

    fn listed(root: &Path) -> Result<Vec<String>> {
        let prefix = format!("{}/", root.display());
        let found = LocalStore::default().list(&root.display().to_string())?;
        Ok(found.iter().map(|path| path.strip_prefix(&prefix).unwrap_or(path).to_owned()).collect())
    }

    #[test]
    fn linked_directories_are_listed_and_link_loops_end() -> TestResult {
        let parent = tempfile::tempdir()?;
        let (root, outside) = (parent.path().join("root"), parent.path().join("outside"));
        for directory in [root.join("d"), outside.join("e")] {
            fs::create_dir_all(directory)?;
        }
        for file in [root.join("d/a.tar"), outside.join("b.tar"), outside.join("e/c.tar")] {
            fs::write(file, b"x")?;
        }
        for (target, link) in [
            ("..", "d/up"),
            ("..", "beyond"),
            ("d", "alias"),
            ("../outside", "linked"),
            ("../outside/e", "later"),
            ("d/a.tar", "file.tar"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link))?;
        }
        std::os::unix::fs::symlink("../root", outside.join("back"))?;
        assert_eq!(
            listed(&root)?,
            ["alias/a.tar", "d/a.tar", "file.tar", "later/c.tar", "linked/b.tar", "linked/e/c.tar"]
        );
        Ok(())
    }

    #[test]
    fn link_without_a_target_is_listed_and_not_found_when_it_is_opened() -> TestResult {
        let directory = tempfile::tempdir()?;
        std::os::unix::fs::symlink("missing", directory.path().join("dangling.tar"))?;
        std::os::unix::fs::symlink("loop.tar", directory.path().join("loop.tar"))?;
        assert_eq!(listed(directory.path())?, ["dangling.tar", "loop.tar"]);
        let open = |name: &str| LocalFile::open(&directory.path().join(name).display().to_string());
        assert!(matches!(
            open("dangling.tar"),
            Err(Error::NotFound { path }) if path.ends_with("dangling.tar")
        ));
        assert!(matches!(open("loop.tar"), Err(Error::Open { .. })));
        Ok(())
    }
}
