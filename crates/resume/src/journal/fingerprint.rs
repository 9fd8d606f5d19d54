//! Identifies a job: the checkpoint of another job must not decide what is done.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The parts of a job by name: source, stages, sink, version and the like.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub Map<String, Value>);

impl Fingerprint {
    /// # Errors
    /// [`Error::OtherJob`], which names each part that differs.
    pub fn check(&self, now: &Self, path: &str) -> Result<()> {
        let names = self.0.keys().chain(now.0.keys().filter(|name| !self.0.contains_key(*name)));
        let told = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), short);
        let differences: Vec<String> = names
            .filter(|name| self.0.get(*name) != now.0.get(*name))
            .map(|name| format!("`{name}` was {} and is {}", told(self.0.get(name)), told(now.0.get(name))))
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::OtherJob { path: path.to_owned(), differences: differences.join("; ") })
    }
}

/// Messages are read by people.
const MAX_TOLD: usize = 200;

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_TOLD) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
