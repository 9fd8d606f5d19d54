//! Buffers of the engine, kept from call to call.

use crate::tokenizer::unigram::Path;
use std::sync::Mutex;
use tokenizers::pipeline::{
    Model as _, PipelineModel, PipelineModelScratch, PipelineToken, PreTokenizerScratch, Span,
};

/// Buffers of one call.
pub(super) struct Scratch {
    pub(super) model: PipelineModelScratch,
    pub(super) splitter: PreTokenizerScratch,
    pub(super) spans: Vec<Span>,
    pub(super) tokens: Vec<PipelineToken>,
    pub(super) path: Path,
}

/// Buffers of earlier calls. No lock is waited for, so a child that was forked during a call does
/// not hang.
pub(super) struct Scratches(Vec<Mutex<Option<Scratch>>>);

const SCRATCHES: usize = 64;

/// The buffers of a longer text are given back to the system.
pub(super) const LARGEST_KEPT_TEXT: usize = 2 << 20;

impl Scratches {
    pub(super) fn new() -> Self {
        Self((0..SCRATCHES).map(|_| Mutex::new(None)).collect())
    }

    pub(super) fn take(&self, model: &PipelineModel) -> Scratch {
        let kept = self.0.iter().find_map(|slot| slot.try_lock().ok()?.take());
        kept.unwrap_or_else(|| Scratch {
            model: model.init_scratch(),
            splitter: PreTokenizerScratch::default(),
            spans: Vec::new(),
            tokens: Vec::new(),
            path: Path::default(),
        })
    }

    pub(super) fn put(&self, scratch: Scratch, text_bytes: usize) {
        if text_bytes > LARGEST_KEPT_TEXT {
            return;
        }
        let free =
            self.0.iter().find_map(|slot| slot.try_lock().ok().filter(|held| held.is_none()));
        if let Some(mut slot) = free {
            *slot = Some(scratch);
        }
    }
}
