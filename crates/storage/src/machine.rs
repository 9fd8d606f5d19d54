//! Facts about this machine and its processes.
//!
//! Linux publishes them in `/proc`. Other systems give the host name only, and callers must then
//! assume that a process may be alive.

/// The name of this host.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Identifies the period since the operating system started: processes of an earlier
/// boot have ended.
#[must_use]
pub fn boot_id() -> Option<String> {
    facts::boot_id()
}

/// The PID namespace: containers have separate process numbers.
#[must_use]
pub fn process_namespace() -> Option<String> {
    facts::process_namespace()
}

/// The start time of a process in ticks, which distinguishes it from a later one with the same
/// number. `None` for a process that does not exist.
#[must_use]
pub fn process_start(process: u32) -> Option<String> {
    facts::process_start(process)
}

#[cfg(target_os = "linux")]
mod facts {
    use std::fs;

    pub(super) fn boot_id() -> Option<String> {
        Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
    }

    pub(super) fn process_namespace() -> Option<String> {
        fs::read_link("/proc/self/ns/pid").ok()?.to_str().map(str::to_owned)
    }

    pub(super) fn process_start(process: u32) -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program may contain anything, including brackets.
        let (_, fields) = status.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let is_over = matches!(fields.next()?, "Z" | "X");
        fields.nth(18).filter(|_| !is_over).map(str::to_owned)
    }
}

#[cfg(not(target_os = "linux"))]
mod facts {
    pub(super) fn boot_id() -> Option<String> {
        None
    }

    pub(super) fn process_namespace() -> Option<String> {
        None
    }

    pub(super) fn process_start(_process: u32) -> Option<String> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn facts_are_those_of_the_kernel() {
        assert_eq!(host_name(), fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
        assert_eq!(boot_id(), boot_id());
        assert!(process_namespace().is_some_and(|namespace| namespace.starts_with("pid:")));
        assert!(process_start(std::process::id()).is_some());
        assert_eq!(process_start(u32::MAX), None);
    }
}
