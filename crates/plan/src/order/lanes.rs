//! Maps plan order to the global sequence: equal runs, one row of each in turn.
//!
//! The rows in plan order are divided into lanes whose lengths differ by at most one, longer ones
//! first. The global sequence takes one row from each lane in turn; exhausted lanes drop out. So
//! position p of the sequence is row p / lanes of lane p % lanes, and a rank that takes a
//! contiguous slice of a batch sorted by lane needs few lanes. If packs are dealt out instead of
//! rows, lanes have arbitrary lengths, or they are a part of a longer sequence, which may start
//! with any lane.

use super::uneven::UnevenLanes;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lanes {
    rows: u64,
    lanes: u64,
    /// The lane of the first row of the sequence.
    first: u64,
    /// `None` if lengths differ by at most one.
    uneven: Option<Arc<UnevenLanes>>,
}

impl Lanes {
    /// Zero `lanes` count as one.
    #[must_use]
    pub fn new(rows: u64, lanes: u64) -> Self {
        Self { rows, lanes: lanes.max(1), first: 0, uneven: None }
    }

    /// Of the `rows` places from `start` on of a sequence in which no lane ends.
    #[must_use]
    pub fn part(start: u64, rows: u64, lanes: u64) -> Self {
        Self { first: start % lanes.max(1), ..Self::new(rows, lanes) }
    }

    /// Lanes of arbitrary lengths; their positions are numbered lane after lane.
    #[must_use]
    pub fn of_lengths(lengths: &[u64]) -> Self {
        let lengths = if lengths.is_empty() { &[0] } else { lengths };
        Self {
            rows: lengths.iter().sum(),
            lanes: lengths.len() as u64,
            first: 0,
            uneven: Some(Arc::new(UnevenLanes::new(lengths))),
        }
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.rows
    }

    #[must_use]
    pub fn num_lanes(&self) -> u64 {
        self.lanes
    }

    /// The plan positions of a lane.
    #[must_use]
    pub fn positions(&self, lane: u64) -> Range<u64> {
        if let Some(uneven) = &self.uneven {
            return uneven.positions(lane);
        }
        let start = self.start_of(lane);
        start
            ..start
                + self.rows / self.lanes
                + u64::from(self.turn_of(lane) < self.rows % self.lanes)
    }

    /// How many lanes come before a lane in each turn.
    fn turn_of(&self, lane: u64) -> u64 {
        if lane >= self.first { lane - self.first } else { lane + (self.lanes - self.first) }
    }

    fn start_of(&self, lane: u64) -> u64 {
        let (each, longer) = (self.rows / self.lanes, self.rows % self.lanes);
        // Longer lanes follow the first one, and continue with lane 0 after the last.
        let wrapped = longer.saturating_sub(self.lanes - self.first).min(self.first);
        lane * each + lane.min(wrapped) + lane.saturating_sub(self.first).min(longer)
    }

    /// The lane that holds a plan position.
    #[must_use]
    pub fn lane_of(&self, position: u64) -> u64 {
        if let Some(uneven) = &self.uneven {
            return uneven.lane_of(position);
        }
        if self.first > 0 {
            let (mut low, mut high) = (0, self.lanes - 1);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if self.start_of(middle) <= position { low = middle } else { high = middle - 1 }
            }
            return low;
        }
        let (each, longer) = (self.rows / self.lanes, self.rows % self.lanes);
        let in_longer = longer * (each + 1);
        if position < in_longer {
            position / (each + 1)
        } else {
            longer + (position - in_longer).checked_div(each).unwrap_or(0)
        }
    }

    /// The plan position at which a lane continues after `consumed` rows
    /// of the sequence were delivered.
    #[must_use]
    pub fn cursor(&self, lane: u64, consumed: u64) -> u64 {
        if let Some(uneven) = &self.uneven {
            let cursor = usize::try_from(lane)
                .ok()
                .and_then(|lane| uneven.cursors(consumed.min(self.rows)).nth(lane));
            return cursor.unwrap_or(self.rows);
        }
        self.positions(lane).start
            + consumed.min(self.rows).saturating_sub(self.turn_of(lane)).div_ceil(self.lanes)
    }

    /// The positions `sequence` of the global sequence, sorted by lane: a run of plan positions for
    /// each of their lanes.
    #[must_use]
    pub fn runs(&self, sequence: Range<u64>) -> Vec<Range<u64>> {
        let sequence = sequence.start.min(self.rows)..sequence.end.min(self.rows);
        if sequence.is_empty() {
            return Vec::new();
        }
        if let Some(uneven) = &self.uneven {
            let runs = uneven
                .cursors(sequence.start)
                .zip(uneven.cursors(sequence.end))
                .map(|(start, end)| start..end);
            return runs.filter(|run| !run.is_empty()).collect();
        }
        let meets = (sequence.end - sequence.start).min(self.lanes);
        let first = (sequence.start % self.lanes + self.first) % self.lanes;
        let mut lanes: Vec<u64> = (first..first + meets).map(|lane| lane % self.lanes).collect();
        lanes.sort_unstable();
        // The turns of a lane inside of the range: those with
        // start <= turn * lanes + turn_of(lane) < end.
        let turns =
            |bound: u64, lane: u64| bound.saturating_sub(self.turn_of(lane)).div_ceil(self.lanes);
        let run = |lane: u64| {
            let start = self.positions(lane).start;
            start + turns(sequence.start, lane)..start + turns(sequence.end, lane)
        };
        lanes.into_iter().map(run).filter(|run| !run.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, row by row.
    fn by_turns(rows: u64, lanes: u64) -> Vec<(u64, u64)> {
        turns_of(&Lanes::new(rows, lanes))
    }

    fn turns_of(plan: &Lanes) -> Vec<(u64, u64)> {
        let mut queues: Vec<Vec<u64>> =
            (0..plan.num_lanes()).map(|lane| plan.positions(lane).rev().collect()).collect();
        let mut sequence = Vec::new();
        while sequence.len() < usize::try_from(plan.num_rows()).unwrap() {
            for (lane, queue) in queues.iter_mut().enumerate() {
                sequence.extend(queue.pop().map(|position| (lane as u64, position)));
            }
        }
        sequence
    }

    proptest! {
        #[test]
        fn part_of_a_sequence_has_its_places(
            start in 0u64..100,
            rows in 0u64..80,
            lanes in 1u64..9,
            from in 0u64..80,
            len in 0u64..60,
        ) {
            let part = Lanes::part(start, rows, lanes);
            let places: Vec<(u64, u64)> =
                (start..start + rows).map(|place| (place % lanes, place / lanes)).collect();
            let mut numbered = places.clone();
            numbered.sort_unstable();
            for (number, (lane, _)) in (0..).zip(&numbered) {
                prop_assert_eq!(part.lane_of(number), *lane);
                prop_assert!(part.positions(*lane).contains(&number));
            }
            let (from, to) = (from.min(rows), (from + len).min(rows));
            let (from_index, to_index) =
                (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
            let mut expected = places[from_index..to_index].to_vec();
            expected.sort_unstable();
            let found: Vec<(u64, u64)> = part
                .runs(from..to)
                .into_iter()
                .flatten()
                .map(|number| numbered[usize::try_from(number).unwrap()])
                .collect();
            prop_assert_eq!(found, expected);
            for lane in 0..lanes {
                let consumed =
                    places[..from_index].iter().filter(|(of, _)| *of == lane).count() as u64;
                prop_assert_eq!(part.cursor(lane, from), part.positions(lane).start + consumed);
            }
        }

        #[test]
        fn runs_equal_the_definition(
            rows in 0u64..200,
            lanes in 1u64..12,
            start in 0u64..210,
            len in 0u64..60,
        ) {
            let sequence = by_turns(rows, lanes);
            let end = (start + len).min(rows);
            let mut expected: Vec<(u64, u64)> = sequence
                .get(
                    usize::try_from(start.min(rows)).unwrap()
                        ..usize::try_from(end.max(start.min(rows))).unwrap(),
                )
                .unwrap()
                .to_vec();
            expected.sort_unstable();
            let runs = Lanes::new(rows, lanes).runs(start..start + len);
            let positions: Vec<u64> = runs.into_iter().flatten().collect();
            prop_assert_eq!(
                positions,
                expected.into_iter().map(|(_, position)| position).collect::<Vec<_>>()
            );
        }

        #[test]
        fn lane_and_cursor_follow_the_definition(
            rows in 1u64..200,
            lanes in 1u64..12,
            consumed in 0u64..210,
        ) {
            let plan = Lanes::new(rows, lanes);
            for lane in 0..lanes {
                prop_assert!(plan.positions(lane).all(|position| plan.lane_of(position) == lane));
                let delivered = by_turns(rows, lanes)
                    .into_iter()
                    .take(usize::try_from(consumed).unwrap())
                    .filter(|(own, _)| *own == lane)
                    .count();
                prop_assert_eq!(
                    plan.cursor(lane, consumed),
                    plan.positions(lane).start + delivered as u64
                );
            }
        }

        #[test]
        fn lanes_cover_the_rows_and_differ_by_at_most_one(rows in 0u64..500, lanes in 1u64..20) {
            let plan = Lanes::new(rows, lanes);
            let lengths: Vec<u64> = (0..lanes)
                .map(|lane| plan.positions(lane).end - plan.positions(lane).start)
                .collect();
            prop_assert_eq!(lengths.iter().sum::<u64>(), rows);
            prop_assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
        }
    }

    proptest! {
        #[test]
        fn lanes_of_any_lengths_follow_the_definition(
            lengths in prop::collection::vec(0u64..12, 1..7),
            start in 0u64..70,
            len in 0u64..30,
        ) {
            let plan = Lanes::of_lengths(&lengths);
            let sequence = turns_of(&plan);
            prop_assert_eq!(sequence.len() as u64, plan.num_rows());
            let taken = |bound: u64| sequence.iter().take(usize::try_from(bound).unwrap());
            let mut expected: Vec<(u64, u64)> =
                taken(start + len).skip(usize::try_from(start).unwrap()).copied().collect();
            expected.sort_unstable();
            let positions: Vec<u64> = plan.runs(start..start + len).into_iter().flatten().collect();
            prop_assert_eq!(
                positions,
                expected.into_iter().map(|(_, position)| position).collect::<Vec<_>>()
            );
            for lane in 0..plan.num_lanes() {
                prop_assert!(plan.positions(lane).all(|position| plan.lane_of(position) == lane));
                let delivered = taken(start).filter(|(own, _)| *own == lane).count() as u64;
                prop_assert_eq!(plan.cursor(lane, start), plan.positions(lane).start + delivered);
            }
        }

        #[test]
        fn lanes_of_given_equal_lengths_are_those_of_a_count(
            rows in 0u64..100,
            lanes in 1u64..8,
            start in 0u64..100,
            len in 0u64..40,
        ) {
            let counted = Lanes::new(rows, lanes);
            let lengths: Vec<u64> = (0..lanes)
                .map(|lane| counted.positions(lane).end - counted.positions(lane).start)
                .collect();
            let given = Lanes::of_lengths(&lengths);
            prop_assert_eq!(given.runs(start..start + len), counted.runs(start..start + len));
            prop_assert!(
                (0..lanes).all(|lane| given.cursor(lane, start) == counted.cursor(lane, start))
            );
        }
    }

    #[test]
    fn one_lane_is_plain_order() {
        assert_eq!(Lanes::new(10, 1).runs(3..6), std::slice::from_ref(&(3..6)));
    }
}
