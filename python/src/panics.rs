//! What a panic prints.
//!
//! This library has a standard library of its own, so its hook is of no concern to other extensions in Rust, nor theirs to it.

use shardmill_formats::caught::is_caught;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

/// A panic that becomes an error of a file is no news for stderr; all others are told as before.
pub(crate) fn silence_caught() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if !is_caught() {
                previous(panic);
            }
        }));
    });
}
