//! Claims of threads and processes on work that they share through a directory.
//!
//! A claim is a lock on a file, so it ends when the process that holds it ends, even after a crash.
//! Object stores, read-only directories and some file systems have no locks: processes that share
//! work through them do some of it twice.

use crate::local::file::NO_WAIT;
use crate::local_path;
use std::fs::{File, TryLockError, create_dir_all};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// A directory of claims.
#[derive(Debug)]
pub struct Claims(Option<PathBuf>);

/// The outcome of an attempt to claim.
#[derive(Debug)]
pub enum Claimed {
    Held(Claim),
    /// Another thread or process holds the claim.
    Busy,
    /// There are no locks here.
    Unsupported,
}

/// Ends when it is dropped, or when the process dies.
#[derive(Debug)]
pub struct Claim(File);

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing is not enough: a child forked in the meantime holds the descriptor too.
        let _closed_behind_this = self.0.unlock();
    }
}

impl Claims {
    /// In `directory`, which is made with the first claim.
    #[must_use]
    pub fn new(directory: &str) -> Self {
        Self(local_path(directory).ok().flatten().map(|directory| PathBuf::from(&*directory)))
    }

    /// Claims a number, without waiting.
    #[must_use]
    pub fn claim(&self, number: u64) -> Claimed {
        let Ok(file) = self.file(number) else { return Claimed::Unsupported };
        match file.try_lock() {
            Ok(()) => Claimed::Held(Claim(file)),
            Err(TryLockError::WouldBlock) => Claimed::Busy,
            Err(TryLockError::Error(_no_locks)) => Claimed::Unsupported,
        }
    }

    /// Each claim has a descriptor of its own: a lock on a shared one would
    /// not exclude other threads.
    fn file(&self, number: u64) -> io::Result<File> {
        let Some(directory) = &self.0 else { return Err(io::ErrorKind::Unsupported.into()) };
        let path = directory.join(format!("{number:04}"));
        let open = || {
            File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .custom_flags(NO_WAIT)
                .open(&path)
        };
        match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_dir_all(directory)?;
                open()
            }
            opened => opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_claimed_once_until_its_claim_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let [ours, theirs] =
            [(); 2].map(|()| Claims::new(directory.path().join("a/b").to_str().unwrap()));
        let Claimed::Held(held) = ours.claim(7) else { panic!("no other claim holds it") };
        assert!(matches!(theirs.claim(7), Claimed::Busy) && matches!(ours.claim(7), Claimed::Busy));
        assert!(matches!(theirs.claim(8), Claimed::Held(_)));
        drop(held);
        assert!(matches!(theirs.claim(7), Claimed::Held(_)));
    }

    #[test]
    fn store_without_locks_has_no_claims() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        assert!(matches!(
            Claims::new(directory.path().join("file/claims").to_str().unwrap()).claim(0),
            Claimed::Unsupported
        ));
        assert!(matches!(Claims::new("s3://bucket/claims").claim(0), Claimed::Unsupported));
    }
}
