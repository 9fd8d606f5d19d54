//! Local disks and network stores behind one `Disk`; each path is routed
//! to the disk that serves it.

use crate::remote::RemoteDisk;
use crate::{
    AnyStore, Disk, Error, LocalDisk, Locked, Replace, Result, SequentialRead, Store, Unpublished,
    local_path,
};
use std::borrow::Cow;
use std::io::{self, BufReader, ErrorKind};
use std::time::Duration;

/// Bytes that a move to another disk reads at once.
const MOVED_AT_ONCE: usize = 8 << 20;

/// Serves every kind of path.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyDisk {}

const LOCAL: LocalDisk = LocalDisk {};
const REMOTE: RemoteDisk = RemoteDisk {};

/// The disk that serves a path, and the path in that disk's form.
fn disk_of(path: &str) -> io::Result<(&'static dyn Disk, Cow<'_, str>)> {
    Ok(match local_path(path).map_err(io::Error::other)? {
        Some(local) => (&LOCAL, local),
        None => (&REMOTE, Cow::Borrowed(path)),
    })
}

/// The disk for a step whose two paths must be on the same disk.
fn disk_of_both<'a>(
    from: &'a str,
    to: &'a str,
) -> io::Result<(&'static dyn Disk, Cow<'a, str>, Cow<'a, str>)> {
    let (local_from, local_to) =
        (local_path(from).map_err(io::Error::other)?, local_path(to).map_err(io::Error::other)?);
    match (local_from, local_to) {
        (Some(from), Some(to)) => Ok((&LOCAL, from, to)),
        (None, None) => Ok((&REMOTE, Cow::Borrowed(from), Cow::Borrowed(to))),
        _ => Err(ErrorKind::CrossesDevices.into()),
    }
}

/// Implements the steps that take one path.
macro_rules! by_path {
    ($($step:ident($($argument:ident: $type:ty)?) -> $outcome:ty;)*) => {
        $(fn $step(&self, path: &str $(, $argument: $type)?) -> io::Result<$outcome> {
            let (disk, path) = disk_of(path)?;
            disk.$step(&path $(, $argument)?)
        })*
    };
}

impl Disk for AnyDisk {
    by_path! {
        read() -> Option<Vec<u8>>;
        size() -> Option<u64>;
        list() -> Vec<String>;
        make_directory() -> ();
        write_new(content: &[u8]) -> ();
        sync() -> ();
        sync_directory() -> ();
        remove() -> ();
        remove_empty_directory() -> bool;
        remove_directory() -> ();
        lock() -> Locked;
        probe_lock() -> Locked;
        touch() -> ();
        age() -> Option<Duration>;
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool> {
        let (disk, from, to) = disk_of_both(from, to)?;
        disk.rename_new(&from, &to)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (disk, from, to) = disk_of_both(from, to)?;
        disk.rename(&from, &to)
    }
}

/// Moves a file to another path, which may be on another disk or in a store, and replaces the file
/// there.
/// In a store and between disks, a crash may leave both files.
///
/// # Errors
/// [`Error::NotFound`] when there is no file `from`; [`Error::Publish`] when it cannot be moved.
pub fn move_file(from: &str, to: &str) -> Result<()> {
    let disk = AnyDisk::default();
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::NotFound => Error::NotFound { path: from.to_owned() },
        _ => Error::Publish { path: to.to_owned(), source },
    };
    match disk.rename(from, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
        renamed => return renamed.map_err(failed),
    }
    let source = AnyStore.open(from)?;
    let mut copy = AnyStore.stage(to, &Unpublished::default())?;
    let mut bytes = BufReader::with_capacity(MOVED_AT_ONCE, SequentialRead::new(&*source));
    io::copy(&mut bytes, &mut copy).map_err(failed)?;
    copy.publish(Replace::Atomically)?;
    disk.remove(from).map_err(failed)
}
