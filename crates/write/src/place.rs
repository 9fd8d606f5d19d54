//! Where files go: which is next, and those that are whole and wait for their names.

use crate::follower::Outcome;
use crate::staged::Finished;
use crate::{Error, FileSummary, Result};
use shardmill_storage::{AnyDisk, Disk, Replace, remove_stale_staging, store_of, sync_names};
use std::collections::VecDeque;

/// Where rows go.
#[derive(Debug, Clone)]
pub enum Target {
    File(String),
    /// Files are called `part-00000.parquet` and so on; one takes about `size_limit` bytes.
    Folder {
        path: String,
        size_limit: u64,
    },
}

/// How the files of a folder are called: their numbers stand between these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShardNames {
    pub(crate) before: String,
    /// With the dot.
    pub(crate) extension: String,
}

impl ShardNames {
    fn of(&self, number: u64) -> String {
        format!("{}{number:05}{}", self.before, self.extension)
    }
}

/// Another writer was faster with a later name: what has one already goes again, unless it replaced something.
fn withdraw(named: &[(String, Option<String>)], replace: Replace) {
    if replace == Replace::Never {
        for (path, _) in named {
            let _the_error_that_led_here_is_told = AnyDisk::default().remove(path);
        }
    }
}

/// The files of one writer.
#[derive(Debug)]
pub(crate) struct Place {
    target: Target,
    names: ShardNames,
    pub(crate) threads: usize,
    /// The number that the first file will probably have.
    first: u64,
    made: u64,
    /// Their disks may still be at work.
    finishing: VecDeque<Outcome<Finished>>,
    finished: Vec<Finished>,
}

impl Place {
    pub(crate) fn new(target: Target, names: ShardNames, first: u64, threads: usize) -> Self {
        Self { target, names, threads, first, made: 0, finishing: VecDeque::new(), finished: Vec::new() }
    }

    pub(crate) fn path(&self) -> &str {
        match &self.target {
            Target::File(path) | Target::Folder { path, .. } => path,
        }
    }

    /// Of one file, in bytes.
    pub(crate) fn size_limit(&self) -> u64 {
        match &self.target {
            Target::File(_) => u64::MAX,
            Target::Folder { size_limit, .. } => (*size_limit).max(1),
        }
    }

    /// The number that the first file will probably have.
    pub(crate) fn first_number(&self) -> u64 {
        self.first
    }

    /// How many files were begun.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// The path of the next file. Files are renamed when they are published; until then it is what errors call them.
    pub(crate) fn next_path(&mut self) -> String {
        self.clear_first();
        let path = self.path_of(self.first.saturating_add(self.made));
        self.made += 1;
        path
    }

    /// Removes what killed writers left in the folder, once.
    pub(crate) fn clear_first(&self) {
        if let Target::Folder { path, .. } = &self.target
            && self.made == 0
        {
            let _of_killed_writers = remove_stale_staging(path);
        }
    }

    fn path_of(&self, number: u64) -> String {
        match &self.target {
            Target::File(path) => path.clone(),
            Target::Folder { path, .. } => format!("{}/{}", path.trim_end_matches('/'), self.names.of(number)),
        }
    }

    /// Takes a file that ends now.
    pub(crate) fn keep(&mut self, file: Outcome<Finished>) -> Result<()> {
        self.finishing.push_back(file);
        // Few files at once keep the memory and the disk within bounds.
        while self.finishing.len() > self.threads.max(1) {
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

    /// Waits for the files that are still being made.
    pub(crate) fn settle(&mut self) -> Result<()> {
        while !self.finishing.is_empty() {
            self.settle_one()?;
        }
        Ok(())
    }

    /// What is in the files, in their order.
    pub(crate) fn summaries(&self) -> Vec<FileSummary> {
        self.finished.iter().map(|finished| finished.summary.clone()).collect()
    }

    /// Gives the files their names, with numbers from `first` on, and tells their paths.
    pub(crate) fn publish(&mut self, first: u64, replace: Replace) -> Result<Vec<String>> {
        let paths: Vec<(String, Option<String>)> = (first..)
            .take(self.finished.len())
            .map(|number| match &self.target {
                Target::File(path) => (path.clone(), None),
                Target::Folder { path, .. } => {
                    let name = self.names.of(number);
                    (format!("{}/{name}", path.trim_end_matches('/')), Some(name))
                }
            })
            .collect();
        if replace == Replace::Never {
            // Before the first file has its name: all of them, or none.
            for (path, _) in &paths {
                if store_of(path)?.list(path).is_ok_and(|found| !found.is_empty()) {
                    return Err(Error::Storage(shardmill_storage::Error::AlreadyExists { path: path.clone() }));
                }
            }
        }
        for (number, (finished, (_, name))) in std::mem::take(&mut self.finished).into_iter().zip(&paths).enumerate() {
            if let Err(error) = finished.name(name.as_deref(), replace) {
                withdraw(paths.get(..number).unwrap_or_default(), replace);
                return Err(error);
            }
        }
        if let Some((path, _)) = paths.first() {
            sync_names(path)?;
        }
        Ok(paths.into_iter().map(|(path, _)| path).collect())
    }

    /// Removes all files.
    pub(crate) fn abandon(&mut self) {
        self.finishing.clear();
        self.finished.clear();
    }

    /// Forgets all files: they belong to another process.
    pub(crate) fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.finishing));
        std::mem::forget(std::mem::take(&mut self.finished));
    }
}
