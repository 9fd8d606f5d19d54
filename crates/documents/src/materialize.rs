//! Collects the image bytes of a chunk, and applies the policy for images that cannot be read.

use crate::ledger::Ledger;
use crate::locate::note_read_error;
use crate::payload::Payload;
use crate::settle::{ORPHAN, settle};
use crate::source_ref::SourceRef;
use crate::{Chunk, Error, Result};
use arrow_array::{ArrayRef, LargeBinaryArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// How image rows with an error instead of bytes are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMaterializeError {
    Raise,
    Warn,
    DropRow,
    DropSample,
}

/// The concatenated image bytes of a chunk, in row order.
#[derive(Debug, Default)]
pub struct Bodies {
    bytes: Vec<u8>,
    offsets: Vec<i64>,
    is_present: Vec<bool>,
}

impl Bodies {
    /// Reads located images and copies those in memory; an image that cannot be read becomes an
    /// error of its row. Reuses the memory of `scratch`.
    ///
    /// # Errors
    /// [`Error::Storage`] when the store or the disk fails, which is not the fault of a row.
    pub fn read(chunk: &mut Chunk, mut scratch: Vec<u8>) -> Result<Self> {
        scratch.clear();
        let mut bodies = Self {
            bytes: scratch,
            offsets: vec![0],
            is_present: Vec::with_capacity(chunk.rows.len()),
        };
        for row in &mut chunk.rows {
            let is_present = match &row.payload {
                Payload::Absent => false,
                Payload::Memory(bytes) => {
                    bodies.bytes.extend_from_slice(bytes);
                    true
                }
                Payload::Located(located) => match located.append_to(&mut bodies.bytes) {
                    Ok(()) => true,
                    Err(error) => {
                        note_read_error(row, error)?;
                        row.payload = Payload::Absent;
                        false
                    }
                },
            };
            // A row with an error always has null bytes.
            let is_present = is_present && row.error.is_none();
            bodies.is_present.push(is_present);
            let end = if is_present { bodies.bytes.len() } else { bodies.end() };
            bodies.bytes.truncate(end);
            bodies.offsets.push(i64::try_from(end).unwrap_or(i64::MAX));
        }
        Ok(bodies)
    }

    /// As [`Bodies::read`], with null bytes for rows that only have a copy plan.
    ///
    /// # Errors
    /// As [`Bodies::read`].
    pub fn in_memory(chunk: &mut Chunk, scratch: Vec<u8>) -> Result<Self> {
        for row in &mut chunk.rows {
            if matches!(row.payload, Payload::Located(_)) {
                row.payload = Payload::Absent;
            }
        }
        Self::read(chunk, scratch)
    }

    /// Null bytes for all rows, regardless of their content.
    #[must_use]
    pub fn absent(rows: usize) -> Self {
        Self { bytes: Vec::new(), offsets: vec![0; rows + 1], is_present: vec![false; rows] }
    }

    fn end(&self) -> usize {
        self.offsets.last().map_or(0, |end| usize::try_from(*end).unwrap_or_default())
    }

    #[must_use]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if !*self.is_present.get(row)? {
            return None;
        }
        let bound = |index: usize| usize::try_from(*self.offsets.get(index)?).ok();
        self.bytes.get(bound(row)?..bound(row + 1)?)
    }

    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// As an Arrow column, without a copy.
    #[must_use]
    pub fn into_column(self) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        Arc::new(LargeBinaryArray::new(
            offsets,
            Buffer::from_vec(self.bytes),
            Some(NullBuffer::from(self.is_present)),
        ))
    }
}

/// Recovers the memory of a column created by [`Bodies::into_column`], if there is no other
/// reference to it.
#[must_use]
pub fn reclaim(column: ArrayRef) -> Vec<u8> {
    let data = column.to_data();
    drop(column);
    let values = data.buffers().get(1).cloned();
    drop(data);
    values.and_then(|buffer| buffer.into_vec::<u8>().ok()).unwrap_or_default()
}

/// The image bytes of a chunk, after the policy has been applied to rows with errors.
///
/// # Errors
/// As [`apply_policy`] and [`Bodies::read`].
pub fn materialize(
    chunk: &mut Chunk,
    policy: OnMaterializeError,
    mut scratch: Vec<u8>,
    ledger: &mut Ledger,
) -> Result<Bodies> {
    loop {
        apply_policy(chunk, policy, ledger)?;
        let known = errors_of(chunk);
        let bodies = Bodies::read(chunk, scratch)?;
        // Reading may reveal faults that headers did not show; the policy then applies to these
        // rows as well.
        if errors_of(chunk) == known {
            return Ok(bodies);
        }
        scratch = bodies.into_bytes();
    }
}

fn errors_of(chunk: &Chunk) -> usize {
    chunk.rows.iter().filter(|row| row.error.is_some()).count()
}

/// The first error of a chunk, with the place of its row.
fn first_error(chunk: &Chunk) -> String {
    let Some((row, error)) = chunk.rows.iter().find_map(|row| Some((row, row.error.as_deref()?)))
    else {
        return String::new();
    };
    let place = format!("row {} of sample `{}`", row.position, chunk.id_of(row));
    let source = SourceRef::parse(row.source_ref.as_deref()).unwrap_or_default();
    match (source.member, source.path) {
        (Some(member), Some(path)) => {
            format!("{error}, in {place} (member `{member}` of `{path}`)")
        }
        (Some(name), None) | (None, Some(name)) => format!("{error}, in {place} (`{name}`)"),
        (None, None) => format!("{error}, in {place}"),
    }
}

/// Applies the policy to rows with an error.
///
/// # Errors
/// [`Error::Materialize`] under [`OnMaterializeError::Raise`].
pub fn apply_policy(
    chunk: &mut Chunk,
    policy: OnMaterializeError,
    ledger: &mut Ledger,
) -> Result<()> {
    let count = errors_of(chunk);
    if count == 0 {
        return Ok(());
    }
    match policy {
        OnMaterializeError::Raise => {
            Err(Error::Materialize { count: count as u64, first: first_error(chunk) })
        }
        // The sink counts the errors of the rows that it writes.
        OnMaterializeError::Warn => Ok(()),
        OnMaterializeError::DropRow => {
            ledger.note_errors(chunk);
            let affected: HashSet<usize> = chunk
                .rows
                .iter()
                .filter(|row| row.error.is_some())
                .map(|row| row.document)
                .collect();
            let keep: Vec<bool> = chunk.rows.iter().map(|row| row.error.is_none()).collect();
            let orphans = settle(chunk, &keep, Some(&affected));
            ledger.drop_rows("materialize_error", count as u64);
            ledger.drop_rows(ORPHAN, orphans);
            Ok(())
        }
        OnMaterializeError::DropSample => {
            ledger.note_errors(chunk);
            let affected: HashSet<usize> = chunk
                .rows
                .iter()
                .filter(|row| row.error.is_some())
                .map(|row| row.document)
                .collect();
            let keep: Vec<bool> =
                chunk.rows.iter().map(|row| !affected.contains(&row.document)).collect();
            ledger.drop_rows(
                "sample with a materialize_error",
                keep.iter().filter(|keep| !**keep).count() as u64,
            );
            chunk.retain(&keep);
            Ok(())
        }
    }
}
