use core::time::Duration;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const LEN: u32 = 100;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// `count` segments of [`LEN`] octets from `first` on, sent a millisecond apart.
fn board_of(first: SeqNumber, count: u32) -> Scoreboard {
    let mut board = Scoreboard::default();
    for index in 0..count {
        board.push(first + index * LEN, LEN, at(u64::from(index)));
    }
    board
}

fn ends(told: &mut Vec<SeqNumber>) -> impl FnMut(&SentSegment) {
    |segment| told.push(segment.end())
}

impl Scoreboard {
    /// What must hold between operations.
    fn check(&self) {
        let mut octets = Counts::default();
        let mut counts = Counts::default();
        let mut to_retransmit = 0;
        let mut end = None;
        for (index, segment) in self.segments.iter().enumerate() {
            assert!(segment.len > 0);
            assert!(end.is_none_or(|end| end == segment.seq), "a gap");
            end = Some(segment.end());
            assert!(!(segment.has(SACKED) && segment.has(LOST | RETRANSMITTED)));
            assert!(!segment.has(RETRANSMITTED) || segment.has(EVER_RETRANSMITTED));
            octets.add(segment.marks, segment.len);
            counts.add(segment.marks, 1);
            if segment.waits_for_retransmission() {
                to_retransmit += 1;
                assert!(index >= self.index(self.retransmit_hint).unwrap());
            }
            if !segment.has(SACKED | LOST | EVER_RETRANSMITTED) {
                assert!(index >= self.index(self.undecided).unwrap());
            }
            if segment.waits_for_decision_again() {
                let queued = self
                    .retransmissions
                    .iter()
                    .flat_map(|queue| queue.iter())
                    .any(|sent| {
                        self.index(sent.ordinal) == Some(index) && sent.sent_at == segment.sent_at
                    });
                assert!(queued, "no decision would be made");
            }
            if segment.has(SACKED) {
                let skip = self.index(segment.skip).unwrap();
                assert!(skip > index);
                assert!(
                    self.segments
                        .range(index..skip)
                        .all(|other| other.has(SACKED))
                );
            }
        }
        assert_eq!(self.octets, octets);
        assert_eq!(self.counts, counts);
        assert_eq!(self.to_retransmit, to_retransmit);
        let times = self
            .retransmissions
            .iter()
            .flat_map(|queue| queue.iter())
            .map(|sent| sent.sent_at);
        assert!(times.is_sorted());
        let most = void_after(self.segments.len());
        assert!(
            self.retransmissions
                .as_ref()
                .is_none_or(|queue| queue.len() <= most)
        );
    }
}

#[test]
fn cumulative_acknowledgements_take_away_whole_segments_and_cut_one() {
    let first = SeqNumber(u32::MAX - 149);
    let mut board = board_of(first, 4);
    let mut told = Vec::new();
    board.acknowledge(first + 250, ends(&mut told));
    assert_eq!(told, [first + 100, first + 200]);
    assert_eq!(board.octets().outstanding, 150);
    assert_eq!(board.segments().outstanding, 2);
    assert_eq!(board.first().unwrap().seq, first + 250);
    assert_eq!(board.first().unwrap().len, 50);
    board.acknowledge(first + 250, ends(&mut told));
    assert_eq!(told.len(), 2);
    board.check();
}

#[test]
fn blocks_count_for_whole_segments_and_once() {
    let first = SeqNumber(u32::MAX - 149);
    let mut board = board_of(first, 10);
    let mut told = Vec::new();
    board.sack(first + 150, first + 450, ends(&mut told));
    assert_eq!(told, [first + 300, first + 400]);
    assert_eq!(board.in_flight(), 800);
    told.clear();
    board.sack(first + 100, first + 1000, ends(&mut told));
    assert_eq!(told.len(), 7);
    assert_eq!(board.in_flight(), 100);
    told.clear();
    board.sack(first, first + 1000, ends(&mut told));
    assert_eq!(told, [first + 100]);
    assert!(board.is_reneging());
    board.check();
}

// Requirement: RFC 8985 6.2-5
#[test]
fn what_was_sent_before_an_arrived_segment_is_lost_when_its_time_has_passed() {
    let mut board = board_of(SeqNumber(0), 5);
    board.sack(SeqNumber(300), SeqNumber(400), |_| {});
    let newest = (at(3), SeqNumber(400));
    // The first was sent at 0, the third at 2 ms; all are given 10 ms.
    let timeout = Duration::from_millis(10);
    assert_eq!(
        board.detect_lost(newest, timeout, at(9), |_| {}),
        Some(at(10))
    );
    assert_eq!(board.to_retransmit(), 0);
    assert_eq!(
        board.detect_lost(newest, timeout, at(11), |_| {}),
        Some(at(12))
    );
    assert_eq!(board.to_retransmit(), 2);
    assert_eq!(board.in_flight(), 200);
    // The fifth was sent later than the one that arrived.
    assert_eq!(board.detect_lost(newest, timeout, at(100), |_| {}), None);
    assert_eq!(board.to_retransmit(), 3);
    board.check();
}

#[test]
fn of_segments_sent_at_once_those_before_the_arrived_one_are_lost() {
    let mut board = Scoreboard::default();
    for index in 0..4 {
        board.push(SeqNumber(index * LEN), LEN, at(0));
    }
    board.sack(SeqNumber(200), SeqNumber(300), |_| {});
    board.detect_lost((at(0), SeqNumber(300)), Duration::ZERO, at(1), |_| {});
    assert_eq!(board.to_retransmit(), 2);
}

// Requirement: RFC 8985 6.1-1
#[test]
fn lost_segments_are_retransmitted_in_order_and_can_be_lost_again() {
    let mut board = board_of(SeqNumber(0), 5);
    board.sack(SeqNumber(400), SeqNumber(500), |_| {});
    board.detect_lost((at(4), SeqNumber(500)), Duration::ZERO, at(10), |_| {});
    for (index, expected) in [0, 100, 200, 300].into_iter().enumerate() {
        let segment = board.next_to_retransmit().unwrap();
        assert_eq!(segment.seq, SeqNumber(expected));
        assert_eq!(segment.is_retransmitted, index > 4);
        assert_eq!(
            board.on_retransmitted(segment.seq, at(20 + index as u64)),
            LEN
        );
        board.check();
    }
    assert_eq!(board.next_to_retransmit(), None);
    assert_eq!(board.in_flight(), 400);
    // The third retransmission arrives: the two before it are overdue.
    board.sack(SeqNumber(200), SeqNumber(300), |segment| {
        assert!(segment.is_retransmitted);
    });
    let next = board.detect_lost(
        (at(22), SeqNumber(300)),
        Duration::from_millis(5),
        at(25),
        |_| {},
    );
    assert_eq!(next, Some(at(26)));
    assert_eq!(board.next_to_retransmit().unwrap().seq, SeqNumber(0));
    board.on_retransmitted(SeqNumber(0), at(25));
    let next = board.detect_lost(
        (at(22), SeqNumber(300)),
        Duration::from_millis(5),
        at(26),
        |_| {},
    );
    assert_eq!(next, None);
    assert_eq!(board.next_to_retransmit().unwrap().seq, SeqNumber(100));
    board.check();
}

// Requirement: RFC 8985 6.3-1
#[test]
fn a_timeout_spares_what_was_sent_just_before_it() {
    let mut board = board_of(SeqNumber(0), 5);
    board.mark_lost_on_timeout(Duration::from_millis(10), at(12), |_| {});
    // Sent at 0, 1 and 2 ms.
    assert_eq!(board.to_retransmit(), 3);
    board.check();
    let mut board = board_of(SeqNumber(0), 5);
    board.mark_lost_on_timeout(Duration::from_millis(10), at(1), |_| {});
    assert_eq!(board.to_retransmit(), 1, "the first is lost in any case");
}

/// RFC 2018 §8
// Requirement: RFC 2018 5-1; RFC 6675 5.1-1
#[test]
fn a_receiver_that_throws_data_away_is_not_believed_any_more() {
    let mut board = board_of(SeqNumber(0), 5);
    board.sack(SeqNumber(100), SeqNumber(300), |_| {});
    board.acknowledge(SeqNumber(100), |_| {});
    assert!(board.is_reneging());
    board.mark_lost_on_timeout(Duration::from_secs(1), at(5), |_| {});
    assert_eq!(board.segments().sacked, 0);
    assert_eq!(board.to_retransmit(), 4);
    board.check();
}

#[test]
fn taking_back_losses_leaves_everything_to_be_decided_again() {
    let mut board = board_of(SeqNumber(0), 5);
    board.mark_lost_on_timeout(Duration::ZERO, at(10), |_| {});
    board.on_retransmitted(SeqNumber(0), at(10));
    board.unmark_lost();
    board.check();
    assert_eq!(
        board.in_flight(),
        600,
        "the retransmission is in flight, too"
    );
    board.sack(SeqNumber(400), SeqNumber(500), |_| {});
    board.detect_lost((at(4), SeqNumber(500)), Duration::ZERO, at(11), |_| {});
    assert_eq!(board.to_retransmit(), 3);
    board.check();
}

/// Without SACK nobody asks which retransmissions are overdue, and something is always outstanding.
#[test]
fn retransmissions_that_arrived_are_forgotten() {
    let mut board = board_of(SeqNumber(0), 3);
    for index in 0..1000 {
        let seq = SeqNumber(index * LEN);
        board.mark_first_lost(|_| {});
        board.on_retransmitted(seq, at(10 + u64::from(index)));
        board.check();
        board.acknowledge(seq + LEN, |_| {});
        board.push(seq + 3 * LEN, LEN, at(10 + u64::from(index)));
    }
}

#[test]
fn a_smaller_path_cuts_segments() {
    let mut board = board_of(SeqNumber(0), 3);
    board.sack(SeqNumber(100), SeqNumber(200), |_| {});
    board.resegment(LEN, true);
    assert_eq!(board.segments().outstanding, 3);
    board.resegment(40, true);
    board.check();
    assert_eq!(board.segments().outstanding, 9);
    assert_eq!(board.octets().outstanding, 300);
    assert_eq!(board.to_retransmit(), 6);
    assert_eq!(board.octets().sacked, 100);
    assert_eq!(board.next_to_retransmit().unwrap().len, 40);
}

#[test]
fn ordinals_wrap() {
    let mut board = Scoreboard {
        base: u32::MAX - 2,
        undecided: u32::MAX - 2,
        retransmit_hint: u32::MAX - 2,
        ..Scoreboard::default()
    };
    for index in 0..8 {
        board.push(SeqNumber(index * LEN), LEN, at(0));
    }
    board.sack(SeqNumber(200), SeqNumber(700), |_| {});
    board.detect_lost((at(0), SeqNumber(700)), Duration::ZERO, at(1), |_| {});
    board.check();
    assert_eq!(board.to_retransmit(), 2);
    board.on_retransmitted(SeqNumber(0), at(1));
    board.acknowledge(SeqNumber(700), |_| {});
    board.check();
    assert_eq!(board.next_to_retransmit(), None);
    assert_eq!(board.segments().outstanding, 1);
}

/// A peer that reports ten thousand segments in every acknowledgement must not cost ten thousand
/// steps each time.
#[test]
fn repeated_blocks_cost_no_more_than_new_ones() {
    const COUNT: u32 = 10_000;
    let mut board = board_of(SeqNumber(0), COUNT);
    let mut steps = 0_u64;
    // From the end to the front, each time the whole block: the worst order for the links.
    for index in (1..COUNT).rev() {
        board.sack(SeqNumber(index * LEN), SeqNumber(COUNT * LEN), |_| {
            steps += 1
        });
    }
    assert_eq!(steps, u64::from(COUNT) - 1);
    // Links are short: from anywhere to the end in a few steps.
    for start in [1, COUNT / 3, COUNT / 2, COUNT - 2] {
        let mut index = start as usize;
        let mut hops = 0;
        while board
            .segments
            .get(index)
            .is_some_and(|segment| segment.has(SACKED))
        {
            index = board.index(board.segments[index].skip).unwrap();
            hops += 1;
        }
        assert!(hops <= 16, "{hops} hops from {start}");
    }
}

/// The same by a map, one segment at a time.
#[derive(Default)]
struct Model {
    segments: BTreeMap<u32, ModelSegment>,
    end: u32,
}

#[derive(Clone, Copy)]
struct ModelSegment {
    len: u32,
    sent_at: Instant,
    sacked: bool,
    lost: bool,
    retransmitted: bool,
    ever: bool,
}

impl Model {
    fn in_flight(&self) -> u32 {
        let count = |condition: fn(&ModelSegment) -> bool| -> u32 {
            self.segments
                .values()
                .filter(|segment| condition(segment))
                .map(|segment| segment.len)
                .sum()
        };
        count(|segment| !segment.sacked && !segment.lost) + count(|segment| segment.retransmitted)
    }

    fn detect(
        &mut self,
        newest: (Instant, SeqNumber),
        timeout: Duration,
        now: Instant,
    ) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for (&seq, segment) in &mut self.segments {
            let end = SeqNumber(seq + segment.len);
            if segment.sacked
                || (segment.lost && !segment.retransmitted)
                || !sent_after(newest, segment.sent_at, end)
            {
                continue;
            }
            let due = segment.sent_at + timeout;
            if due <= now {
                segment.lost = true;
                segment.retransmitted = false;
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Push(u32),
    Acknowledge(u32),
    Sack(u32, u32),
    Detect {
        newest_index: usize,
        timeout_millis: u64,
    },
    Retransmit,
    Probe,
    Cut(usize, u32),
    TimeOut(u64),
    Unmark,
    Resegment(u32, bool),
    Wait(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (1_u32..200).prop_map(Operation::Push),
        1 => (0_u32..400).prop_map(Operation::Acknowledge),
        3 => (0_u32..4000, 0_u32..1500).prop_map(|(start, len)| Operation::Sack(start, len)),
        3 => (0_usize..60, 0_u64..30).prop_map(|(newest_index, timeout_millis)| {
            Operation::Detect { newest_index, timeout_millis }
        }),
        4 => Just(Operation::Retransmit),
        1 => Just(Operation::Probe),
        1 => (0_usize..60, 1_u32..200).prop_map(|(index, len)| Operation::Cut(index, len)),
        1 => (0_u64..30).prop_map(Operation::TimeOut),
        1 => Just(Operation::Unmark),
        1 => (20_u32..300, any::<bool>()).prop_map(|(len, lost)| Operation::Resegment(len, lost)),
        4 => (0_u64..8).prop_map(Operation::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // Requirement: RFC 6675 4-2
    #[test]
    fn agrees_with_the_model(operations in prop::collection::vec(operation(), 1..150)) {
        let mut board = Scoreboard::default();
        let mut model = Model::default();
        let mut now = at(1);
        for operation in operations {
            apply(&mut board, &mut model, &mut now, &operation);
            board.check();
            prop_assert_eq!(board.in_flight(), model.in_flight(), "after {:?}", operation);
            let next = model
                .segments
                .iter()
                .find(|(_, segment)| segment.lost && !segment.retransmitted)
                .map(|(seq, _)| SeqNumber(*seq));
            prop_assert_eq!(board.next_to_retransmit().map(|segment| segment.seq), next);
        }
    }
}

fn apply(board: &mut Scoreboard, model: &mut Model, now: &mut Instant, operation: &Operation) {
    match *operation {
        Operation::Push(len) => {
            board.push(SeqNumber(model.end), len, *now);
            model.segments.insert(
                model.end,
                ModelSegment {
                    len,
                    sent_at: *now,
                    sacked: false,
                    lost: false,
                    retransmitted: false,
                    ever: false,
                },
            );
            model.end += len;
        }
        Operation::Acknowledge(octets) => {
            let first = model.segments.keys().next().copied().unwrap_or(model.end);
            let una = (first + octets).min(model.end);
            let mut told = Vec::new();
            board.acknowledge(SeqNumber(una), ends(&mut told));
            let mut expected = Vec::new();
            while let Some((&seq, &segment)) = model.segments.first_key_value() {
                if seq >= una {
                    break;
                }
                model.segments.remove(&seq);
                let end = seq + segment.len;
                if end > una {
                    let len = end - una;
                    model.segments.insert(una, ModelSegment { len, ..segment });
                } else {
                    expected.push(SeqNumber(end));
                }
            }
            assert_eq!(told, expected);
        }
        Operation::Sack(start, len) => {
            let first = model.segments.keys().next().copied().unwrap_or(model.end);
            let (start, end) = (first + start, (first + start + len).min(model.end));
            if start >= end {
                return;
            }
            let mut told = Vec::new();
            board.sack(SeqNumber(start), SeqNumber(end), ends(&mut told));
            let mut expected = Vec::new();
            for (&seq, segment) in model.segments.range_mut(start..end) {
                if seq + segment.len <= end && !segment.sacked {
                    expected.push(SeqNumber(seq + segment.len));
                    segment.sacked = true;
                    segment.lost = false;
                    segment.retransmitted = false;
                }
            }
            assert_eq!(told, expected);
        }
        Operation::Detect {
            newest_index,
            timeout_millis,
        } => {
            let Some((&seq, segment)) = model.segments.iter().nth(newest_index) else {
                return;
            };
            let newest = (segment.sent_at, SeqNumber(seq + segment.len));
            let timeout = Duration::from_millis(timeout_millis);
            let next = board.detect_lost(newest, timeout, *now, |_| {});
            assert_eq!(next, model.detect(newest, timeout, *now));
        }
        Operation::Retransmit => {
            // Retransmissions of one instant are decided in the order in which they were sent.
            *now = *now + Duration::from_micros(1);
            if let Some(segment) = board.next_to_retransmit() {
                board.on_retransmitted(segment.seq, *now);
                let model = model.segments.get_mut(&segment.seq.0).unwrap();
                assert!(model.lost && !model.retransmitted);
                assert_eq!(segment.is_retransmitted, model.ever);
                model.retransmitted = true;
                model.ever = true;
                model.sent_at = *now;
            }
        }
        Operation::Probe => {
            *now = *now + Duration::from_micros(1);
            if let Some((&seq, last)) = model.segments.last_key_value()
                && !last.sacked
                && !last.lost
            {
                assert_eq!(board.on_probed(SeqNumber(seq), *now), last.len);
                let last = model.segments.get_mut(&seq).unwrap();
                last.ever = true;
                last.sent_at = *now;
            }
        }
        Operation::Cut(index, len) => {
            let nth = model.segments.iter().nth(index);
            if let Some((&seq, &segment)) = nth.filter(|(_, segment)| segment.len > len) {
                board.cut(SeqNumber(seq), len);
                let rest = segment.len - len;
                for (seq, len) in [(seq, len), (seq + len, rest)] {
                    model.segments.insert(seq, ModelSegment { len, ..segment });
                }
            }
        }
        Operation::TimeOut(timeout_millis) => {
            let timeout = Duration::from_millis(timeout_millis);
            board.mark_lost_on_timeout(timeout, *now, |_| {});
            let is_reneging = model
                .segments
                .first_key_value()
                .is_some_and(|(_, segment)| segment.sacked);
            for (index, segment) in model.segments.values_mut().enumerate() {
                segment.sacked &= !is_reneging;
                let is_overdue = index == 0 || is_reneging || segment.sent_at + timeout <= *now;
                if !segment.sacked && is_overdue {
                    segment.lost = true;
                    segment.retransmitted = false;
                }
            }
        }
        Operation::Unmark => {
            board.unmark_lost();
            for segment in model.segments.values_mut() {
                segment.lost = false;
            }
        }
        Operation::Resegment(max_len, is_lost) => {
            board.resegment(max_len, is_lost);
            for (seq, mut segment) in std::mem::take(&mut model.segments) {
                let (mut seq, mut len) = (seq, segment.len);
                if is_lost && len > max_len && !segment.sacked {
                    segment.lost = true;
                    segment.retransmitted = false;
                }
                while len > 0 {
                    let piece = len.min(max_len);
                    let piece_of = ModelSegment {
                        len: piece,
                        ..segment
                    };
                    model.segments.insert(seq, piece_of);
                    seq += piece;
                    len -= piece;
                }
            }
        }
        Operation::Wait(millis) => *now = *now + Duration::from_millis(millis),
    }
}
