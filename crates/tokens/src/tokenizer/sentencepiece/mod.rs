//! SentencePiece `.model`: BPE and Unigram.

mod file;
mod message;
mod normalizer;

use super::added::Added;
use super::fingerprint;
use super::model::{Model, Template};
use super::vocabulary::{HIGHEST_ID, LONGEST_TOKEN, Vocabulary};
use super::{directory::Configuration, engine::MARKERS};
use crate::error::{Error, Result};
use file::{File, Kind, Piece};
use normalizer::Rules;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// Of the merges that pieces can ask for; published models have less than a million.
const MOST_MERGES: usize = 4 << 20;

/// Noncharacters, in an order that no text has.
const HIDDEN: &str = "\u{fdd9}\u{10ffff}\u{fdd4}\u{1fffe}\u{fdef}\u{8ffff}\u{fdd0}\u{3fffe}";

/// The model and its fingerprint.
pub(super) fn read(path: &str, bytes: &[u8], configuration: &mut Configuration) -> Result<(Model, String)> {
    let unsupported = |what: &str| Error::Unsupported { path: path.to_owned(), what: what.to_owned() };
    let file = File::parse(path, bytes)?;
    if file.has_denormalizer {
        return Err(unsupported("it has a denormalizer"));
    }
    check(path, &file.pieces)?;
    let model = match file.model {
        1 => unigram(path, &file)?,
        2 => bpe(path, &file)?,
        3 => return Err(unsupported("it is a word model, and only BPE and Unigram models are supported")),
        4 => return Err(unsupported("it is a character model, and only BPE and Unigram models are supported")),
        _ => return Err(unsupported("its model has an unknown type")),
    };
    for (role, id) in [("bos_token", file.bos), ("eos_token", file.eos), ("pad_token", file.pad)] {
        let piece = usize::try_from(id).ok().and_then(|id| file.pieces.get(id));
        if let Some(piece) = piece.filter(|piece| piece.kind == Kind::Control) {
            configuration.roles.entry(role.to_owned()).or_insert_with(|| piece.text.clone());
        }
    }
    let added: Vec<Added> = file
        .pieces
        .iter()
        .zip(0..)
        .filter(|(piece, _)| matches!(piece.kind, Kind::Control | Kind::UserDefined))
        .map(|(piece, id)| Added { is_special: piece.kind == Kind::Control, ..Added::special(&piece.text, id) })
        .collect();
    let declared: Vec<Value> = added.iter().map(Added::declaration).collect();
    let decoders = json!([
        {"type": "Replace", "pattern": {"String": normalizer::MARKER}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": u8::from(file.normalizer.add_dummy_prefix), "stop": 0},
    ]);
    let document = json!({"version": "2.0", "added_tokens": declared, "decoder": {"type": "Sequence", "decoders": decoders}, "model": model});
    let pieces = file.pieces.iter().zip(0..).map(|(piece, id)| (piece.text.clone(), id)).collect::<Vec<(String, u32)>>();
    let symbols = file.pieces.iter().filter(|piece| piece.kind == Kind::UserDefined).map(|piece| piece.text.clone()).collect();
    let is_hidden = |piece: &&Piece| file.model == 1 && matches!(piece.kind, Kind::Control | Kind::Unknown);
    let hidden_pieces: HashSet<&str> = file.pieces.iter().filter(is_hidden).map(|piece| piece.text.as_str()).collect();
    let rules = Rules::new(path, file.normalizer, file.space_is_suffix, symbols)?;
    let model = Model {
        text: document.to_string(),
        splitter: Some(json!({"type": MARKERS})),
        normalizer: Some(Box::new(rules)),
        spaces: None,
        has_byte_tokens: file.byte_fallback,
        vocabulary: Vocabulary::characters(&pieces, added, |piece| hidden_pieces.contains(piece)),
        template: Template::default(),
    };
    Ok((model, fingerprint::of_bytes("sentencepiece", bytes, "", std::iter::empty())))
}

fn check(path: &str, pieces: &[Piece]) -> Result<()> {
    let invalid = |problem: String| Error::Invalid { path: path.to_owned(), problem };
    let mut ids: HashMap<&str, usize> = HashMap::with_capacity(pieces.len());
    for (id, piece) in pieces.iter().enumerate() {
        if let Some(first) = ids.insert(&piece.text, id) {
            return Err(invalid(format!("pieces {first} and {id} are both {:?}", piece.text)));
        }
        if piece.kind == Kind::Unused {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: format!("piece {id}, {:?}, is unused, which only sampling needs", piece.text),
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

fn unigram(path: &str, file: &File<'_>) -> Result<Value> {
    let lowest = file.pieces.iter().filter(|piece| piece.kind == Kind::Normal).map(|piece| piece.score).fold(f32::INFINITY, f32::min);
    if !lowest.is_finite() {
        return Err(Error::Invalid { path: path.to_owned(), problem: "it has no normal pieces".to_owned() });
    }
    let of_byte = byte_score(&file.pieces, f64::from(lowest));
    let score = |piece: &Piece| of_byte.filter(|_| piece.kind == Kind::Byte).unwrap_or_else(|| f64::from(piece.score));
    let vocabulary: Vec<Value> = file.pieces.iter().map(|piece| json!([hidden(piece), score(piece)])).collect();
    Ok(json!({"type": "Unigram", "unk_id": unknown(&file.pieces), "byte_fallback": file.byte_fallback, "vocab": vocabulary}))
}

/// A score with which the text "<0x41>" is never a byte: its six characters score higher. The engine needs the names of bytes, and takes them for pieces of
/// text. It also puts the score of an unknown character below all others, which changes nothing if each character of a piece is a piece itself.
fn byte_score(pieces: &[Piece], lowest: f64) -> Option<f64> {
    let normal = || pieces.iter().filter(|piece| piece.kind == Kind::Normal);
    let alone: HashSet<&str> = normal().map(|piece| piece.text.as_str()).collect();
    let is_alone = |character: char| alone.contains(character.encode_utf8(&mut [0; 4]) as &str);
    let all_alone = normal().flat_map(|piece| piece.text.chars()).chain("<0x123456789ABCDEF>".chars()).all(is_alone);
    all_alone.then_some(8.0 * lowest.min(0.0) - 20.0)
}

/// Pieces that no text matches get a text that none has. The engine finds bytes by name.
fn hidden(piece: &Piece) -> String {
    match piece.kind {
        Kind::Normal | Kind::UserDefined | Kind::Unused | Kind::Byte => piece.text.clone(),
        Kind::Control | Kind::Unknown => format!("{HIDDEN}{}{HIDDEN}", piece.text),
    }
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
        "type": "BPE", "byte_level": false, "unk_token": unknown, "fuse_unk": true, "byte_fallback": file.byte_fallback,
        "ignore_merges": false, "vocab": vocabulary, "merges": merges,
    }))
}

/// The split of each normal piece into two others; pieces with a higher score come first, then splits whose halves have lower ids.
fn merges(path: &str, pieces: &[Piece]) -> Result<Vec<Value>> {
    let is_merged = |piece: &&Piece| piece.kind == Kind::Normal;
    let ids: HashMap<&str, usize> =
        pieces.iter().enumerate().filter(|(_, piece)| is_merged(piece)).map(|(id, piece)| (piece.text.as_str(), id)).collect();
    let mut order: Vec<(usize, &Piece)> = pieces.iter().enumerate().filter(|(_, piece)| is_merged(piece)).collect();
    order.sort_by(|(first, left), (second, right)| right.score.total_cmp(&left.score).then(first.cmp(second)));
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
            return Err(Error::Unsupported { path: path.to_owned(), what: format!("its pieces split into others in more than {MOST_MERGES} ways") });
        }
    }
    Ok(merges)
}
