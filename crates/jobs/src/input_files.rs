//! Finds the input files of a job.

use shardmill_documents::source::tokens::{self, content_type};
use shardmill_load::{Format, signature_of};
use shardmill_plan::{Error as PlanError, accompanies, visible_files};
use shardmill_storage::{AnyStore, RealNames, Store, is_remote, is_unreadable, resolved_path};
use std::collections::HashSet;

/// The input of a job, and files that are skipped because of their format.
#[derive(Debug, Default)]
pub struct InputFiles {
    /// Sorted, without duplicates.
    pub files: Vec<String>,
    pub left_out: Vec<String>,
}

/// The files of a format at or below `paths`, by name, or by their first bytes if the name is
/// inconclusive. An explicitly named file is included unless its name states another format.
/// Images, texts and other files with the extensions of members may accompany the data.
///
/// # Errors
/// For a missing path, and when no file has the format.
pub fn input_files(paths: &[String], format: Format) -> shardmill_documents::Result<InputFiles> {
    let mut input = InputFiles::default();
    for path in paths {
        let named = resolved_path(path).map_err(PlanError::from)?;
        for file in visible_files(&named)? {
            match Format::of(&file) {
                _ if file != *named
                    && (accompanies(&file) || is_remote(&file) && is_unreadable(&file)) =>
                {
                    input.left_out.push(file);
                }
                Some(own) if own == format => input.files.push(file),
                None if file == *named => input.files.push(file),
                None if content_type(&file) != tokens::UNKNOWN => {}
                None if format_of_content(&file) == Some(format) => input.files.push(file),
                _ => input.left_out.push(file),
            }
        }
    }
    for files in [&mut input.files, &mut input.left_out] {
        files.sort_unstable();
        // Directories, globs and links may lead to the same file.
        let (mut names, mut seen) = (RealNames::default(), HashSet::new());
        files.retain(|file| seen.insert(names.of(file)));
    }
    if input.files.is_empty() {
        return Err(PlanError::NoInput {
            paths: paths.join(", "),
            wanted: format.name().to_owned(),
        }
        .into());
    }
    Ok(input)
}

/// From the first bytes. A file that cannot be read has no format.
#[must_use]
pub fn format_of_content(path: &str) -> Option<Format> {
    let signature = AnyStore.open(path).and_then(|object| signature_of(&*object)).ok()?;
    Format::of_signature(signature)
}
