//! Who holds a lease, and whether that process is over.

use super::journal_store::JournalStore;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::fs;

const UNKNOWN: &str = "unknown";

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub host: String,
    /// Of the operating system: locks of another start are not alive here.
    pub boot: String,
    pub process: u32,
    /// Within which the number of the process means anything: containers have numbers of their own.
    #[serde(default)]
    pub namespace: Option<String>,
    /// When the process began, in ticks: tells it from a later one of its number.
    #[serde(default)]
    pub began: Option<String>,
}

impl Holder {
    pub(crate) fn this_process(store: &JournalStore) -> Self {
        let line = |path: &str| match store.read(path) {
            Ok(Some(text)) => String::from_utf8_lossy(&text).trim().to_owned(),
            _ => UNKNOWN.to_owned(),
        };
        let process = std::process::id();
        Self {
            host: line("/proc/sys/kernel/hostname"),
            boot: line("/proc/sys/kernel/random/boot_id"),
            process,
            namespace: fs::read_link("/proc/self/ns/pid").ok().and_then(|link| link.to_str().map(str::to_owned)),
            began: began(process),
        }
    }

    /// Of a lease that cannot be read.
    pub(crate) fn unknown() -> Self {
        Self { host: "an unknown machine".to_owned(), boot: String::new(), process: 0, namespace: None, began: None }
    }

    /// Whether the process is certainly over: stores without locks do not tell.
    pub(crate) fn is_gone(&self, own: &Self) -> bool {
        let is_of_here = (&self.host, &self.boot, &self.namespace) == (&own.host, &own.boot, &own.namespace);
        // Where processes of others are hidden, the first one is, too.
        let can_be_told = self.boot != UNKNOWN && self.namespace.is_some() && self.began.is_some() && began(1).is_some();
        is_of_here && can_be_told && began(self.process) != self.began
    }
}

/// `None` for a process that is not there.
fn began(process: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program may hold anything, brackets included.
    let (_, fields) = status.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let is_over = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !is_over).map(str::to_owned)
}

impl Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} on {}", self.process, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardmill_storage::LocalDisk;
    use std::process::{Command, Stdio};
    use std::sync::Arc;

    #[test]
    fn process_is_gone_when_it_has_ended_or_another_has_its_number() {
        let own = Holder::this_process(&JournalStore::new(Arc::new(LocalDisk::default())));
        assert!(!own.is_gone(&own));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let holder = Holder { process: child.id(), began: began(child.id()), ..own.clone() };
        assert!(!holder.is_gone(&own));
        assert!(Holder { began: Some("1".to_owned()), ..holder.clone() }.is_gone(&own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(holder.is_gone(&own));
        for elsewhere in [
            Holder { host: "other".to_owned(), ..holder.clone() },
            Holder { namespace: Some("other".to_owned()), ..holder.clone() },
            Holder { boot: "other".to_owned(), ..holder.clone() },
            Holder { began: None, ..holder },
        ] {
            assert!(!elsewhere.is_gone(&own), "{elsewhere:?}");
        }
    }
}
