//! The streams of one stripe, decompressed and checked.

use super::compression::{Compression, Fault};
use super::decimals::misfit;
use super::fetch::fetch;
use super::integers::{Sign, integers};
use super::lengths::{Runs, sum_at_most};
use super::present::nulls;
use super::tail::{MAX_FOOTER_BYTES, Stripe, Tail};
use super::times::without_negative_fractions;
use super::types::Type;
use super::wire;
use crate::limit::DecodeLimit;
use bytes::Bytes;
use orc_rust::reader::ChunkReader;
use shardmill_storage::RangeRead;
use std::collections::{HashMap, HashSet};
use std::io::{self, Cursor};

const PRESENT: u64 = 0;
const DATA: u64 = 1;
const LENGTH: u64 = 2;
const SECONDARY: u64 = 5;
const MAX_STREAM_KIND: u64 = 10;
const MAX_ENCODING: u64 = 3;

/// Names that writers use for UTC.
const ZONES_OF_UTC: [&[u8]; 5] = [b"UTC", b"GMT", b"Etc/UTC", b"Etc/GMT", b"Z"];

/// Approximate size of a list element in memory.
const ELEMENT_BYTES: u64 = 8;

/// The densest encoding: runs of bits, 1040 in two bytes.
const MAX_VALUES_PER_BYTE: u128 = 520;

/// Limit for list elements of a stripe, and values of a dictionary.
const MAX_ELEMENTS: u128 = 1 << 29;

/// Every stripe may have this many, regardless of its length.
const MIN_ELEMENTS: u128 = 1 << 26;

/// A longer stripe may have this many per byte.
const MAX_ELEMENTS_PER_BYTE: u128 = 64;

/// Why a stripe cannot be read.
#[derive(Debug)]
pub(super) enum Failure {
    Storage(shardmill_storage::Error),
    Damage(String),
    /// In the column with this type number.
    NegativeFraction(usize),
    /// A decimal that the type of the column cannot hold, and its row if the column is not nested.
    Decimal {
        column: usize,
        row: Option<u64>,
        value: String,
    },
    /// Streams of at least this many bytes.
    TooLarge {
        what: &'static str,
        bytes: u64,
    },
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damage(reason) => Self::Damage(reason),
            Fault::TooLong { bytes } => {
                Self::TooLarge { what: "its streams unpack to at least", bytes: bytes as u64 }
            }
        }
    }
}

impl From<shardmill_storage::Error> for Failure {
    fn from(error: shardmill_storage::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Damage(reason)
    }
}

struct Stream {
    kind: u64,
    column: usize,
    offset: u64,
    len: u64,
}

/// Stands in for the file: returns decompressed streams at the offsets where orc-rust expects
/// compressed ones.
#[derive(Debug)]
pub(super) struct StripeReader {
    footer_offset: u64,
    footer: Bytes,
    streams: HashMap<u64, Bytes>,
    /// By type: which of its values are not null.
    pub(super) present: HashMap<usize, Bytes>,
}

impl ChunkReader for StripeReader {
    type T = Cursor<Bytes>;

    fn len(&self) -> u64 {
        0
    }

    fn get_read(&self, _: u64) -> io::Result<Self::T> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn get_bytes(&self, offset: u64, len: u64) -> io::Result<Bytes> {
        if offset == self.footer_offset {
            return Ok(self.footer.clone());
        }
        // An empty stream begins where the next one does. A stream that was not fetched is an
        // index, which is not decoded.
        if len == 0 {
            Ok(Bytes::new())
        } else {
            Ok(self.streams.get(&offset).cloned().unwrap_or_default())
        }
    }
}

/// Fetches the streams in a stripe of the columns `wanted`, which are type
/// numbers including nested types.
pub(super) fn read_stripe(
    object: &dyn RangeRead,
    tail: &Tail,
    stripe: &Stripe,
    wanted: &HashSet<usize>,
    limit: DecodeLimit,
) -> Result<StripeReader, Failure> {
    let footer_offset = stripe.offset + stripe.index_len + stripe.data_len;
    if stripe.footer_len > MAX_FOOTER_BYTES as u64 {
        return Err(Failure::TooLarge { what: "its footer states", bytes: stripe.footer_len });
    }
    let packed =
        fetch(object, std::slice::from_ref(&(footer_offset..footer_offset + stripe.footer_len)))?
            .pop()
            .unwrap_or_default();
    let footer = tail.compression.unpack(packed, MAX_FOOTER_BYTES)?;
    let StripeFooter { streams, encodings, is_utc } = parse_footer(&footer, stripe, footer_offset)?;
    if encodings.len() < tail.types.len() {
        return Err("the footer of the stripe lacks columns".to_owned().into());
    }
    let is_needed = |stream: &&Stream| {
        stream.kind <= SECONDARY && stream.len > 0 && wanted.contains(&stream.column)
    };
    let needed: Vec<&Stream> = streams.iter().filter(is_needed).collect();
    let ranges: Vec<_> =
        needed.iter().map(|stream| stream.offset..stream.offset + stream.len).collect();
    let packed = fetch(object, &ranges)?;
    let unpacked = unpack(tail.compression, packed, limit)?;
    let by_kind: Streams<'_> = needed
        .iter()
        .zip(&unpacked)
        .map(|(stream, bytes)| ((stream.column, stream.kind), bytes))
        .collect();
    let most =
        (u128::from(stripe.data_len) * MAX_ELEMENTS_PER_BYTE).clamp(MIN_ELEMENTS, MAX_ELEMENTS);
    let most = most.min(u128::from(limit.of_stored(stripe.data_len) / ELEMENT_BYTES));
    judge(&tail.types, &encodings, &by_kind, wanted, most)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let times = rewritten_times(&tail.types, &encodings, &by_kind, (is_utc, most))?;
    check_decimals(tail, stripe, &encodings, &by_kind, most)?;
    let present = needed.iter().zip(&unpacked).filter(|(stream, _)| stream.kind == PRESENT);
    let present = present.map(|(stream, bytes)| (stream.column, bytes.clone())).collect();
    let content = |(stream, bytes): (&&Stream, &Bytes)| {
        times.get(&(stream.column, stream.kind)).unwrap_or(bytes).clone()
    };
    let streams =
        needed.iter().zip(&unpacked).map(|stream| (stream.0.offset, content(stream))).collect();
    Ok(StripeReader { footer_offset, footer, streams, present })
}

fn unpack(
    compression: Compression,
    packed: Vec<Bytes>,
    limit: DecodeLimit,
) -> Result<Vec<Bytes>, Fault> {
    let stored: u64 = packed.iter().map(|bytes| bytes.len() as u64).sum();
    let mut room = usize::try_from(limit.of_stored(stored)).unwrap_or(usize::MAX);
    let mut unpacked = Vec::with_capacity(packed.len());
    for bytes in packed {
        let most = room.min(i32::MAX as usize);
        let bytes = compression.unpack(bytes, most)?;
        room = room.saturating_sub(bytes.len());
        unpacked.push(bytes);
    }
    Ok(unpacked)
}

/// The encoding of a column.
struct Encoding {
    runs: Runs,
    dictionary_size: u64,
}

struct StripeFooter {
    streams: Vec<Stream>,
    encodings: Vec<Encoding>,
    /// Whether times without a zone count from 2015 in UTC, and not in the zone of the writer.
    is_utc: bool,
}

fn parse_footer(footer: &[u8], stripe: &Stripe, end: u64) -> Result<StripeFooter, String> {
    let mut is_utc = true;
    let damaged = |_| "the footer of the stripe is damaged".to_owned();
    let (mut streams, mut encodings, mut offset) = (Vec::new(), Vec::new(), stripe.offset);
    for field in wire::fields(footer).map_err(damaged)? {
        if let (3, Some(zone)) = (field.number, field.value.bytes()) {
            is_utc = ZONES_OF_UTC.contains(&zone);
        }
        let Some(message) = field.value.bytes().filter(|_| field.number <= 2) else { continue };
        let mut values = [0u64; 4];
        for inner in wire::fields(message).map_err(damaged)? {
            let slot = usize::try_from(inner.number).ok().and_then(|number| values.get_mut(number));
            if let (Some(slot), Some(number)) = (slot, inner.value.number()) {
                *slot = number;
            }
        }
        let [_, kind, second, len] = values;
        // A number that overflows in orc-rust would get another meaning there.
        if u32::try_from(second).is_err()
            || kind > if field.number == 2 { MAX_ENCODING } else { MAX_STREAM_KIND }
        {
            return Err("the footer of the stripe names an unknown encoding".to_owned());
        }
        if field.number == 2 {
            encodings.push(Encoding {
                runs: if kind < 2 { Runs::V1 } else { Runs::V2 },
                dictionary_size: second,
            });
            continue;
        }
        streams.push(Stream {
            kind,
            column: usize::try_from(second).unwrap_or(usize::MAX),
            offset,
            len,
        });
        offset = offset
            .checked_add(len)
            .filter(|offset| *offset <= end)
            .ok_or("a stream lies beyond the end of its stripe")?;
    }
    Ok(StripeFooter { streams, encodings, is_utc })
}

/// Checks the numbers for which orc-rust allocates without a check: dictionary sizes, and elements
/// of lists.
fn judge(
    types: &[Type],
    encodings: &[Encoding],
    streams: &Streams<'_>,
    wanted: &HashSet<usize>,
    most: u128,
) -> Result<(), String> {
    let len = |column: usize, kind: u64| {
        streams.get(&(column, kind)).map_or(0, |bytes| bytes.len() as u128)
    };
    for column in wanted.iter().copied() {
        let Some((found, encoding)) = types.get(column).zip(encodings.get(column)) else {
            continue;
        };
        let lengths = streams.get(&(column, LENGTH)).map_or(&[][..], |bytes| bytes.as_ref());
        if u128::from(encoding.dictionary_size)
            > most.min(lengths.len() as u128 * MAX_VALUES_PER_BYTE)
        {
            return Err(format!(
                "a dictionary of {} values in {} bytes",
                encoding.dictionary_size,
                lengths.len()
            ));
        }
        if !found.is_repeated() {
            continue;
        }
        let sum = sum_at_most(lengths, encoding.runs)
            .map_err(|_| "damaged lengths of lists".to_owned())?;
        let bound = found
            .children
            .iter()
            .map(|child| capacity(types, *child, &len))
            .min()
            .unwrap_or_default();
        if sum > bound.min(most) {
            return Err(format!("lists of {sum} elements, of which the file can hold {bound}"));
        }
    }
    Ok(())
}

type Streams<'a> = HashMap<(usize, u64), &'a Bytes>;

/// The streams of times with negative fractions of seconds, rewritten as the same times without
/// them. orc-rust reads fractions as unsigned numbers and would return other times.
fn rewritten_times(
    types: &[Type],
    encodings: &[Encoding],
    streams: &Streams<'_>,
    (is_utc, most): (bool, usize),
) -> Result<HashMap<(usize, u64), Bytes>, Failure> {
    let mut rewritten = HashMap::new();
    for (column, (found, encoding)) in types.iter().zip(encodings).enumerate() {
        let Some(fractions) = streams.get(&(column, SECONDARY)).filter(|_| found.is_timestamp())
        else {
            continue;
        };
        let damaged = |_| "damaged fractions of seconds".to_owned();
        // A fraction takes 33 bits, and a stripe has far fewer rows than their sum would need.
        if sum_at_most(fractions, encoding.runs).map_err(damaged)? < 1 << 63 {
            continue;
        }
        if !is_utc && !found.is_instant() {
            return Err(Failure::NegativeFraction(column));
        }
        let seconds = streams.get(&(column, DATA)).map_or(&[][..], |bytes| bytes.as_ref());
        let (seconds, fractions) =
            without_negative_fractions(seconds, fractions, encoding.runs, most).map_err(damaged)?;
        rewritten.extend([((column, DATA), seconds), ((column, SECONDARY), fractions)]);
    }
    Ok(rewritten)
}

fn check_decimals(
    tail: &Tail,
    stripe: &Stripe,
    encodings: &[Encoding],
    streams: &Streams<'_>,
    most: usize,
) -> Result<(), Failure> {
    for (column, (found, encoding)) in tail.types.iter().zip(encodings).enumerate() {
        let Some((digits, scales)) = found.digits.zip(streams.get(&(column, SECONDARY))) else {
            continue;
        };
        let data = streams.get(&(column, DATA)).map_or(&[][..], |bytes| bytes.as_ref());
        let damaged = |_| "damaged decimals".to_owned();
        let scales = integers(scales, encoding.runs, Sign::Signed, most).map_err(damaged)?;
        let misfit = misfit(data, &scales, digits).map_err(damaged)?;
        let Some((index, value)) = misfit else { continue };
        let is_nested = tail.types.first().is_none_or(|root| !root.children.contains(&column));
        let present = nulls(
            streams.get(&(column, PRESENT)).copied(),
            None,
            usize::try_from(stripe.rows).unwrap_or(usize::MAX),
        )
        .flatten();
        let row = present
            .map_or(Some(index), |present| present.valid_indices().nth(index))
            .filter(|_| !is_nested);
        return Err(Failure::Decimal { column, row: row.map(|row| row as u64), value });
    }
    Ok(())
}

/// An upper bound of the number of values that the streams of a column can hold.
fn capacity(types: &[Type], column: usize, len: &dyn Fn(usize, u64) -> u128) -> u128 {
    let own = match len(column, PRESENT) {
        0 => len(column, DATA).max(len(column, LENGTH)),
        present => present,
    };
    let children = types.get(column).map_or(&[][..], |found| found.children.as_slice());
    let below = children.iter().map(|child| capacity(types, *child, len)).max();
    match (own, below) {
        // A struct without fields and nulls has no streams.
        (0, Some(below)) => below,
        (0, None) if types.get(column).is_some_and(Type::is_struct) => MAX_ELEMENTS,
        (own, _) => own * MAX_VALUES_PER_BYTE,
    }
}
