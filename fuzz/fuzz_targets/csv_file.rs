//! Any bytes as a CSV file: types are found, and every block has as many rows as it states, or an
//! error says where it does not. Lines that are skipped are no errors, but a quote that is never
//! closed is.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use shardmill_formats::csv::{CsvFile, CsvOptions, infer};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::{BadLines, Declared, Encoding, Error, Unpacker};
use shardmill_formats::table::{TableError, TableFile};
use shardmill_storage::RangeRead;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let object: Arc<dyn RangeRead> = memory::file(bytes);
    for bad_lines in [BadLines::Error, BadLines::Skip, BadLines::Null] {
        let options = CsvOptions {
            bad_lines,
            limit: DecodeLimit::new(memory::LIMIT),
            declared: Declared::nothing(),
            ..CsvOptions::default()
        };
        let Ok(inferred) =
            infer(&[Arc::clone(&object)], &Unpacker::new(Encoding::Utf8, options.limit), &options)
        else {
            continue;
        };
        let Ok(file) = CsvFile::open_inferred(Arc::clone(&object), &inferred, options) else {
            continue;
        };
        let columns = memory::all_columns(&file);
        let is_closed = (0..file.blocks().len()).all(|block| {
            let read = file.read(block, &columns, None);
            !matches!(read, Err(TableError::Text(Error::UnclosedQuote { .. })))
        });
        memory::read_blocks(&file, &columns, bad_lines == BadLines::Error || !is_closed);
    }
});
