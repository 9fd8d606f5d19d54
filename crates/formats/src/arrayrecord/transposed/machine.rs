//! The state machine that assembles records, from the last field of the last record to the first
//! field of the first.

use super::super::{Fault, varint};
use super::header::{Action, Header, State};
use super::output::Output;

/// Maximal number of consecutive idle states. Original writers reach distant states through a tree
/// of them with a fan-out of 63.
const IDLE_MAX: u32 = 64;

struct Machine<'a> {
    states: &'a [State],
    /// The rest of each buffer.
    buffers: Vec<&'a [u8]>,
    output: Output,
    /// Distance of each record's start from the end of the output, last record first.
    starts: Vec<usize>,
    /// Open submessages: the distance of each one's end from the end of the output, and its tag.
    open: Vec<(usize, u32)>,
    num_records: usize,
    /// Consecutive steps that neither did anything nor consumed a byte.
    idle: u32,
}

pub(super) fn run(
    header: &Header,
    buffers: Vec<&[u8]>,
    transitions: &[u8],
    num_records: usize,
    decoded_size: usize,
) -> Result<(Vec<u8>, Vec<usize>), Fault> {
    let output = Output::new(decoded_size);
    let mut machine = Machine {
        states: &header.states,
        buffers,
        output,
        starts: Vec::new(),
        open: Vec::new(),
        num_records,
        idle: 0,
    };
    let mut transitions = transitions.iter();
    let mut state = header.first;
    // Remaining steps without a transition byte. Leaving an implicit state does not count, but
    // requires one to be left.
    let mut free = u8::from(state.implicit);
    loop {
        machine.act(state)?;
        if free > 0 {
            state = machine.state(state.next)?;
            free -= u8::from(!state.implicit);
        } else if let Some(&byte) = transitions.next() {
            machine.idle = 0;
            state = machine.state(state.next.saturating_add(u32::from(byte >> 2)))?;
            free = (byte & 3) + u8::from(state.implicit);
        } else {
            return machine.finish();
        }
    }
}

impl<'a> Machine<'a> {
    fn state(&self, index: u32) -> Result<State, Fault> {
        self.states
            .get(index as usize)
            .copied()
            .ok_or(Fault::Malformed("transition to a missing state"))
    }

    fn act(&mut self, state: State) -> Result<(), Fault> {
        self.idle = if state.action == Action::Nothing { self.idle + 1 } else { 0 };
        match state.action {
            Action::Nothing if self.idle > IDLE_MAX => {
                return Err(Fault::Malformed("too many idle states in a row"));
            }
            Action::Nothing => {}
            Action::Opaque => {
                let (len, rest) = self
                    .buffers
                    .last()
                    .and_then(|lens| varint::read(lens))
                    .ok_or(Fault::Malformed("opaque record without a length"))?;
                if let Some(lens) = self.buffers.last_mut() {
                    *lens = rest;
                }
                let record = self.take(state, len)?;
                self.output.put(record)?;
                self.start_record()?;
            }
            Action::MessageStart => self.start_record()?,
            Action::SubmessageStart => {
                let (end, tag) =
                    self.open.pop().ok_or(Fault::Malformed("submessage start without an end"))?;
                self.output.put_number((self.output.filled() - end) as u64)?;
                self.output.put_number(u64::from(tag))?;
            }
            Action::SubmessageEnd => {
                // Each needs a tag and a length.
                if self.open.len() >= self.output.room() / 2 {
                    return Err(Fault::Malformed("more submessages than there is room for"));
                }
                self.open.push((self.output.filled(), state.tag));
            }
            Action::Varint(len) => {
                let number = self.take(state, u64::from(len))?;
                let room = self.output.extend(number.len())?;
                room.copy_from_slice(number);
                if let Some((_last, others)) = room.split_last_mut() {
                    others.iter_mut().for_each(|byte| *byte |= 0x80);
                }
                self.put_tag(state)?;
            }
            Action::Inline(value) => {
                self.output.put(&[value])?;
                self.put_tag(state)?;
            }
            Action::Fixed(len) => {
                let value = self.take(state, u64::from(len))?;
                self.output.put(value)?;
                self.put_tag(state)?;
            }
            Action::Delimited => {
                let buffer = self.buffers.get(state.buffer as usize).copied().unwrap_or_default();
                let (len, rest) = varint::read(buffer)
                    .ok_or(Fault::Malformed("length of a field is not a valid number"))?;
                let value =
                    self.take(state, len.saturating_add((buffer.len() - rest.len()) as u64))?;
                self.output.put(value)?;
                self.put_tag(state)?;
            }
            Action::Tag => self.put_tag(state)?,
        }
        Ok(())
    }

    fn take(&mut self, state: State, len: u64) -> Result<&'a [u8], Fault> {
        let buffer = self
            .buffers
            .get_mut(state.buffer as usize)
            .ok_or(Fault::Malformed("state without a buffer"))?;
        let (part, rest) = super::split_off("field", len, buffer)?;
        *buffer = rest;
        Ok(part)
    }

    fn put_tag(&mut self, state: State) -> Result<(), Fault> {
        self.output.put_number(u64::from(state.tag))
    }

    fn start_record(&mut self) -> Result<(), Fault> {
        if !self.open.is_empty() {
            return Err(Fault::Malformed("record begins inside of a submessage"));
        }
        if self.starts.len() == self.num_records {
            return Err(Fault::Malformed("more records than the chunk's header states"));
        }
        self.starts.push(self.output.filled());
        Ok(())
    }

    fn finish(self) -> Result<(Vec<u8>, Vec<usize>), Fault> {
        let Self { mut starts, output, num_records, .. } = self;
        if starts.len() != num_records {
            return Err(Fault::Mismatch {
                what: "number of records",
                value: starts.len() as u64,
                expected: num_records as u64,
            });
        }
        let bytes = output.finish()?;
        // No submessage is open now: there was no room for one after the start of the first record.
        if starts.pop().unwrap_or(0) != bytes.len() {
            return Err(Fault::Malformed("fields before the first record"));
        }
        // Each of the other records begins where the preceding one ends.
        let mut ends: Vec<usize> =
            starts.into_iter().rev().map(|start| bytes.len() - start).collect();
        if num_records > 0 {
            ends.push(bytes.len());
        }
        Ok((bytes, ends))
    }
}
