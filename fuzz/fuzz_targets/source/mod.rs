//! An input as the only file of a split, for a source of `curate`.

use shardmill_documents::locate::Shared;
use shardmill_documents::source::{ErrorBudget, SplitContext};
use shardmill_documents::{Chunk, Ledger};
use shardmill_engine::Cancel;
use shardmill_plan::{InputFile, Split};
use shardmill_storage::Roots;
use std::io::Write;

pub fn read(
    bytes: &[u8],
    is_located: bool,
    chunk_bytes: u64,
    source: impl FnOnce(&Split, &mut SplitContext<'_>),
) -> Ledger {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let path = file.path().display().to_string();
    let files = [path.clone()];
    let split = Split::new(
        0,
        vec![InputFile { path, size: bytes.len() as u64, modified_ns: 0, part: None }],
    );
    let (mut ledger, cancel, errors) =
        (Ledger::default(), Cancel::default(), ErrorBudget::default());
    let shared = Shared::new(Roots::default(), 1 << 20);
    let mut context = SplitContext {
        ledger: &mut ledger,
        files: &files,
        cancel: &cancel,
        is_located,
        chunk_bytes,
        errors: &errors,
        shared: &shared,
    };
    source(&split, &mut context);
    ledger
}

/// Every row is of a document, and every document has rows.
pub fn check_documents(chunk: &Chunk) {
    assert!(chunk.rows.iter().all(|row| row.document < chunk.documents.len()));
    assert_eq!(chunk.document_ranges().len(), chunk.documents.len());
}
