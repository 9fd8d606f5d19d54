//! Holds the rooms of the workspace apart: which crate may use which, and which crate alone may use
//! a large foreign one.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::process::Command;

type TestResult = Result<(), Box<dyn Error>>;

/// The crates of this workspace that each crate may use. The binding may use all, and so may the
/// tests.
const ALLOWED: [(&str, &[&str]); 14] = [
    ("errors", &[]),
    ("storage", &["errors"]),
    ("images", &[]),
    ("pixels", &["images"]),
    ("engine", &["errors"]),
    ("tokens", &["errors"]),
    ("formats", &["errors", "storage"]),
    ("plan", &["errors", "storage", "formats"]),
    (
        "load",
        &[
            "errors",
            "storage",
            "images",
            "pixels",
            "formats",
            "plan",
            "engine",
            "documents",
            "tokens",
            "write",
        ],
    ),
    ("resume", &["errors", "storage", "formats", "plan", "engine", "load"]),
    (
        "jobs",
        &[
            "errors",
            "storage",
            "images",
            "pixels",
            "formats",
            "plan",
            "engine",
            "documents",
            "write",
            "load",
            "resume",
        ],
    ),
    ("check", &["storage", "images", "formats", "plan", "engine", "documents", "load", "jobs"]),
    ("documents", &["errors", "storage", "images", "formats", "plan", "engine"]),
    ("write", &["errors", "storage", "images", "formats", "engine", "documents"]),
];
const MAY_USE_ALL: [&str; 2] = ["python", "tests"];

/// Third-party crates that only one crate of this workspace may use. The prefix covers a family,
/// such as `pyo3-arrow`.
const OWNED: [(&str, &str); 7] = [
    ("pyo3", "python"),
    ("tokio", "storage"),
    ("object_store", "storage"),
    ("parquet", "formats"),
    ("turbojpeg", "pixels"),
    ("tokenizers", "tokens"),
    ("minijinja", "tokens"),
];

/// By crate, without the common prefix: what it depends on in any way,
/// for building and testing too.
fn dependencies() -> Result<BTreeMap<String, BTreeSet<String>>, Box<dyn Error>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output =
        Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let name =
        |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    Ok(list(&metadata, "packages")
        .iter()
        .map(|package| {
            (
                short(&name(package)).to_owned(),
                list(package, "dependencies").iter().map(name).collect(),
            )
        })
        .collect())
}

fn short(name: &str) -> &str {
    name.strip_prefix("shardmill-").unwrap_or(name)
}

#[test]
fn every_edge_between_our_crates_is_allowed() -> TestResult {
    let dependencies = dependencies()?;
    let ours: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).chain(MAY_USE_ALL).collect();
    assert_eq!(ours, known, "a new crate needs its place in ARCHITECTURE.md and here");
    for (name, allowed) in ALLOWED {
        let used = dependencies[name]
            .iter()
            .filter(|used| used.starts_with("shardmill-"))
            .map(|used| short(used));
        let forbidden: Vec<&str> = used.filter(|used| !allowed.contains(used)).collect();
        assert!(forbidden.is_empty(), "`{name}` must not depend on {forbidden:?}");
    }
    Ok(())
}

#[test]
fn large_foreign_crates_stay_in_one_room() -> TestResult {
    for (name, used) in dependencies()? {
        for (family, owner) in OWNED {
            let is_member =
                |used: &&String| used.as_str() == family || used.starts_with(&format!("{family}-"));
            let members: Vec<&String> = used.iter().filter(is_member).collect();
            assert!(
                name == owner || members.is_empty(),
                "{members:?} belong to `{owner}`, not to `{name}`"
            );
        }
    }
    Ok(())
}
