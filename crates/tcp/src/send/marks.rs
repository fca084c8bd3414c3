//! Places in the stream that matter to few connections: the end of urgent data, and the ends of
//! records.

use std::collections::VecDeque;

use crate::SeqNumber;

#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// `SND.UP`: behind the last urgent octet.
    urgent_end: Option<SeqNumber>,
    /// Behind records (`MSG_EOR`), in order: no segment has octets of two.
    record_ends: VecDeque<SeqNumber>,
}

impl Marks {
    pub(crate) fn urgent_end(&self) -> Option<SeqNumber> {
        self.urgent_end
    }

    pub(crate) fn set_urgent_end(&mut self, end: SeqNumber) {
        self.urgent_end = Some(end);
    }

    pub(crate) fn end_record(&mut self, end: SeqNumber) {
        if self.record_ends.back() != Some(&end) {
            self.record_ends.push_back(end);
        }
    }

    /// The end of the record that the octet at `seq` is in, if that record has one.
    pub(crate) fn record_end(&self, seq: SeqNumber) -> Option<SeqNumber> {
        let index = self.record_ends.partition_point(|end| *end <= seq);
        self.record_ends.get(index).copied()
    }

    /// Forgets what is before `ack`; whether nothing is left.
    pub(crate) fn on_ack(&mut self, ack: SeqNumber) -> bool {
        self.urgent_end = self.urgent_end.filter(|end| *end > ack);
        let gone = self.record_ends.partition_point(|end| *end <= ack);
        self.record_ends.drain(..gone);
        self.urgent_end.is_none() && self.record_ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_forgotten_with_what_they_mark() {
        let mut marks = Marks::default();
        let at = |octet: u32| SeqNumber(u32::MAX - 5) + octet;
        for end in [10, 10, 20] {
            marks.end_record(at(end));
        }
        marks.set_urgent_end(at(15));
        assert_eq!(marks.record_end(at(0)), Some(at(10)));
        assert_eq!(marks.record_end(at(10)), Some(at(20)));
        assert_eq!(marks.record_end(at(20)), None);
        assert!(!marks.on_ack(at(10)));
        assert_eq!(marks.record_end(at(0)), Some(at(20)));
        assert_eq!(marks.urgent_end(), Some(at(15)));
        assert!(!marks.on_ack(at(15)));
        assert_eq!(marks.urgent_end(), None);
        assert!(marks.on_ack(at(20)));
    }
}
