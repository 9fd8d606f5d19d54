//! Documents of OLMo-core and dolma: `X.csv.gz` beside `X.npy`, which has tokens alone, without
//! the header of NumPy.
//!
//! A line of the CSV starts with the first token of a document and the token after its last one,
//! as `MemmapMetadata` of dolma has them.

use super::{Dtype, FlatFile};
use crate::token_error::Error;
use flate2::bufread::MultiGzDecoder;
use shardmill_storage::{RangeRead, SequentialRead};
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

const READ_BYTES: usize = 256 << 10;
/// Ids and paths of a document are in its line.
const LINE_BYTES: u64 = 1 << 20;

/// Number of tokens of each document of `file`.
pub(super) fn lengths(file: &FlatFile, csv: &dyn RangeRead) -> Result<Vec<u32>, Error> {
    let path = csv.path();
    let stored = BufReader::with_capacity(READ_BYTES, SequentialRead::new(csv));
    let mut lines = BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(stored));
    let (mut lengths, mut line, mut end) = (Vec::new(), Vec::new(), 0);
    for number in 1_u64.. {
        line.clear();
        let read = (&mut lines).take(LINE_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|source| Error::Unzip { path: path.to_owned(), line: number, source })? == 0
        {
            break;
        }
        let wrong = |field, found: String, expected: String| {
            Err(Error::Line { path: path.to_owned(), line: number, field, found, expected })
        };
        let text = String::from_utf8_lossy(&line);
        let mut fields = text.trim_end().split(',');
        let (first, last) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let (Ok(start), Ok(next)) = (first.parse::<u64>(), last.parse::<u64>()) else {
            let found = text.trim_end().chars().take(60).collect();
            return wrong("the line", found, "two numbers and commas".to_owned());
        };
        if start != end {
            return wrong("the start of a document", start.to_string(), end.to_string());
        }
        let tokens = next.checked_sub(start).and_then(|tokens| u32::try_from(tokens).ok());
        let Some(tokens) = tokens.filter(|_| next <= file.tokens) else {
            let expected = format!("{start} to {}", file.tokens);
            return wrong("the end of a document", next.to_string(), expected);
        };
        lengths.push(tokens);
        end = next;
    }
    if end == file.tokens {
        return Ok(lengths);
    }
    let expected = format!("{}, the number of tokens", file.tokens);
    Err(other(path, "the end of the last document", end, expected))
}

/// A mask of `file`: a byte, 0 or 1, for each token.
pub(super) fn mask_of(
    file: &FlatFile,
    mask: Arc<dyn RangeRead>,
) -> Result<Arc<dyn RangeRead>, Error> {
    let mask = FlatFile::plain(mask, Some(Dtype::U8))?;
    if mask.tokens == file.tokens {
        return Ok(mask.object);
    }
    let expected = format!("{}, one byte for each token of `{}`", file.tokens, file.object.path());
    Err(other(mask.object.path(), "the size", mask.tokens, expected))
}

fn other(path: &str, field: &'static str, found: u64, expected: String) -> Error {
    let hint = "the files are not of one writer, or one of them was cut; fetch both again";
    Error::header((path, "npy"), field, found.to_string(), expected, hint)
}
