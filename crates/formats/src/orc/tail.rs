//! The end of a file: postscript, footer and stripe statistics.

use super::Error;
use super::compression::Compression;
use super::decimals::UNSCALED;
use super::types::{Type, one, types};
use super::wire::{self, Fields, Value, put_bytes, put_varint};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use shardmill_storage::RangeRead;

/// Read first, because it usually includes the footer.
const TAIL_BYTES: u64 = 16 << 10;

/// Decompressed; the footer of a hundred thousand stripes takes some megabytes.
pub(super) const MAX_FOOTER_BYTES: usize = 256 << 20;

const MAX_STRIPES: usize = 1 << 20;

/// The first writer version with correct string statistics (HIVE-8732).
const FIRST_SOUND_WRITER: u64 = 1;

/// A stripe, checked to lie within the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stripe {
    pub(super) offset: u64,
    pub(super) index_len: u64,
    pub(super) data_len: u64,
    pub(super) footer_len: u64,
    pub(super) rows: u64,
}

/// The content of the tail.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) compression: Compression,
    pub(super) stripes: Vec<Stripe>,
    pub(super) types: Vec<Type>,
    /// Column statistics of each stripe as messages; empty if they are missing or unsound.
    pub(super) statistics: Vec<Bytes>,
    /// A tail with the same types and stripes for an uncompressed file,
    /// which is passed to orc-rust.
    pub(super) plain: Bytes,
    pub(super) digest: u128,
}

/// Lengths at the end of the file.
#[derive(Debug, Default)]
struct Postscript {
    footer_len: u64,
    metadata_len: u64,
    compression: u64,
    chunk_bytes: Option<u64>,
    writer: u64,
}

pub(super) fn read_tail(object: &dyn RangeRead) -> Result<Tail, Error> {
    let footer_error = |reason: String| Error::Footer { path: object.path().to_owned(), reason };
    let damaged = |reason: String| Error::DamagedFooter { path: object.path().to_owned(), reason };
    let message_error = |_| damaged("damaged message".to_owned());
    let size = object.size();
    let mut tail = read(object, size.saturating_sub(TAIL_BYTES), size)?;
    let postscript_len = u64::from(
        tail.last().copied().ok_or_else(|| footer_error("the file is empty".to_owned()))?,
    );
    let behind_footer = size
        .checked_sub(1 + postscript_len)
        .ok_or_else(|| footer_error("the file is too short".to_owned()))?;
    let postscript = postscript(
        from_end(&tail, size - behind_footer)
            .get(..usize::from(*tail.last().unwrap_or(&0)))
            .unwrap_or_default(),
    )
    .map_err(footer_error)?;
    let lens = postscript.footer_len.checked_add(postscript.metadata_len);
    let start = lens
        .and_then(|len| behind_footer.checked_sub(len))
        .ok_or_else(|| footer_error("the file is too short".to_owned()))?;
    if size - start > 2 * MAX_FOOTER_BYTES as u64 {
        return Err(footer_error(format!("it states {} bytes", size - start)));
    }
    if size - start > tail.len() as u64 {
        tail = read(object, start, size)?;
    }
    let tail = Bytes::from(from_end(&tail, size - start).to_vec());
    let compression = Compression::new(postscript.compression, postscript.chunk_bytes)
        .map_err(|feature| Error::Unsupported { path: object.path().to_owned(), feature })?;
    let metadata_len =
        usize::try_from(postscript.metadata_len).unwrap_or(usize::MAX).min(tail.len());
    let footer_end = usize::try_from(behind_footer - start).unwrap_or(usize::MAX).min(tail.len());
    let metadata = compression
        .unpack(tail.slice(..metadata_len), MAX_FOOTER_BYTES)
        .map_err(|fault| damaged(fault.to_string()))?;
    let footer = compression
        .unpack(tail.slice(metadata_len..footer_end), MAX_FOOTER_BYTES)
        .map_err(|fault| damaged(fault.to_string()))?;

    let fields = wire::fields(&footer).map_err(message_error)?;
    if fields.clone().any(|field| field.number == 10) {
        return Err(Error::Unsupported {
            path: object.path().to_owned(),
            feature: "encryption".to_owned(),
        });
    }
    let stripes = stripes(fields.clone(), size).map_err(damaged)?;
    let messages: Vec<&[u8]> = fields
        .clone()
        .filter(|field| field.number == 4)
        .filter_map(|field| field.value.bytes())
        .collect();
    let types = types(&messages).map_err(damaged)?;
    let mut statistics = Vec::new();
    if postscript.writer >= FIRST_SOUND_WRITER {
        let messages = wire::fields(&metadata).map_err(message_error)?;
        let stated =
            messages.filter(|field| field.number == 1).filter_map(|field| field.value.bytes());
        statistics.extend(stated.map(|message| metadata.slice_ref(message)));
    }
    if statistics.len() != stripes.len() {
        statistics.clear();
    }
    let hash: [u8; 32] = Sha256::digest(&tail).into();
    let digest = hash.iter().take(16).fold(0u128, |digest, byte| digest << 8 | u128::from(*byte));
    Ok(Tail { compression, stripes, types, statistics, plain: plain_tail(fields), digest })
}

fn read(object: &dyn RangeRead, start: u64, end: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
    object.read_at(start, &mut bytes)?;
    Ok(bytes)
}

fn from_end(bytes: &[u8], len: u64) -> &[u8] {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    bytes.get(bytes.len().saturating_sub(len)..).unwrap_or_default()
}

fn postscript(message: &[u8]) -> Result<Postscript, String> {
    let mut found = Postscript::default();
    let mut is_orc = false;
    for field in wire::fields(message).map_err(|_| "damaged postscript".to_owned())? {
        let number = field.value.number().unwrap_or_default();
        match field.number {
            1 => found.footer_len = number,
            2 => found.compression = number,
            3 => found.chunk_bytes = Some(number),
            5 => found.metadata_len = number,
            6 => found.writer = number,
            8000 => is_orc = field.value == Value::Bytes(b"ORC"),
            _ => {}
        }
    }
    if is_orc { Ok(found) } else { Err("the postscript does not end with `ORC`".to_owned()) }
}

fn stripes(footer: Fields<'_>, size: u64) -> Result<Vec<Stripe>, String> {
    let (mut stripes, mut rows, mut stated) = (Vec::new(), 0u64, None);
    for field in footer {
        match (field.number, field.value) {
            (3, Value::Bytes(message)) => {
                let mut stripe = Stripe::default();
                for field in wire::fields(message).map_err(|_| "damaged message".to_owned())? {
                    let number = field.value.number().unwrap_or_default();
                    match field.number {
                        1 => stripe.offset = number,
                        2 => stripe.index_len = number,
                        3 => stripe.data_len = number,
                        4 => stripe.footer_len = number,
                        5 => stripe.rows = number,
                        _ => {}
                    }
                }
                let lens = [stripe.index_len, stripe.data_len, stripe.footer_len];
                let end = lens.into_iter().try_fold(stripe.offset, u64::checked_add);
                if end.is_none_or(|end| end > size) {
                    return Err(format!(
                        "stripe {} lies beyond the end of the file",
                        stripes.len()
                    ));
                }
                rows = rows
                    .checked_add(stripe.rows)
                    .filter(|rows| *rows <= u64::MAX >> 1)
                    .ok_or("too many rows")?;
                stripes.push(stripe);
                if stripes.len() > MAX_STRIPES {
                    return Err("too many stripes".to_owned());
                }
            }
            (6, Value::Varint(number)) => stated = Some(number),
            _ => {}
        }
    }
    if stated.is_some_and(|stated| stated != rows) {
        return Err(format!(
            "the stripes hold {rows} rows, the file {}",
            stated.unwrap_or_default()
        ));
    }
    Ok(stripes)
}

/// Stripes, types, user metadata and the number of rows, without statistics and compression.
fn plain_tail(footer: Fields<'_>) -> Bytes {
    let mut bytes = Vec::new();
    for field in footer.filter(|field| matches!(field.number, 3..=6)) {
        let message = field.value.bytes().filter(|_| field.number == 4).unwrap_or_default();
        match one(message).ok().and_then(|found| found.digits).filter(|digits| *digits == UNSCALED)
        {
            // orc-rust knows no decimals without precision. Of repeated fields,
            // the last one counts.
            Some((precision, scale)) => {
                let mut typed = message.to_vec();
                put_varint(&mut typed, 5, u64::from(precision));
                put_varint(&mut typed, 6, u64::from(scale));
                put_bytes(&mut bytes, 4, &typed);
            }
            None => bytes.extend_from_slice(field.raw),
        }
    }
    let footer_len = bytes.len();
    let mut postscript = Vec::new();
    put_varint(&mut postscript, 1, footer_len as u64);
    put_varint(&mut postscript, 2, 0);
    put_varint(&mut postscript, 5, 0);
    bytes.extend_from_slice(&postscript);
    bytes.push(u8::try_from(postscript.len()).unwrap_or_default());
    Bytes::from(bytes)
}
