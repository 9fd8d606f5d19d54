//! Lanes of arbitrary lengths, used by [`super::Lanes`] if the lengths do not follow from a count.
//!
//! Between two adjacent lane lengths, the same lanes take part in every turn, so a position of the
//! sequence is found by a search among those lengths and one division. The invariant: the sequence
//! is defined by taking from each lane in turn.

use std::ops::Range;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnevenLanes {
    /// First position of each lane, followed by the end of the last one.
    starts: Vec<u64>,
    /// Ascending by turn; the first one is that of turn 0.
    stages: Vec<Stage>,
}

/// Turns with the same participating lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stage {
    turn: u64,
    /// Positions of the sequence before that turn.
    place: u64,
    lanes: u64,
}

impl UnevenLanes {
    pub(super) fn new(lengths: &[u64]) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        starts.extend(lengths.iter().map(|length| {
            end += length;
            end
        }));
        let mut ends: Vec<u64> = lengths.iter().copied().filter(|length| *length > 0).collect();
        ends.sort_unstable();
        let mut stages = vec![Stage { turn: 0, place: 0, lanes: ends.len() as u64 }];
        for (turn, gone) in ends.iter().zip(1..) {
            let last = stages.last().copied().unwrap_or(Stage { turn: 0, place: 0, lanes: 0 });
            let stage = Stage {
                turn: *turn,
                place: last.place + (turn - last.turn) * last.lanes,
                lanes: ends.len() as u64 - gone,
            };
            match stages.last_mut().filter(|last| last.turn == *turn) {
                Some(same) => *same = stage,
                None => stages.push(stage),
            }
        }
        Self { starts, stages }
    }

    pub(super) fn positions(&self, lane: u64) -> Range<u64> {
        let bound = |lane: u64| {
            usize::try_from(lane)
                .ok()
                .and_then(|lane| self.starts.get(lane))
                .or(self.starts.last())
                .copied()
                .unwrap_or_default()
        };
        bound(lane)..bound(lane.saturating_add(1))
    }

    pub(super) fn lane_of(&self, position: u64) -> u64 {
        let lanes = self.starts.len().saturating_sub(1);
        (self.starts.partition_point(|start| *start <= position).saturating_sub(1))
            .min(lanes.saturating_sub(1)) as u64
    }

    /// The position at which each lane continues after `consumed` positions
    /// of the sequence were delivered.
    pub(super) fn cursors(&self, consumed: u64) -> impl Iterator<Item = u64> {
        let stage = self
            .stages
            .partition_point(|stage| stage.place <= consumed)
            .checked_sub(1)
            .and_then(|stage| self.stages.get(stage));
        let stage = stage.copied().unwrap_or(Stage { turn: 0, place: 0, lanes: 0 });
        let passed = consumed.saturating_sub(stage.place);
        let turn = stage.turn + passed.checked_div(stage.lanes).unwrap_or_default();
        // Lanes that have already contributed to the current turn.
        let mut given = passed.checked_rem(stage.lanes).unwrap_or_default();
        self.starts.windows(2).map(move |bounds| {
            let (start, end) = if let [start, end] = bounds { (*start, *end) } else { (0, 0) };
            let length = end - start;
            let takes_part = length > turn;
            let has_given = takes_part && given > 0;
            given -= u64::from(has_given);
            start + length.min(turn) + u64::from(has_given)
        })
    }
}
