//! Controls what a panic prints.
//!
//! This library links its own copy of the standard library, so its hook does
//! not affect other Rust extensions.

use shardmill_formats::caught::is_caught;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

/// Silences panics that are converted to errors; all others are printed to stderr.
pub(crate) fn silence_caught() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if !is_caught() && !shardmill_tokens::is_caught() && !shardmill_pixels::is_caught() {
                previous(panic);
            }
        }));
    });
}
