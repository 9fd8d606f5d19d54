//! Local disks and stores over a network behind one disk: each path goes where it belongs.

use crate::remote::RemoteDisk;
use crate::{Disk, LocalDisk, Locked, is_remote};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Everything that a path may name.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyDisk {}

const LOCAL: LocalDisk = LocalDisk {};
const REMOTE: RemoteDisk = RemoteDisk {};

fn disk_of(path: &str) -> &'static dyn Disk {
    if is_remote(path) { &REMOTE } else { &LOCAL }
}

/// Of a step that needs both paths in one place.
fn disk_of_both(from: &str, to: &str) -> io::Result<&'static dyn Disk> {
    match is_remote(from) == is_remote(to) {
        true => Ok(disk_of(from)),
        false => Err(ErrorKind::CrossesDevices.into()),
    }
}

impl Disk for AnyDisk {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        disk_of(path).read(path)
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        disk_of(path).size(path)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        disk_of(folder).list(folder)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        disk_of(folder).make_folder(folder)
    }

    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()> {
        disk_of(path).write_new(path, content)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        disk_of(path).sync(path)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        disk_of(folder).sync_folder(folder)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool> {
        disk_of_both(from, to)?.rename_new(from, to)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        disk_of_both(from, to)?.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        disk_of(path).remove(path)
    }

    fn remove_empty_folder(&self, folder: &str) -> io::Result<bool> {
        disk_of(folder).remove_empty_folder(folder)
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        disk_of(folder).remove_folder(folder)
    }

    fn lock(&self, path: &str) -> io::Result<Locked> {
        disk_of(path).lock(path)
    }

    fn touch(&self, path: &str) -> io::Result<()> {
        disk_of(path).touch(path)
    }

    fn age(&self, path: &str) -> io::Result<Option<Duration>> {
        disk_of(path).age(path)
    }
}
