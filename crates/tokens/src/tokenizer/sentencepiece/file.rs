//! The fields of a `.model` file.

use super::message::{Field, Message};
use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) struct File<'a> {
    pub(super) pieces: Vec<Piece>,
    /// 1 Unigram, 2 BPE, 3 word, 4 character.
    pub(super) model: u64,
    pub(super) byte_fallback: bool,
    pub(super) space_is_suffix: bool,
    pub(super) bos: i64,
    pub(super) eos: i64,
    pub(super) pad: i64,
    pub(super) normalizer: Normalization<'a>,
    pub(super) has_denormalizer: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Normalization<'a> {
    pub(super) charsmap: &'a [u8],
    pub(super) add_dummy_prefix: bool,
    pub(super) remove_extra_whitespaces: bool,
    pub(super) escape_whitespaces: bool,
}

impl<'a> File<'a> {
    pub(super) fn parse(path: &str, bytes: &'a [u8]) -> Result<Self> {
        let normalizer = Normalization {
            charsmap: &[],
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        };
        let mut file = Self {
            pieces: Vec::new(),
            model: 1,
            byte_fallback: false,
            space_is_suffix: false,
            bos: 1,
            eos: 2,
            pad: -1,
            normalizer,
            has_denormalizer: false,
        };
        let mut message = Message::new(bytes, 0);
        let mut offset = message.offset();
        while let Some(field) = message.next(path)? {
            let end = message.offset();
            match field {
                (1, Field::Bytes(bytes)) => {
                    file.pieces.push(piece(path, bytes, end - bytes.len())?);
                }
                (2, Field::Bytes(bytes)) => file.trainer(path, bytes, end - bytes.len())?,
                (3, Field::Bytes(bytes)) => file.normalization(path, bytes, end - bytes.len())?,
                (5, Field::Bytes(bytes)) => {
                    file.has_denormalizer = has_charsmap(path, bytes, end - bytes.len())?;
                }
                (1..=5, _) if !matches!(field, (4, Field::Bytes(_))) => {
                    return Err(Error::Damaged {
                        path: path.to_owned(),
                        offset,
                        problem: "a field has another type than in a model",
                    });
                }
                _ => {}
            }
            offset = end;
        }
        if file.pieces.is_empty() {
            return Err(Error::Damaged {
                path: path.to_owned(),
                offset,
                problem: "there are no pieces",
            });
        }
        Ok(file)
    }

    fn trainer(&mut self, path: &str, bytes: &[u8], start: usize) -> Result<()> {
        let mut message = Message::new(bytes, start);
        while let Some((number, field)) = message.next(path)? {
            let Field::Varint(value) = field else {
                continue;
            };
            match number {
                3 => self.model = value,
                24 => self.space_is_suffix = value != 0,
                35 => self.byte_fallback = value != 0,
                41 => self.bos = id(value),
                42 => self.eos = id(value),
                43 => self.pad = id(value),
                _ => {}
            }
        }
        Ok(())
    }

    fn normalization(&mut self, path: &str, bytes: &'a [u8], start: usize) -> Result<()> {
        let mut message = Message::new(bytes, start);
        while let Some(field) = message.next(path)? {
            match field {
                (2, Field::Bytes(charsmap)) => self.normalizer.charsmap = charsmap,
                (3, Field::Varint(value)) => self.normalizer.add_dummy_prefix = value != 0,
                (4, Field::Varint(value)) => self.normalizer.remove_extra_whitespaces = value != 0,
                (5, Field::Varint(value)) => self.normalizer.escape_whitespaces = value != 0,
                _ => {}
            }
        }
        Ok(())
    }
}

/// 32 bits with a sign; -1 means that there is no such piece.
fn id(value: u64) -> i64 {
    value.cast_signed()
}

fn piece(path: &str, bytes: &[u8], start: usize) -> Result<Piece> {
    let mut message = Message::new(bytes, start);
    let damaged = |problem| Error::Damaged { path: path.to_owned(), offset: start, problem };
    let mut piece = Piece { text: String::new(), score: 0.0, kind: Kind::Normal };
    while let Some(field) = message.next(path)? {
        match field {
            (1, Field::Bytes(text)) => std::str::from_utf8(text)
                .map_err(|_| damaged("a piece is not UTF-8"))?
                .clone_into(&mut piece.text),
            (2, Field::Fixed32(bits)) => piece.score = f32::from_bits(bits),
            (3, Field::Varint(kind)) => {
                piece.kind = match kind {
                    1 => Kind::Normal,
                    2 => Kind::Unknown,
                    3 => Kind::Control,
                    4 => Kind::UserDefined,
                    5 => Kind::Unused,
                    6 => Kind::Byte,
                    _ => return Err(damaged("a piece has an unknown type")),
                }
            }
            _ => {}
        }
    }
    if piece.text.is_empty() {
        return Err(damaged("a piece is empty"));
    }
    if !piece.score.is_finite() {
        return Err(damaged("the score of a piece is not a number"));
    }
    Ok(piece)
}

fn has_charsmap(path: &str, bytes: &[u8], start: usize) -> Result<bool> {
    let mut message = Message::new(bytes, start);
    let mut found = false;
    while let Some(field) = message.next(path)? {
        found |= matches!(field, (2, Field::Bytes(charsmap)) if !charsmap.is_empty());
    }
    Ok(found)
}
