//! The destination of files: the next path, and complete files that are not named yet.

use crate::follower::Outcome;
use crate::staged::Finished;
use crate::{Error, FileSummary, Result};
use shardmill_storage::{AnyDisk, Disk, Replace, remove_stale_staging, sync_names};
use std::collections::VecDeque;

/// Number of files that may wait for their sync beyond those that threads work on.
const SYNCING_FILES: usize = 4;

/// The destination of rows.
#[derive(Debug, Clone)]
pub enum Target {
    File(String),
    /// Files are named `part-00000.parquet` and so on; each has about `size_limit` bytes.
    Directory {
        path: String,
        size_limit: u64,
    },
}

/// The names of the files of a directory, with a number in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardNames {
    pub(crate) before: String,
    /// Those of the files of one shard, including the dots.
    pub(crate) extensions: Vec<String>,
    /// What precedes the extensions if there is only one shard, if that has no number.
    pub(crate) alone: Option<String>,
}

impl ShardNames {
    /// Number of files of a shard.
    fn files(&self) -> u64 {
        self.extensions.len().max(1) as u64
    }

    /// The name of a file among the `files` of all shards.
    fn of(&self, file: u64, files: u64) -> String {
        let (number, place) = (file / self.files(), file % self.files());
        let extension = usize::try_from(place).ok().and_then(|place| self.extensions.get(place));
        let extension = extension.map_or("", String::as_str);
        match &self.alone {
            Some(alone) if files <= self.files() => format!("{alone}{extension}"),
            _ => format!("{}{number:05}{extension}", self.before),
        }
    }
}

fn joined(directory: &str, name: &str) -> String {
    match directory {
        "." => name.to_owned(),
        _ => format!("{}/{name}", directory.trim_end_matches('/')),
    }
}

/// A later step failed: removes files that are already named, unless they may have replaced others.
fn withdraw(named: &[(String, Option<String>)], replace: Replace) {
    if replace == Replace::Never {
        for (path, _) in named {
            let _the_error_that_led_here_is_told = AnyDisk::default().remove(path);
        }
    }
}

/// The files of one writer.
#[derive(Debug)]
pub(crate) struct PendingFiles {
    target: Target,
    names: ShardNames,
    pub(crate) threads: usize,
    /// The expected number of the first file.
    first: u64,
    made: u64,
    /// Their disks may still be busy.
    finishing: VecDeque<Outcome<Finished>>,
    finished: Vec<Finished>,
}

impl PendingFiles {
    pub(crate) fn new(target: Target, names: ShardNames, first: u64, threads: usize) -> Self {
        Self {
            target,
            names,
            threads,
            first,
            made: 0,
            finishing: VecDeque::new(),
            finished: Vec::new(),
        }
    }

    pub(crate) fn path(&self) -> &str {
        match &self.target {
            Target::File(path) | Target::Directory { path, .. } => path,
        }
    }

    /// Maximal size of one file in bytes.
    pub(crate) fn size_limit(&self) -> u64 {
        match &self.target {
            Target::File(_) => u64::MAX,
            Target::Directory { size_limit, .. } => (*size_limit).max(1),
        }
    }

    /// The expected number of the first file.
    pub(crate) fn first_number(&self) -> u64 {
        self.first
    }

    /// Number of files started.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// The path of the next file. Files are renamed when they are published; until then errors show
    /// this path.
    pub(crate) fn next_path(&mut self) -> String {
        self.clear_first();
        let file = self.first.saturating_mul(self.names.files()).saturating_add(self.made);
        self.made += 1;
        self.place_of(file, self.made).0
    }

    /// The path of a file among the `files` of all shards, and its name in their directory.
    fn place_of(&self, file: u64, files: u64) -> (String, Option<String>) {
        match &self.target {
            Target::File(path) => (path.clone(), None),
            Target::Directory { path, .. } => {
                let name = self.names.of(file, files);
                (joined(path, &name), Some(name))
            }
        }
    }

    /// Removes leftovers of killed writers in the directory, once.
    pub(crate) fn clear_first(&self) {
        if let Target::Directory { path, .. } = &self.target
            && self.made == 0
        {
            let _of_killed_writers = remove_stale_staging(path);
        }
    }

    /// Adds a file that ends now.
    pub(crate) fn keep(&mut self, file: Outcome<Finished>) -> Result<()> {
        self.finishing.push_back(file);
        // A small number of concurrent files bounds memory. Most of them only wait for the disk.
        while self.finishing.len() > self.threads.max(1) + SYNCING_FILES {
            self.settle_one()?;
        }
        Ok(())
    }

    pub(crate) fn keep_whole(&mut self, file: Finished) -> Result<()> {
        self.settle()?;
        self.finished.push(file);
        Ok(())
    }

    fn settle_one(&mut self) -> Result<()> {
        if let Some(mut file) = self.finishing.pop_front() {
            self.finished.push(file.take()?);
        }
        Ok(())
    }

    /// Waits for unfinished files.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while !self.finishing.is_empty() {
            self.settle_one()?;
        }
        Ok(())
    }

    /// Summaries of the files, in order.
    pub(crate) fn summaries(&self) -> Vec<FileSummary> {
        self.finished.iter().map(|finished| finished.summary.clone()).collect()
    }

    /// Gives the files their names, with numbers from `first` on, and returns their paths.
    pub(crate) fn publish(&mut self, first: u64, replace: Replace) -> Result<Vec<String>> {
        let files = self.finished.len();
        let paths: Vec<(String, Option<String>)> = (first * self.names.files()..)
            .take(files)
            .map(|file| self.place_of(file, files as u64))
            .collect();
        if replace == Replace::Never {
            // Checked before the first file is named: all of them, or none.
            for (path, _) in &paths {
                // Not by a listing: a name may have the characters of a glob.
                if matches!(AnyDisk::default().size(path), Ok(Some(_))) {
                    return Err(Error::Storage(shardmill_storage::Error::AlreadyExists {
                        path: path.clone(),
                    }));
                }
            }
        }
        for (number, (finished, (_, name))) in
            std::mem::take(&mut self.finished).into_iter().zip(&paths).enumerate()
        {
            if let Err(error) = finished.name(name.as_deref(), replace) {
                withdraw(paths.get(..number).unwrap_or_default(), replace);
                return Err(error);
            }
        }
        if let Some((path, _)) = paths.first()
            && let Err(error) = sync_names(path)
        {
            withdraw(&paths, replace);
            return Err(error.into());
        }
        Ok(paths.into_iter().map(|(path, _)| path).collect())
    }

    /// Removes all files.
    pub(crate) fn abandon(&mut self) {
        self.finishing.clear();
        self.finished.clear();
    }

    /// Drops all files without removing them: they belong to another process.
    pub(crate) fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.finishing));
        std::mem::forget(std::mem::take(&mut self.finished));
    }
}
