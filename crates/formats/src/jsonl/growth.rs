//! What the columns of a block share while they are built.

/// State shared by the columns of a block while they are built.
#[derive(Debug, Default)]
pub(super) struct Growth {
    pub(super) unescaped: Vec<u8>,
    /// A value that does not fit becomes null; otherwise it makes the line bad.
    pub(super) is_lenient: bool,
    /// Whether a sample decided the types of the column: float64 takes only the integers that it
    /// holds exactly, and an unknown field is an error.
    pub(super) is_inferred: bool,
    pub(super) refuses_nan: bool,
}
