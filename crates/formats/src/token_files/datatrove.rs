//! The files of datatrove beside `X.ds`: `.ds.index`, `.ds.loss` and `.ds.metadata`, as
//! `TokenizedFile` of datatrove writes them.
//!
//! The index has the end of each document in tokens. It decides the width of a token, which the
//! metadata must confirm.

use super::Dtype;
use super::ends::Ends;
use super::entries::Pages;
use crate::token_error::Error;
use shardmill_storage::RangeRead;
use std::sync::Arc;

const FORMAT: &str = "datatrove";
const OTHER_TOKENS: &str =
    "the files are not of one writer, or one of them was cut; write or fetch all of them again";
/// Metadata are a name and two numbers.
const METADATA_BYTES: usize = 64 << 10;

/// What belongs to a file of tokens.
#[derive(Debug)]
pub struct DatatroveFiles {
    pub index: Arc<dyn RangeRead>,
    pub loss: Option<Arc<dyn RangeRead>>,
    pub metadata: Option<Arc<dyn RangeRead>>,
}

impl DatatroveFiles {
    /// The ends of the documents of a file of `bytes`, and its type.
    pub(super) fn open(&self, path: &str, bytes: u64) -> Result<(Ends, Dtype), Error> {
        let size = self.index.size();
        if !size.is_multiple_of(8) {
            let expected = "a multiple of 8".to_owned();
            return Err(wrong(self.index.path(), "the size", size.to_string(), expected));
        }
        let mut ends =
            Ends { object: Arc::clone(&self.index), count: size / 8, tokens: bytes, width: 1 };
        let tokens = match ends.count.checked_sub(1) {
            None => 0,
            Some(last) => ends.end(last, &mut Pages::new(&*self.index))?,
        };
        let dtype = match bytes.checked_div(tokens) {
            Some(2) if tokens * 2 == bytes => Dtype::U16,
            Some(4) if tokens * 4 == bytes => Dtype::U32,
            None if bytes == 0 => Dtype::U16,
            _ => {
                let expected = format!("2 or 4 times {tokens}, the last entry of the index");
                return Err(wrong(path, "the size", bytes.to_string(), expected));
            }
        };
        (ends.tokens, ends.width) = (tokens, dtype.width());
        self.check(tokens, dtype)?;
        Ok((ends, dtype))
    }

    fn check(&self, tokens: u64, dtype: Dtype) -> Result<(), Error> {
        if let Some(loss) = self.loss.as_ref().filter(|loss| loss.size() != tokens) {
            let expected = format!("{tokens}, one byte for each token");
            return Err(wrong(loss.path(), "the size", loss.size().to_string(), expected));
        }
        let Some(metadata) = &self.metadata else { return Ok(()) };
        let mut text =
            vec![0; usize::try_from(metadata.size()).unwrap_or(usize::MAX).min(METADATA_BYTES)];
        metadata.read_at(0, &mut text)?;
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines();
        let width = lines.next().and_then(|line| line.rsplit_once('|')).map(|(_, width)| width);
        let stated = [
            ("the width of a token", width, dtype.width()),
            ("the number of tokens", lines.next(), tokens),
        ];
        for (field, found, expected) in stated {
            // Files without tokens have any width.
            let is_other = found.and_then(|found| found.trim().parse().ok()) != Some(expected);
            if is_other && tokens > 0 {
                let found = found.unwrap_or("missing").to_owned();
                return Err(wrong(metadata.path(), field, found, expected.to_string()));
            }
        }
        Ok(())
    }
}

fn wrong(path: &str, field: &'static str, found: String, expected: String) -> Error {
    Error::header((path, FORMAT), field, found, expected, OTHER_TOKENS)
}
