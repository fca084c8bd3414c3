//! When the octets of a stream came, for programs that ask (`SO_TIMESTAMP` and its like): each
//! receive is told the time of the last segment that it has octets of (`tcp_update_recv_tstamps`).

use std::collections::VecDeque;

use ::tcp::SeqNumber;

/// Segments whose times are kept; of a queue of more the oldest have none.
const MOST: usize = 16_384;

/// A segment that has come and is not read to its end.
#[derive(Clone, Copy, Debug)]
struct Came {
    begin: SeqNumber,
    end: SeqNumber,
    nsec: u64,
}

/// Those of one connection, in the order of the stream.
#[derive(Debug, Default)]
pub(super) struct Arrivals(VecDeque<Came>);

impl Arrivals {
    /// Octets have come. `read`: the next that is to be read.
    pub(super) fn note(
        &mut self,
        (begin, end): (SeqNumber, SeqNumber),
        nsec: u64,
        read: SeqNumber,
    ) {
        while self.0.front().is_some_and(|first| first.end <= read) {
            self.0.pop_front();
        }
        // What has come already keeps its time.
        let is_known = |it: &Came| it.begin <= begin && end <= it.end;
        if end <= read || self.0.iter().rev().any(is_known) {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        let behind = self.0.iter().rev().take_while(|it| it.end > end).count();
        let place = self.0.len() - behind;
        self.0.insert(place, Came { begin, end, nsec });
    }

    /// When the octet came that is the last before `position`, if that is known.
    pub(super) fn before(&self, position: SeqNumber) -> Option<u64> {
        let came = self.0.iter().find(|it| it.end >= position)?;
        (came.begin < position).then_some(came.nsec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_is_told_of_the_last_segment_that_it_has_octets_of() {
        let at = SeqNumber;
        let mut arrivals = Arrivals::default();
        let read = at(u32::MAX - 9);
        arrivals.note((read, at(0)), 1, read);
        // Behind a gap, then what fills it, then both again.
        arrivals.note((at(20), at(30)), 2, read);
        arrivals.note((at(0), at(20)), 3, read);
        arrivals.note((at(20), at(30)), 4, read);
        arrivals.note((read, at(20)), 5, read);
        for (position, expected) in [
            (read + 1, Some(1)),
            (at(0), Some(1)),
            (at(1), Some(3)),
            (at(20), Some(3)),
            (at(25), Some(2)),
            (at(30), Some(2)),
            (at(31), None),
        ] {
            assert_eq!(arrivals.before(position), expected, "{position:?}");
        }
        arrivals.note((at(30), at(40)), 6, at(30));
        assert_eq!(arrivals.0.len(), 1);
        assert_eq!(arrivals.before(at(30)), None);
    }
}
