//! What the files and directories of a checkpoint are called.

pub(super) const HIDDEN_END: &str = ".attempt";

pub(super) const HIDDEN_START: &str = ".shardmill-job-";

/// The term of a job that a file in the making belongs to; `None` when it is no such file, or another job's.
pub(crate) fn term_of<'a>(job: &str, name: &'a str) -> Option<&'a str> {
    let (term, _rest) = name.strip_prefix(HIDDEN_START)?.strip_prefix(job)?.strip_prefix('-')?.split_once('-')?;
    name.ends_with(HIDDEN_END).then_some(term)
}

pub(crate) fn ids_folder(root: &str) -> String {
    format!("{root}/ids")
}

/// Records that were found damaged; each until its split is done again.
pub(crate) fn damaged_folder(root: &str) -> String {
    format!("{root}/damaged")
}

pub(crate) fn plan_folder(root: &str) -> String {
    format!("{root}/plan")
}

pub(crate) fn packs_folder(root: &str) -> String {
    format!("{root}/packs")
}

pub(crate) fn lease_folder(root: &str) -> String {
    format!("{root}/lease")
}

const UNITS: &str = "units-";

/// Records of one term. Only its holder makes this folder, and only once: when it is gone, nobody can commit under that term.
pub(crate) fn units_folder(root: &str, term: &str) -> String {
    format!("{root}/{UNITS}{term}")
}

/// The term of a folder for records.
pub(crate) fn term_of_folder(name: &str) -> Option<&str> {
    name.strip_prefix(UNITS)
}
