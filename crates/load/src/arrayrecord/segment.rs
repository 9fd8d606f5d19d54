//! Records that were decoded together.

use shardmill_formats::arrayrecord::Records;

#[derive(Debug, Default)]
pub struct Segment {
    values: Vec<u8>,
    ends: Vec<usize>,
}

impl Segment {
    pub(super) fn of(records: Records<'_>) -> Self {
        Self { values: records.values().to_vec(), ends: records.ends().to_vec() }
    }

    pub(super) fn push(&mut self, record: &[u8]) {
        self.values.extend_from_slice(record);
        self.ends.push(self.values.len());
    }

    pub(super) fn extend(&mut self, records: Records<'_>) {
        let before = self.values.len();
        self.values.extend_from_slice(records.values());
        self.ends.extend(records.ends().iter().map(|end| before + end));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Of all records.
    pub(super) fn values_len(&self) -> usize {
        self.values.len()
    }

    /// In memory.
    pub(super) fn bytes(&self) -> usize {
        self.values.len() + self.ends.len() * size_of::<usize>()
    }

    #[must_use]
    pub fn get(&self, place: usize) -> Option<&[u8]> {
        let start = place.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.values.get(start..*self.ends.get(place)?)
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let record = self.values.get(start..*end).unwrap_or_default();
            start = *end;
            record
        })
    }
}
