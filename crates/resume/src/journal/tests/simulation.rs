//! A simulated disk that crashes at a chosen step, drops unsynced data, and runs another process
//! while one is suspended.

use shardmill_storage::{Disk, Locked};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Properties of the file system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nature {
    /// A rename copies, then deletes: a crash in between leaves both.
    pub(super) renames_by_copy: bool,
    /// Locks show living processes; without them, all others look long dead.
    pub(super) has_locks: bool,
}

/// The kind of crash.
#[derive(Debug, Clone, Copy)]
pub(super) enum Crash {
    /// The process dies: its writes stay.
    Process,
    /// Power loss: some of the unsynced data is lost, chosen by the seed.
    Power(u64),
}

#[derive(Debug, Clone, Default)]
struct File {
    content: Vec<u8>,
    synced: Option<Vec<u8>>,
}

/// `None` is a directory.
type Tree = BTreeMap<String, Option<usize>>;

#[derive(Debug, Default)]
struct State {
    files: Vec<File>,
    names: Tree,
    synced_names: Tree,
    /// The holder of each file's lock.
    locks: BTreeMap<usize, usize>,
    processes: usize,
}

type Sleep = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Process {
    steps: u64,
    crashes_at: Option<u64>,
    sleeps_at: Option<(u64, Sleep)>,
    is_dead: bool,
}

/// The view of one process. Clones are the same process.
#[derive(Clone)]
pub(super) struct SimulatedDisk {
    nature: Nature,
    state: Arc<Mutex<State>>,
    process: Arc<Mutex<Process>>,
    number: usize,
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {}", self.number)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl SimulatedDisk {
    pub(super) fn new(nature: Nature) -> Self {
        let disk = Self { nature, state: Arc::default(), process: Arc::default(), number: 0 };
        lock(&disk.state).names.insert(String::new(), None);
        disk
    }

    /// A new process on the same disk.
    pub(super) fn process(&self) -> Self {
        let mut state = lock(&self.state);
        state.processes += 1;
        Self {
            nature: self.nature,
            state: Arc::clone(&self.state),
            process: Arc::default(),
            number: state.processes,
        }
    }

    /// Dies before the given step, counted from now.
    pub(super) fn crash_at(self, step: u64) -> Self {
        lock(&self.process).crashes_at = Some(step);
        self
    }

    /// Runs `meanwhile` before the given step.
    pub(super) fn sleep_at(self, step: u64, meanwhile: impl FnOnce() + Send + 'static) -> Self {
        lock(&self.process).sleeps_at = Some((step, Box::new(meanwhile)));
        self
    }

    pub(super) fn steps(&self) -> u64 {
        lock(&self.process).steps
    }

    /// Ends the process and releases its locks; on power loss, ends all processes and drops
    /// unsynced data.
    pub(super) fn crashed(&self, crash: Crash) {
        lock(&self.process).is_dead = true;
        let mut state = lock(&self.state);
        let number = self.number;
        state.locks.retain(|_, holder| *holder != number);
        let Crash::Power(seed) = crash else { return };
        state.locks.clear();
        let mut random = seed;
        let mut is_kept = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            random >> 63 == 1
        };
        let volatile = std::mem::take(&mut state.names);
        let mut names = state.synced_names.clone();
        names.insert(String::new(), None);
        let new = |path: &String, file: &Option<usize>| state.synced_names.get(path) != Some(file);
        let gone: Tree = names
            .iter()
            .filter(|(path, file)| volatile.get(*path) != Some(*file))
            .map(|(path, file)| (path.clone(), *file))
            .collect();
        // Journaling file systems keep a rename atomic: a file has its old name or its new one.
        let renamed: BTreeMap<usize, &String> =
            gone.iter().filter_map(|(path, file)| Some(((*file)?, path))).collect();
        for (path, file) in volatile.iter().filter(|(path, file)| new(path, file)) {
            if is_kept() {
                names.insert(path.clone(), *file);
                if let Some(old) = file
                    .and_then(|file| renamed.get(&file))
                    .filter(|old| volatile.get(**old) != names.get(**old))
                {
                    names.remove(*old);
                }
            }
        }
        let is_elsewhere =
            |file: Option<usize>| volatile.values().any(|other| file.is_some() && *other == file);
        // A name that a rename gave to another file always exists: with the old
        // file or the new one.
        for (path, file) in gone.into_iter().filter(|(path, _)| !volatile.contains_key(path)) {
            if names.get(&path) == Some(&file) && !is_elsewhere(file) && is_kept() {
                names.remove(&path);
            }
        }
        // A name without its directory is unreachable.
        let reachable: Tree = names
            .iter()
            .filter(|(path, _)| parents(path).all(|directory| names.get(directory) == Some(&None)))
            .map(|(a, b)| (a.clone(), *b))
            .collect();
        for file in &mut state.files {
            if file.synced.as_ref() != Some(&file.content) {
                let half = file.content.len() / 2;
                file.content = if is_kept() {
                    file.content.clone()
                } else {
                    file.synced.clone().unwrap_or_else(|| file.content[..half].to_vec())
                };
            }
        }
        state.synced_names = reachable.clone();
        state.names = reachable;
    }

    /// The content of the visible files of a directory.
    pub(super) fn visible(&self, directory: &str) -> Vec<String> {
        let state = lock(&self.state);
        let children = state.names.iter().filter_map(|(path, file)| {
            Some((path.strip_prefix(directory)?.strip_prefix('/')?, (*file)?))
        });
        let files = children.filter(|(name, _)| !name.starts_with('.') && !name.contains('/'));
        files
            .map(|(_, file)| String::from_utf8_lossy(&state.files[file].content).into_owned())
            .collect()
    }

    /// Changes a file without the job's knowledge.
    pub(super) fn damage(&self, contains: &str, change: impl Fn(&mut Vec<u8>)) -> usize {
        let mut state = lock(&self.state);
        let files: Vec<usize> = state
            .names
            .iter()
            .filter(|(path, _)| path.contains(contains))
            .filter_map(|(_, file)| *file)
            .collect();
        for file in &files {
            change(&mut state.files[*file].content);
        }
        files.len()
    }

    pub(super) fn names(&self) -> Vec<String> {
        lock(&self.state).names.keys().cloned().collect()
    }

    /// One step of this process, which may be its last.
    fn step<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let sleep = {
            let mut process = lock(&self.process);
            if process.is_dead || process.crashes_at == Some(process.steps) {
                process.is_dead = true;
                return Err(io::Error::other("the process is dead"));
            }
            process.steps += 1;
            let now = process.steps;
            process.sleeps_at.take_if(|(step, _)| *step == now)
        };
        if let Some((_, meanwhile)) = sleep {
            meanwhile();
        }
        let mut state = lock(&self.state);
        let result = act(&mut state);
        if self.nature.renames_by_copy {
            // An object store behind a mount: a name exists or not, and needs no sync.
            state.synced_names = state.names.clone();
        }
        result
    }
}

fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

fn directory_of(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(directory, _)| directory.to_owned())
}

fn missing() -> io::Error {
    ErrorKind::NotFound.into()
}

impl State {
    fn file(&self, path: &str) -> io::Result<usize> {
        self.names.get(path).copied().flatten().ok_or_else(missing)
    }

    fn need_directory_of(&self, path: &str) -> io::Result<()> {
        if self.names.get(&directory_of(path)) == Some(&None) { Ok(()) } else { Err(missing()) }
    }
}

struct Guard {
    state: Arc<Mutex<State>>,
    file: usize,
}

impl Drop for Guard {
    fn drop(&mut self) {
        lock(&self.state).locks.remove(&self.file);
    }
}

impl Disk for SimulatedDisk {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let state = lock(&self.state);
        Ok(state.file(path).ok().map(|file| state.files[file].content.clone()))
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        let state = lock(&self.state);
        Ok(match state.names.get(path) {
            Some(Some(file)) => Some(state.files[*file].content.len() as u64),
            Some(None) => Some(0),
            None => None,
        })
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let state = lock(&self.state);
        let names =
            state.names.keys().filter_map(|path| path.strip_prefix(directory)?.strip_prefix('/'));
        Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn make_directory(&self, directory: &str) -> io::Result<()> {
        self.step(|state| {
            for path in parents(directory).chain([directory]) {
                state.names.insert(path.to_owned(), None);
                state.synced_names.insert(path.to_owned(), None);
            }
            Ok(())
        })
    }

    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let file = self.step(|state| {
            state.need_directory_of(path)?;
            if state.names.contains_key(path) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            state.files.push(File::default());
            let file = state.files.len() - 1;
            state.names.insert(path.to_owned(), Some(file));
            Ok(file)
        })?;
        // Half of the content, then the other half.
        for half in [&content[..content.len() / 2], &content[content.len() / 2..]] {
            self.step(|state| {
                state.files[file].content.extend_from_slice(half);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        self.step(|state| {
            let file = state.file(path)?;
            state.files[file].synced = Some(state.files[file].content.clone());
            Ok(())
        })
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        self.step(|state| {
            let of_directory = |path: &String| directory_of(path) == directory && path != directory;
            state.synced_names.retain(|path, _| !of_directory(path));
            let names: Vec<_> = state
                .names
                .iter()
                .filter(|(path, _)| of_directory(path))
                .map(|(path, file)| (path.clone(), *file))
                .collect();
            state.synced_names.extend(names);
            Ok(())
        })
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool> {
        self.step(|state| {
            let file = state.file(from)?;
            state.need_directory_of(to)?;
            if state.names.contains_key(to) {
                return Ok(false);
            }
            state.names.remove(from);
            state.names.insert(to.to_owned(), Some(file));
            Ok(true)
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let is_copied = self.nature.renames_by_copy;
        self.step(|state| {
            let file = state.file(from)?;
            state.need_directory_of(to)?;
            let target = if is_copied {
                let copy = state.files[file].clone();
                state.files.push(copy);
                state.files.len() - 1
            } else {
                state.names.remove(from);
                file
            };
            state.names.insert(to.to_owned(), Some(target));
            Ok(())
        })?;
        if is_copied { self.remove(from) } else { Ok(()) }
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.step(|state| {
            state.names.remove(path);
            Ok(())
        })
    }

    fn remove_empty_directory(&self, directory: &str) -> io::Result<bool> {
        self.step(|state| {
            let prefix = format!("{directory}/");
            if state.names.keys().any(|path| path.starts_with(&prefix)) {
                return Ok(false);
            }
            state.names.remove(directory);
            Ok(true)
        })
    }

    fn remove_directory(&self, directory: &str) -> io::Result<()> {
        let prefix = format!("{directory}/");
        let inner: Vec<String> = lock(&self.state)
            .names
            .keys()
            .filter(|path| path.starts_with(&prefix))
            .cloned()
            .collect();
        for path in inner.iter().rev() {
            self.remove(path)?;
        }
        self.remove(directory)
    }

    fn lock(&self, path: &str) -> io::Result<Locked> {
        if !self.nature.has_locks {
            return Ok(Locked::Unsupported);
        }
        let mut state = lock(&self.state);
        let file = state.file(path)?;
        if state.locks.contains_key(&file) {
            return Ok(Locked::Busy);
        }
        state.locks.insert(file, self.number);
        Ok(Locked::Held(Box::new(Guard { state: Arc::clone(&self.state), file })))
    }

    fn touch(&self, _path: &str) -> io::Result<()> {
        Ok(())
    }

    fn age(&self, path: &str) -> io::Result<Option<Duration>> {
        Ok(self.size(path)?.map(|_| Duration::from_secs(3_600)))
    }
}
