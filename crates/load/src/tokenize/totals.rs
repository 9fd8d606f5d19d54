//! What tokenization has done, summed up by the thread that decodes a block.
//!
//! ```text
//! a text --Tokens--> sums of a batch --add--> sums of the thread
//!     --totals_of--> sums of the block --> metrics of the pass
//! ```
//!
//! So a text costs no atomic operation, and the counters belong to the pass that decodes the block,
//! also if others read the data set.

use std::cell::Cell;

/// Sums over the rows of a batch, a block or a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenTotals {
    pub tokens: u64,
    /// Of what was encoded: texts, with their separators, and rendered conversations.
    pub text_bytes: u64,
    /// Summed over threads.
    pub nanoseconds: u64,
    /// The part of `nanoseconds` that helping threads spent.
    pub elsewhere: u64,
    /// Rows with tokens of which none has a label.
    pub rows_without_labels: u64,
    /// Special tokens that texts spell, whatever becomes of them.
    pub special_in_text: u64,
    /// Images without a plan that documents are delivered without.
    pub images_left_out: u64,
}

thread_local! {
    static TOTALS: Cell<TokenTotals> = const {
        Cell::new(TokenTotals {
            tokens: 0,
            text_bytes: 0,
            nanoseconds: 0,
            elsewhere: 0,
            rows_without_labels: 0,
            special_in_text: 0,
            images_left_out: 0,
        })
    };
}

impl TokenTotals {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            text_bytes: self.text_bytes + other.text_bytes,
            nanoseconds: self.nanoseconds + other.nanoseconds,
            elsewhere: self.elsewhere + other.elsewhere,
            rows_without_labels: self.rows_without_labels + other.rows_without_labels,
            special_in_text: self.special_in_text + other.special_in_text,
            images_left_out: self.images_left_out + other.images_left_out,
        }
    }
}

/// Adds to the sums of this thread.
pub(crate) fn add(totals: TokenTotals) {
    TOTALS.set(TOTALS.get().plus(totals));
}

/// Runs `call`, and returns what this thread has tokenized in it.
pub(crate) fn totals_of<T>(call: impl FnOnce() -> T) -> (T, TokenTotals) {
    let before = TOTALS.take();
    let result = call();
    (result, TOTALS.replace(before))
}
