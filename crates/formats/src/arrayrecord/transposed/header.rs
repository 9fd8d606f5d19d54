//! The header: the lengths of the parts, and the states of the machine.

use super::super::{Fault, varint};

pub(super) struct Header {
    pub bucket_lens: Vec<u64>,
    pub buffer_lens: Vec<u64>,
    pub states: Vec<State>,
    /// The initial state.
    pub first: State,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub action: Action,
    /// `next` follows without a transition byte.
    pub implicit: bool,
    /// As encoded in records.
    pub tag: u32,
    /// Index of an existing state.
    pub next: u32,
    /// Index of an existing buffer, if the action needs one.
    pub buffer: u32,
}

/// What a state prepends to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// A record stored without splitting it.
    Opaque,
    /// Starts the preceding record.
    MessageStart,
    /// Length and tag of the innermost open submessage.
    SubmessageStart,
    /// Opens a submessage.
    SubmessageEnd,
    /// A tag and a varint of this many bytes.
    Varint(u8),
    /// A tag and this one-byte varint.
    Inline(u8),
    /// A tag and this many bytes.
    Fixed(u8),
    /// A tag, a length, and that many bytes.
    Delimited,
    /// The tag of a group's start or end.
    Tag,
}

const NO_OPERATION: u32 = 0;
const OPAQUE: u32 = 1;
const SUBMESSAGE_START: u32 = 2;
const MESSAGE_START: u32 = 3;
/// Lower tags have special meanings, because there is no field 0.
const FIRST_TAG: u32 = 8;

const WIRE_TYPE: u32 = 7;
const VARINT: u32 = 0;
const SUBMESSAGE_END: u32 = 6;
/// Converts the wire type of a submessage's end to that of its tag in records.
const TO_DELIMITED: u32 = 4;
/// Lower subtypes are lengths.
const INLINE: u8 = 10;

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut numbers = Numbers(bytes);
        let num_buckets = numbers.next()?;
        let num_buffers = numbers.next()?;
        let bucket_lens = numbers.list(num_buckets)?;
        let buffer_lens = numbers.list(num_buffers)?;
        let num_states = numbers.next()?;
        let tags = numbers.list(num_states)?;
        let nexts = numbers.list(num_states)?;
        let num_states =
            u32::try_from(num_states).map_err(|_above| Fault::Malformed("too many states"))?;
        let mut states = Vec::with_capacity(tags.len());
        for (tag, next) in tags.into_iter().zip(nexts) {
            states.push(State::parse(tag, next, num_states, &mut numbers)?);
        }
        for state in &mut states {
            if state.action.has_buffer() {
                state.buffer = numbers.index(buffer_lens.len(), "state without a buffer")?;
            }
        }
        let first = numbers.index(states.len(), "no first state")?;
        let first = *states.get(first as usize).ok_or(Fault::Malformed("no first state"))?;
        if !numbers.0.is_empty() {
            return Err(Fault::Malformed("bytes after the header of a transposed chunk"));
        }
        refuse_cycles(&states)?;
        Ok(Self { bucket_lens, buffer_lens, states, first })
    }
}

impl State {
    fn parse(
        tag: u64,
        next: u64,
        num_states: u32,
        numbers: &mut Numbers<'_>,
    ) -> Result<Self, Fault> {
        let unknown = Fault::Malformed("unknown state of a transposed chunk");
        let Ok(mut tag) = u32::try_from(tag) else { return Err(unknown) };
        let action = match (tag, tag & WIRE_TYPE) {
            (NO_OPERATION, _) => Action::Nothing,
            (OPAQUE, _) => Action::Opaque,
            (SUBMESSAGE_START, _) => Action::SubmessageStart,
            (MESSAGE_START, _) => Action::MessageStart,
            (..FIRST_TAG, _) => return Err(unknown),
            (_, VARINT) => match numbers.byte()? {
                subtype @ ..INLINE => Action::Varint(subtype + 1),
                subtype if subtype - INLINE < 0x80 => Action::Inline(subtype - INLINE),
                _beyond => return Err(unknown),
            },
            (_, 1) => Action::Fixed(8),
            (_, 2) => Action::Delimited,
            (_, 3 | 4) => Action::Tag,
            (_, 5) => Action::Fixed(4),
            (_, SUBMESSAGE_END) => {
                tag -= TO_DELIMITED;
                Action::SubmessageEnd
            }
            _no_wire_type => return Err(unknown),
        };
        let states = u64::from(num_states);
        let implicit = next >= states;
        let next = if implicit { next - states } else { next };
        let next = u32::try_from(next)
            .ok()
            .filter(|next| *next < num_states)
            .ok_or(Fault::Malformed("state leads to a missing state"))?;
        Ok(Self { action, implicit, tag, next, buffer: 0 })
    }
}

impl Action {
    fn has_buffer(self) -> bool {
        matches!(self, Self::Opaque | Self::Varint(_) | Self::Fixed(_) | Self::Delimited)
    }
}

/// Rejects cycles that consume no byte, because the machine would not stop.
fn refuse_cycles(states: &[State]) -> Result<(), Fault> {
    // The walk that first visited each state; 0 for none.
    let mut met = vec![0u32; states.len()];
    for (walk, mut state) in (1..).zip(states) {
        while state.implicit {
            let next = state.next as usize;
            let (Some(mark), Some(behind)) = (met.get_mut(next), states.get(next)) else { break };
            if *mark == walk {
                return Err(Fault::Malformed("states form a cycle"));
            }
            if *mark != 0 {
                break;
            }
            *mark = walk;
            state = behind;
        }
    }
    Ok(())
}

/// The rest of a run of varints.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, Fault> {
        let (value, rest) = varint::read(self.0)
            .ok_or(Fault::Malformed("header of a transposed chunk ends early"))?;
        self.0 = rest;
        Ok(value)
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self
            .0
            .split_first()
            .ok_or(Fault::Malformed("header of a transposed chunk ends early"))?;
        self.0 = rest;
        Ok(*byte)
    }

    /// Each number has at least one byte, so a list longer than the rest is rejected.
    fn list(&mut self, len: u64) -> Result<Vec<u64>, Fault> {
        let truncated = Fault::Truncated {
            what: "list in the header of a transposed chunk",
            needed: len,
            found: self.0.len() as u64,
        };
        let len = usize::try_from(len).ok().filter(|len| *len <= self.0.len()).ok_or(truncated)?;
        let mut list = Vec::with_capacity(len);
        for _ in 0..len {
            list.push(self.next()?);
        }
        Ok(list)
    }

    fn index(&mut self, len: usize, fault: &'static str) -> Result<u32, Fault> {
        let index = self.next()?;
        u32::try_from(index)
            .ok()
            .filter(|index| (*index as usize) < len)
            .ok_or(Fault::Malformed(fault))
    }
}
