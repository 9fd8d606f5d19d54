//! Local disks and stores over a network behind one disk: each path goes where it belongs.

use crate::remote::RemoteDisk;
use crate::{Disk, LocalDisk, Locked, local_path};
use std::borrow::Cow;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Everything that a path may name.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyDisk {}

const LOCAL: LocalDisk = LocalDisk {};
const REMOTE: RemoteDisk = RemoteDisk {};

/// The disk of a path, and the path as that disk knows it.
fn disk_of(path: &str) -> io::Result<(&'static dyn Disk, Cow<'_, str>)> {
    Ok(match local_path(path).map_err(io::Error::other)? {
        Some(local) => (&LOCAL, local),
        None => (&REMOTE, Cow::Borrowed(path)),
    })
}

/// Of a step that needs both paths in one place.
fn disk_of_both<'a>(from: &'a str, to: &'a str) -> io::Result<(&'static dyn Disk, Cow<'a, str>, Cow<'a, str>)> {
    let (local_from, local_to) = (local_path(from).map_err(io::Error::other)?, local_path(to).map_err(io::Error::other)?);
    match (local_from, local_to) {
        (Some(from), Some(to)) => Ok((&LOCAL, from, to)),
        (None, None) => Ok((&REMOTE, Cow::Borrowed(from), Cow::Borrowed(to))),
        _ => Err(ErrorKind::CrossesDevices.into()),
    }
}

impl Disk for AnyDisk {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let (disk, path) = disk_of(path)?;
        disk.read(&path)
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        let (disk, path) = disk_of(path)?;
        disk.size(&path)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let (disk, folder) = disk_of(folder)?;
        disk.list(&folder)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        let (disk, folder) = disk_of(folder)?;
        disk.make_folder(&folder)
    }

    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let (disk, path) = disk_of(path)?;
        disk.write_new(&path, content)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        let (disk, path) = disk_of(path)?;
        disk.sync(&path)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let (disk, folder) = disk_of(folder)?;
        disk.sync_folder(&folder)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool> {
        let (disk, from, to) = disk_of_both(from, to)?;
        disk.rename_new(&from, &to)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (disk, from, to) = disk_of_both(from, to)?;
        disk.rename(&from, &to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let (disk, path) = disk_of(path)?;
        disk.remove(&path)
    }

    fn remove_empty_folder(&self, folder: &str) -> io::Result<bool> {
        let (disk, folder) = disk_of(folder)?;
        disk.remove_empty_folder(&folder)
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        let (disk, folder) = disk_of(folder)?;
        disk.remove_folder(&folder)
    }

    fn lock(&self, path: &str) -> io::Result<Locked> {
        let (disk, path) = disk_of(path)?;
        disk.lock(&path)
    }

    fn probe_lock(&self, path: &str) -> io::Result<Locked> {
        let (disk, path) = disk_of(path)?;
        disk.probe_lock(&path)
    }

    fn touch(&self, path: &str) -> io::Result<()> {
        let (disk, path) = disk_of(path)?;
        disk.touch(&path)
    }

    fn age(&self, path: &str) -> io::Result<Option<Duration>> {
        let (disk, path) = disk_of(path)?;
        disk.age(&path)
    }
}
