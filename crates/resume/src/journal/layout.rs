//! Names of the files and directories of a checkpoint.

pub(super) const HIDDEN_END: &str = ".attempt";

pub(super) const HIDDEN_START: &str = ".shardmill-job-";

/// The term of the job to which a staging file belongs; `None` for other files, and for other jobs.
pub(crate) fn term_of<'a>(job: &str, name: &'a str) -> Option<&'a str> {
    let (term, _rest) =
        name.strip_prefix(HIDDEN_START)?.strip_prefix(job)?.strip_prefix('-')?.split_once('-')?;
    name.ends_with(HIDDEN_END).then_some(term)
}

pub(crate) fn ids_directory(root: &str) -> String {
    format!("{root}/ids")
}

/// The id types on which the workers of the job have agreed.
pub(crate) fn id_types(root: &str) -> String {
    format!("{root}/id_types")
}

/// The name of the columns of the results of a function, on which the workers
/// of the job have agreed.
#[must_use]
pub fn result_name(function: usize) -> String {
    format!("result-{function}")
}

/// Damaged records, each kept until its split is done again.
pub(crate) fn damaged_directory(root: &str) -> String {
    format!("{root}/damaged")
}

pub(crate) fn plan_directory(root: &str) -> String {
    format!("{root}/plan")
}

pub(crate) fn packs_directory(root: &str) -> String {
    format!("{root}/packs")
}

pub(crate) fn lease_directory(root: &str) -> String {
    format!("{root}/lease")
}

const UNITS: &str = "units-";

/// Records of one term. Its holder creates this directory once: after it is removed, nothing can be
/// committed under that term.
pub(crate) fn units_directory(root: &str, term: &str) -> String {
    format!("{root}/{UNITS}{term}")
}

/// The term of a directory for records.
pub(crate) fn term_of_directory(name: &str) -> Option<&str> {
    name.strip_prefix(UNITS)
}
