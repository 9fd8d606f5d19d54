//! Any bytes as an ArrayRecord file, through a script that puts right hashes around what it says: it is refused, or every way to read it tells the same.
#![no_main]

mod arrayrecord;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _records = arrayrecord::check::file(arrayrecord::script::file(bytes));
});
