//! A rename that refuses to replace.

use std::io;
use std::path::Path;

/// Renames a file, unless the new name exists.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`]; [`io::ErrorKind::Unsupported`] when the system or the file
/// system cannot do it atomically.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Err(io::ErrorKind::Unsupported.into()),
        result => Ok(result?),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(crate) fn rename_new(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
