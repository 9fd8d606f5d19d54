//! Any bytes as an ArrayRecord file, through a script that puts right hashes around what it says:
//! it is refused, or every way to read it tells the same.
#![no_main]

#[allow(dead_code, reason = "each target uses a part of it")]
mod arrayrecord;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let chunks = arrayrecord::check::file(arrayrecord::script::file(bytes));
    if std::env::var_os("SHARDMILL_FUZZ_VERBOSE").is_some() {
        let readable =
            chunks.as_ref().map(|chunks| (chunks.len(), chunks.iter().flatten().count()));
        eprintln!("chunks, and those that can be read: {readable:?}");
    }
});
