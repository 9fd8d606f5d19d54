//! Files stay small enough to be read in one go, and no name says nothing.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

const ROOTS: [&str; 3] = ["crates", "python", "benchmarks"];
const MAX_LINES: usize = 600;
const BANNED: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"];

fn sources() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut found = Vec::new();
    for root in ROOTS.iter().map(|root| workspace.join(root)).filter(|root| root.exists()) {
        walk(&root, &mut found)?;
    }
    assert!(found.len() > 50, "the sources were not found");
    Ok(found)
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "__pycache__" || name == "target" {
            continue;
        }
        found.push(path.clone());
        if path.is_dir() {
            walk(&path, found)?;
        }
    }
    Ok(())
}

#[test]
fn no_source_file_is_longer_than_600_lines() -> Result<(), Box<dyn Error>> {
    let is_source = |path: &&PathBuf| {
        matches!(
            path.extension().and_then(|extension| extension.to_str()),
            Some("rs" | "py" | "pyi" | "sh")
        )
    };
    for path in sources()?.iter().filter(is_source) {
        let lines = fs::read_to_string(path)?.lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines; cut it by subject", path.display());
    }
    Ok(())
}

#[test]
fn no_name_says_nothing() -> Result<(), Box<dyn Error>> {
    for path in sources()? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_banned = stem.split(['_', '-']).any(|word| BANNED.contains(&word));
        assert!(!is_banned, "{}: name it after what it is about", path.display());
    }
    Ok(())
}
