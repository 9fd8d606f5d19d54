//! `shardmill._native.tokens`

use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::interruptible;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyList};
use shardmill_storage::{AnyStore, Store};
use shardmill_tokens::{Error, MAX_FILE_BYTES, Options, Sources, SpecialInText, Tokenizer, quoted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The encoding of shorter texts is not interruptible.
const LEAST_STOPPABLE_BYTES: usize = 1 << 18;

const IDS_BETWEEN_SIGNALS: usize = 1 << 20;

/// The contents of files by name, and whether they are those of a directory.
type Files<'py> = (String, bool, Vec<(String, Bound<'py, PyBytes>)>);

/// Encodes text without the GIL.
#[pyclass(frozen, name = "Tokenizer", module = "shardmill._native.tokens")]
pub(crate) struct PyTokenizer {
    pub(crate) tokenizer: Arc<Tokenizer>,
    sources: Sources,
}

impl PyTokenizer {
    fn make(
        py: Python<'_>,
        read: impl FnOnce() -> PyShardmillResult<Sources> + Send,
        options: &Options,
    ) -> PyShardmillResult<Self> {
        py.detach(|| {
            let sources = read()?;
            let tokenizer = Arc::new(Tokenizer::new(&sources, options)?);
            Ok(Self { tokenizer, sources })
        })
    }

    /// What happens to special tokens in plain text.
    fn special(&self, name: &str) -> PyShardmillResult<SpecialInText> {
        let special = parse_special(name)?;
        if special == SpecialInText::Id {
            self.tokenizer.check_ids(false)?;
        }
        Ok(special)
    }
}

#[pymethods]
impl PyTokenizer {
    /// Of a file or a directory.
    #[staticmethod]
    #[pyo3(signature = (path, pattern=None, special_tokens=None))]
    fn open(
        py: Python<'_>,
        path: &str,
        pattern: Option<String>,
        special_tokens: Option<BTreeMap<String, u32>>,
    ) -> PyShardmillResult<Self> {
        Self::make(py, || read(path), &Options { pattern, special_tokens })
    }

    /// Of what `files` returned.
    #[staticmethod]
    #[pyo3(signature = (files, pattern=None, special_tokens=None))]
    fn from_files(
        py: Python<'_>,
        files: Files<'_>,
        pattern: Option<String>,
        special_tokens: Option<BTreeMap<String, u32>>,
    ) -> PyShardmillResult<Self> {
        let (path, is_directory, files) = files;
        let mut contents = files.into_iter().map(|(name, bytes)| (name, bytes.as_bytes().to_vec()));
        let sources = match contents.next() {
            Some((_, bytes)) if !is_directory => Sources::file(path, bytes),
            first => Sources::directory(path, first.into_iter().chain(contents).collect()),
        };
        Self::make(py, move || Ok(sources), &Options { pattern, special_tokens })
    }

    /// The files that the tokenizer was made from.
    fn files<'py>(&self, py: Python<'py>) -> Files<'py> {
        let files = self
            .sources
            .files()
            .iter()
            .map(|(name, bytes)| (name.clone(), PyBytes::new(py, bytes)));
        (self.sources.path().to_owned(), self.sources.is_directory(), files.collect())
    }

    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: PyBackedStr,
        special_in_text: &str,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let special = self.special(special_in_text)?;
        let tokenizer = Arc::clone(&self.tokenizer);
        let ids = stoppable(py, text.len(), move |is_stopped| {
            let mut ids = Vec::new();
            tokenizer.encode_long(&text, special, threads, is_stopped, &mut ids)?;
            Ok(ids)
        })?;
        list_of(py, &ids)
    }

    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<PyBackedStr>,
        special_in_text: &str,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let special = self.special(special_in_text)?;
        let tokenizer = Arc::clone(&self.tokenizer);
        let bytes = texts.iter().map(|text| text.len()).sum();
        let encoded = stoppable(py, bytes, move |is_stopped| {
            Ok(tokenizer.encode_batch(&texts, special, threads, is_stopped)?)
        })?;
        let lists = PyList::empty(py);
        let mut unchecked = 0;
        for ids in encoded {
            unchecked += ids.len();
            if unchecked >= IDS_BETWEEN_SIGNALS {
                py.check_signals()?;
                unchecked = 0;
            }
            lists.append(list_of(py, &ids)?)?;
        }
        Ok(lists)
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn decode(&self, py: Python<'_>, ids: Vec<u32>) -> PyShardmillResult<String> {
        py.detach(|| Ok(self.tokenizer.decode(&ids)?))
    }

    fn token_id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_id(token)
    }

    fn required_id(&self, token: &str) -> PyShardmillResult<u32> {
        Ok(self.tokenizer.required_id(token)?)
    }

    fn token(&self, id: u32) -> Option<&str> {
        self.tokenizer.token(id)
    }

    #[getter]
    fn path(&self) -> &str {
        self.tokenizer.path()
    }

    /// The token that the directory names for the beginning of a text.
    #[getter]
    fn bos(&self) -> Option<&str> {
        self.tokenizer.bos()
    }

    /// The token that the directory names for the end of a text.
    #[getter]
    fn eos(&self) -> Option<&str> {
        self.tokenizer.eos()
    }

    #[getter]
    fn special_tokens(&self) -> Vec<(&str, u32)> {
        self.tokenizer.special_tokens()
    }

    /// The tokens that the directory names, by role.
    #[getter]
    fn roles(&self) -> BTreeMap<String, String> {
        self.tokenizer.roles().clone()
    }

    /// The ids that the post-processor of the file puts before and after a text.
    #[getter]
    fn template(&self) -> (Vec<u32>, Vec<u32>) {
        let (prefix, suffix) = self.tokenizer.template();
        (prefix.to_vec(), suffix.to_vec())
    }

    #[getter]
    fn chat_template(&self) -> Option<&str> {
        self.tokenizer.chat_template()
    }

    #[getter]
    fn tool_template(&self) -> Option<&str> {
        self.tokenizer.tool_template()
    }

    #[getter]
    fn ignored(&self) -> Vec<String> {
        self.tokenizer.ignored().to_vec()
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.tokenizer.vocab_size()
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        self.tokenizer.fingerprint()
    }
}

/// Runs `work` on texts with this many bytes in total. With long texts, Ctrl-C takes effect
/// immediately, and the work ends on its own soon after.
fn stoppable<T: Send + 'static>(
    py: Python<'_>,
    bytes: usize,
    work: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> PyShardmillResult<T> + Send + 'static,
) -> PyResult<T> {
    if bytes < LEAST_STOPPABLE_BYTES {
        return Ok(py.detach(|| work(&|| false))?);
    }
    interruptible(py, move |cancel| work(&|| cancel.is_cancelled()))
}

/// Long lists are built in parts, between which signals are handled.
fn list_of<'py>(py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
    let mut parts = ids.chunks(IDS_BETWEEN_SIGNALS);
    let list = PyList::new(py, parts.next().unwrap_or_default())?;
    for part in parts {
        py.check_signals()?;
        list.call_method1("extend", (PyList::new(py, part)?,))?;
    }
    Ok(list)
}

pub(crate) fn parse_special(name: &str) -> PyShardmillResult<SpecialInText> {
    match name {
        "text" => Ok(SpecialInText::Text),
        "id" => Ok(SpecialInText::Id),
        "raise" => Ok(SpecialInText::Error),
        other => {
            let message =
                format!("special_in_text is \"text\", \"id\" or \"raise\", not {}", quoted(other));
            Err(PyShardmillError::option(&message))
        }
    }
}

/// The contents of a file, or of the files of a directory that make a tokenizer.
fn read(path: &str) -> PyShardmillResult<Sources> {
    let found = AnyStore.list(path)?;
    if let [file] = found.as_slice()
        && file.trim_end_matches('/') == path.trim_end_matches('/')
    {
        return Ok(Sources::file(path, contents(file)?));
    }
    let root = format!("{}/", path.trim_end_matches('/'));
    let names: Vec<&str> = found.iter().filter_map(|file| file.strip_prefix(&root)).collect();
    let wanted = Sources::wanted(path, &names)?;
    let files =
        wanted.into_iter().map(|name| Ok((name.to_owned(), contents(&format!("{root}{name}"))?)));
    Ok(Sources::directory(path, files.collect::<PyShardmillResult<_>>()?))
}

fn contents(path: &str) -> PyShardmillResult<Vec<u8>> {
    let file = AnyStore.open(path)?;
    if file.size() > MAX_FILE_BYTES {
        return Err(Error::TooLarge { path: path.to_owned() }.into());
    }
    let ranges = file.read_ranges(std::slice::from_ref(&(0..file.size())))?;
    Ok(ranges.first().map(|bytes| bytes.to_vec()).unwrap_or_default())
}

/// Encodes all texts and keeps only the number of ids: the limit of a benchmark.
#[pyfunction]
#[pyo3(signature = (tokenizer, texts, *, threads))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn count_all(
    py: Python<'_>,
    tokenizer: &PyTokenizer,
    texts: Vec<PyBackedStr>,
    threads: usize,
) -> PyShardmillResult<usize> {
    let share = texts.len().div_ceil(threads.max(1)).max(1);
    let count = |texts: &[PyBackedStr]| {
        let mut ids = Vec::new();
        texts.iter().try_fold(0, |total, text| {
            ids.clear();
            tokenizer
                .tokenizer
                .encode_into(text, SpecialInText::Text, &mut ids)
                .map(|_spelled| total + ids.len())
        })
    };
    let total = py.detach(|| {
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                texts.chunks(share).map(|part| scope.spawn(|| count(part))).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or(Ok(0)))
                .sum::<shardmill_tokens::Result<usize>>()
        })
    })?;
    Ok(total)
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "tokens")?;
    module.add_class::<PyTokenizer>()?;
    module.add_function(wrap_pyfunction!(count_all, &module)?)
}
