//! The holder of a lease, and whether its process has ended.

use serde::{Deserialize, Serialize};
use shardmill_storage::{boot_id, host_name, process_namespace, process_start};
use std::fmt::{self, Display};

const UNKNOWN: &str = "unknown";

/// The holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub host: String,
    /// Boot id of the operating system: processes of an earlier boot have ended.
    pub boot: String,
    pub process: u32,
    /// The PID namespace: containers have separate process numbers.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Start time of the process in ticks: distinguishes it from a later one with the same number.
    #[serde(default)]
    pub began: Option<String>,
}

impl Holder {
    pub(crate) fn this_process() -> Self {
        let process = std::process::id();
        Self {
            host: host_name(),
            boot: boot_id().unwrap_or_else(|| UNKNOWN.to_owned()),
            process,
            namespace: process_namespace(),
            began: process_start(process),
        }
    }

    /// For a lease that cannot be read.
    pub(crate) fn unknown() -> Self {
        Self {
            host: "an unknown machine".to_owned(),
            boot: String::new(),
            process: 0,
            namespace: None,
            began: None,
        }
    }

    /// Whether the holder is certainly a process of this machine since it started.
    pub(crate) fn is_of_this_boot(&self, own: &Self) -> bool {
        self.boot != UNKNOWN && self.boot == own.boot
    }

    /// Whether the process has certainly ended, for stores without locks.
    pub(crate) fn is_gone(&self, own: &Self) -> bool {
        let is_of_here = self.is_of_this_boot(own)
            && (&self.host, &self.namespace) == (&own.host, &own.namespace);
        // If other users' processes are hidden, process 1 is hidden too.
        let can_be_told =
            self.namespace.is_some() && self.began.is_some() && process_start(1).is_some();
        is_of_here && can_be_told && process_start(self.process) != self.began
    }
}

impl Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} on {}", self.process, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_whose_boot_is_unknown_may_be_on_different_machines() {
        let unknown = Holder { boot: UNKNOWN.to_owned(), ..Holder::this_process() };
        assert!(!unknown.is_of_this_boot(&unknown));
        assert!(!unknown.is_gone(&unknown));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn process_is_gone_when_it_has_ended_or_another_has_its_number() {
        use std::process::{Command, Stdio};

        let own = Holder::this_process();
        assert!(!own.is_gone(&own));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let holder =
            Holder { process: child.id(), began: process_start(child.id()), ..own.clone() };
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
