//! SentencePiece `.model`: BPE and Unigram.

mod file;
mod message;
mod normalizer;

use super::added::{Added, LONGEST_TOKEN, declarations};
use super::fingerprint;
use super::model::{Model, Template};
use super::settings::Settings;
use super::unigram::{Library, Parts, Unigram, byte_tokens};
use super::vocabulary::{HIGHEST_ID, Vocabulary};
use super::{directory::Configuration, engine::MARKERS};
use crate::error::{Error, Result};
use crate::quote::quoted;
use file::{File, Kind, Normalization, Piece};
use normalizer::{Prefix, Rules};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Of the merges that pieces can ask for; published models have less than a million.
const MOST_MERGES: usize = 4 << 20;

/// The model and its fingerprint.
pub(super) fn read(
    path: &str,
    bytes: &[u8],
    configuration: &mut Configuration,
    settings: &mut Settings,
) -> Result<(Model, String)> {
    let unsupported =
        |what: &str| Error::Unsupported { path: path.to_owned(), what: what.to_owned() };
    let file = File::parse(path, bytes)?;
    if file.has_denormalizer {
        return Err(unsupported("it has a denormalizer"));
    }
    check(path, &file.pieces)?;
    let class = Class::of(&file, settings)?;
    let (model, unigram) = match file.model {
        1 => (Unigram::stand_in(), Some(unigram(path, &file, class)?)),
        2 => (bpe(path, &file)?, None),
        3 => {
            return Err(unsupported(
                "it is a word model, and only BPE and Unigram models are supported",
            ));
        }
        4 => {
            return Err(unsupported(
                "it is a character model, and only BPE and Unigram models are supported",
            ));
        }
        _ => return Err(unsupported("its model has an unknown type")),
    };
    for (role, id) in [("bos_token", file.bos), ("eos_token", file.eos), ("pad_token", file.pad)] {
        let piece = usize::try_from(id).ok().and_then(|id| file.pieces.get(id));
        if let Some(piece) = piece.filter(|piece| piece.kind == Kind::Control) {
            configuration.roles.entry(role.to_owned()).or_insert_with(|| piece.text.clone());
        }
    }
    let numbered = || file.pieces.iter().zip(0..);
    let mut added =
        if class == Class::SentencePiece { added_pieces(&file, true) } else { Vec::new() };
    let ids: HashMap<&str, u32> = numbered().map(|(piece, id)| (piece.text.as_str(), id)).collect();
    let size = u32::try_from(file.pieces.len()).unwrap_or(u32::MAX);
    let mut changes = settings.add(&mut added, |token| ids.get(token).copied(), size)?;
    // The engine has no normalizer for them: they are found in the text as written.
    for token in &mut added {
        // A generic class searches after its normalizer has replaced the spaces, so it strips only
        // other white space.
        if class == Class::Generic
            && token.is_normalized
            && (token.bounds.takes_left || token.bounds.takes_right)
        {
            return Err(unsupported(
                "an added token has `lstrip` or `rstrip` with `normalized`, which this class \
                 applies after its normalizer",
            ));
        }
        token.is_normalized = false;
    }
    let pieces =
        numbered().map(|(piece, id)| (piece.text.clone(), id)).collect::<Vec<(String, u32)>>();
    let mut vocabulary = Vocabulary::characters(&pieces, added);
    if unigram.is_some() {
        vocabulary.assign_without_model();
    }
    let prefix = class.prefix(&file, settings);
    let decoders = json!([
        {"type": "Replace", "pattern": {"String": normalizer::MARKER}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": u8::from(prefix != Prefix::Never), "stop": 0},
    ]);
    let added = declarations(vocabulary.added());
    let document = json!({
        "version": "2.0",
        "added_tokens": added,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    });
    let symbols = file
        .pieces
        .iter()
        .filter(|piece| piece.kind == Kind::UserDefined)
        .map(|piece| piece.text.clone())
        .collect();
    let rules = match class {
        Class::SentencePiece => Rules::new(path, file.normalizer, prefix, symbols)?,
        // These classes do not use the normalizer of the file.
        Class::Generic | Class::Llama => {
            let plain = Normalization {
                charsmap: &[],
                remove_extra_whitespaces: false,
                escape_whitespaces: true,
                ..file.normalizer
            };
            Rules::new(path, plain, prefix, Vec::new())?
        }
    };
    changes.extend((class != Class::SentencePiece).then(|| format!("{class:?} {prefix:?}")));
    let model = Model {
        text: document.to_string(),
        splitter: unigram.is_none().then(|| json!({"type": MARKERS})),
        normalizer: Some(Box::new(rules)),
        spaces: None,
        has_byte_tokens: file.byte_fallback,
        vocabulary,
        changes,
        template: Template::default(),
        unigram,
    };
    // A separate kind, so that ids and counts that were stored with sums of 64 bits do not match.
    let kind = if file.model == 1 { "sentencepiece unigram" } else { "sentencepiece" };
    Ok((model, fingerprint::of_bytes(kind, bytes, "", std::iter::empty())))
}

/// The pieces that are found before the model gets a text, or in its normalizer with `is_library`.
fn added_pieces(file: &File<'_>, is_library: bool) -> Vec<Added> {
    let numbered = file.pieces.iter().zip(0..);
    // A Unigram model of the library finds user-defined pieces itself.
    let is_added = |kind: Kind| {
        kind == Kind::Control || (kind == Kind::UserDefined && (file.model == 2 || !is_library))
    };
    let added = numbered.filter(|(piece, _)| is_added(piece.kind)).map(|(piece, id)| Added {
        is_special: piece.kind == Kind::Control,
        is_piece: piece.kind == Kind::UserDefined && is_library,
        ..Added::special(&piece.text, id)
    });
    added.collect()
}

/// What turns the file into a tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// The library itself.
    SentencePiece,
    /// A class of transformers without rules of its own.
    Generic,
    /// `LlamaTokenizer` of transformers.
    Llama,
}

impl Class {
    fn of(file: &File<'_>, settings: &mut Settings) -> Result<Self> {
        let piece = |id: i64| {
            usize::try_from(id)
                .ok()
                .and_then(|id| file.pieces.get(id))
                .map(|piece| piece.text.as_str())
        };
        let unknown = file.pieces.get(unknown(&file.pieces)).map(|piece| piece.text.as_str());
        let class = match settings.class.clone() {
            None => Self::SentencePiece,
            Some(_) if settings.is_generic() => Self::Generic,
            Some(_) if settings.is_llama() => Self::Llama,
            Some(class) => {
                let reason =
                    "it builds a different tokenizer from the .model than SentencePiece does";
                return Err(
                    settings.refused(&format!("tokenizer_class: {}", quoted(&class)), reason)
                );
            }
        };
        let has_bytes = file.byte_fallback
            && file.pieces.iter().filter(|piece| piece.kind == Kind::Byte).count() == 256;
        match class {
            Self::SentencePiece => {
                if settings
                    .add_prefix_space
                    .is_some_and(|wanted| wanted != file.normalizer.add_dummy_prefix)
                {
                    let wanted =
                        if file.normalizer.add_dummy_prefix { "a space" } else { "no space" };
                    let setting =
                        format!("add_prefix_space: {}", !file.normalizer.add_dummy_prefix);
                    return Err(settings
                        .refused(&setting, format!("the .model puts {wanted} before a text")));
                }
            }
            Self::Generic => {
                if !file.normalizer.charsmap.is_empty() || !file.normalizer.escape_whitespaces {
                    return Err(settings
                        .refused("tokenizer_class", "the normalizer of the .model is not plain"));
                }
                let roles = [
                    ("bos_token", piece(file.bos)),
                    ("eos_token", piece(file.eos)),
                    ("unk_token", unknown),
                ];
                settings.name(roles.into_iter().filter_map(|(role, token)| Some((role, token?))));
            }
            Self::Llama => {
                if file.model != 2 || !has_bytes {
                    return Err(settings.refused(
                        "tokenizer_class: \"LlamaTokenizer\"",
                        "the .model is not a BPE model with byte fallback",
                    ));
                }
                settings.name([
                    ("bos_token", "<s>"),
                    ("eos_token", "</s>"),
                    ("unk_token", "<unk>"),
                ]);
            }
        }
        settings.check_letters("the .model")?;
        if class != Self::SentencePiece {
            settings.set_extra(added_pieces(file, false));
        }
        Ok(class)
    }

    fn prefix(self, file: &File<'_>, settings: &Settings) -> Prefix {
        match self {
            Self::SentencePiece if !file.normalizer.add_dummy_prefix => Prefix::Never,
            Self::SentencePiece if file.space_is_suffix => Prefix::Suffix,
            Self::SentencePiece => Prefix::First,
            Self::Llama if settings.add_prefix_space == Some(false) => Prefix::Never,
            Self::Llama if settings.is_legacy => Prefix::EveryPart,
            Self::Llama => Prefix::Start,
            Self::Generic => Prefix::Never,
        }
    }
}

fn check(path: &str, pieces: &[Piece]) -> Result<()> {
    let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
    let mut ids: HashMap<&str, usize> = HashMap::with_capacity(pieces.len());
    for (id, piece) in pieces.iter().enumerate() {
        if let Some(first) = ids.insert(&piece.text, id) {
            return Err(invalid(format!(
                "pieces {first} and {id} are both {}",
                quoted(&piece.text)
            )));
        }
        if piece.kind == Kind::Unused {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: format!(
                    "piece {id}, {}, is unused, which only sampling needs",
                    quoted(&piece.text)
                ),
            });
        }
        if piece.text.len() > LONGEST_TOKEN {
            return Err(invalid(format!("piece {id} has more than {LONGEST_TOKEN} bytes")));
        }
    }
    let unknown = pieces.iter().filter(|piece| piece.kind == Kind::Unknown).count();
    if unknown != 1 || pieces.len() as u64 > u64::from(HIGHEST_ID) {
        return Err(invalid(format!("it has {unknown} unknown pieces of {}", pieces.len())));
    }
    Ok(())
}

fn unknown(pieces: &[Piece]) -> usize {
    pieces.iter().position(|piece| piece.kind == Kind::Unknown).unwrap_or_default()
}

/// The model with the arithmetic of the library that the class belongs to.
fn unigram(path: &str, file: &File<'_>, class: Class) -> Result<Unigram> {
    let normal =
        || file.pieces.iter().filter(|piece| piece.kind == Kind::Normal).map(|piece| piece.score);
    let (lowest, highest) =
        (normal().fold(f32::INFINITY, f32::min), normal().fold(f32::MIN_POSITIVE, f32::max));
    if !lowest.is_finite() {
        return Err(Error::Invalid {
            path: path.to_owned(),
            problem: "it has no normal pieces".to_owned(),
        });
    }
    if class != Class::SentencePiece {
        let vocabulary: Vec<Value> =
            file.pieces.iter().map(|piece| json!([piece.text, f64::from(piece.score)])).collect();
        return Unigram::of_json(
            path,
            &json!({
                "vocab": vocabulary,
                "unk_id": unknown(&file.pieces),
                "byte_fallback": file.byte_fallback,
            }),
        );
    }
    let score = |piece: &Piece| match piece.kind {
        // High enough that the piece is always used.
        Kind::UserDefined => {
            u32::try_from(piece.text.len()).map_or(0.0, f64::from) * f64::from(highest) - 0.1
        }
        _ => f64::from(piece.score),
    };
    let of_kind = |wanted: &'static [Kind]| {
        let numbered = file.pieces.iter().zip(0..);
        numbered
            .filter(move |(piece, _)| wanted.contains(&piece.kind))
            .map(|(piece, id)| (piece.text.as_str(), id))
    };
    Ok(Unigram::new(Parts {
        tokens: of_kind(&[Kind::Normal, Kind::UserDefined]).collect(),
        scores: file.pieces.iter().map(score).collect(),
        unknown: u32::try_from(unknown(&file.pieces)).unwrap_or_default(),
        lowest: f64::from(lowest),
        bytes: file.byte_fallback.then(|| byte_tokens(of_kind(&[Kind::Byte]))),
        library: Library::SentencePiece,
    }))
}

fn bpe(path: &str, file: &File<'_>) -> Result<Value> {
    let mut vocabulary = Map::new();
    for (piece, id) in file.pieces.iter().zip(0..) {
        let id: u32 = id;
        vocabulary.insert(piece.text.clone(), Value::from(id));
    }
    let unknown = file.pieces.get(unknown(&file.pieces)).map(|piece| piece.text.as_str());
    let merges = merges(path, &file.pieces)?;
    Ok(json!({
        "type": "BPE",
        "byte_level": false,
        "unk_token": unknown,
        "fuse_unk": true,
        "byte_fallback": file.byte_fallback,
        "ignore_merges": false,
        "vocab": vocabulary,
        "merges": merges,
    }))
}

/// The split of each normal piece into two others; pieces with a higher score come first, then
/// splits whose halves have lower ids.
fn merges(path: &str, pieces: &[Piece]) -> Result<Vec<Value>> {
    let is_merged = |piece: &&Piece| piece.kind == Kind::Normal;
    let ids: HashMap<&str, usize> = pieces
        .iter()
        .enumerate()
        .filter(|(_, piece)| is_merged(piece))
        .map(|(id, piece)| (piece.text.as_str(), id))
        .collect();
    let mut order: Vec<(usize, &Piece)> =
        pieces.iter().enumerate().filter(|(_, piece)| is_merged(piece)).collect();
    order.sort_by(|(first, left), (second, right)| {
        right.score.total_cmp(&left.score).then(first.cmp(second))
    });
    let mut merges = Vec::new();
    for (_, piece) in order {
        let mut splits: Vec<(usize, usize, &str, &str)> = Vec::new();
        for (at, _) in piece.text.char_indices().skip(1) {
            let (left, right) = piece.text.split_at(at);
            if let (Some(first), Some(second)) = (ids.get(left), ids.get(right)) {
                splits.push((*first, *second, left, right));
            }
        }
        splits.sort_unstable();
        merges.extend(splits.into_iter().map(|(_, _, left, right)| json!([left, right])));
        if merges.len() > MOST_MERGES {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: format!("its pieces split into others in more than {MOST_MERGES} ways"),
            });
        }
    }
    Ok(merges)
}
