//! The messages of a client that are under way, and those that recently were.

use std::collections::VecDeque;

use crate::recorder::{Event, Outcome, Recorder};

/// What a reply turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The first one to a message that is under way.
    InTime,
    /// The first one to a message that was already counted as dropped.
    Late,
    /// A further one.
    Duplicate,
    /// To a message that was never sent.
    Unexpected,
}

/// The messages that want an answer, in the order of sending, and the memory of earlier ones.
#[derive(Debug)]
pub struct Flight {
    slots: VecDeque<Slot>,
    /// Position of the first slot among all messages that want an answer, from 0.
    first: u64,
    reply_every: u64,
    outstanding: usize,
    history: History,
    last_rx_nsec: u64,
    /// All messages with a reply stand before this position.
    answered_before: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tx_nsec: u64,
    lag_nsec: u64,
    rx_nsec: Option<u64>,
}

/// What becomes of messages without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// They wait, and those behind them, too.
    Wait,
    /// They are dropped.
    Drop,
    /// The end of the test cut the wait short: nothing is known of them.
    Forget,
}

impl Flight {
    /// No messages yet. One in `reply_every` messages wants an answer, so that those are numbered
    /// `reply_every`, 2 `reply_every`, ...; there is room for `capacity` before memory is allocated.
    pub fn new(reply_every: u32, capacity: usize) -> Self {
        Self {
            slots: VecDeque::with_capacity(capacity),
            first: 0,
            reply_every: u64::from(reply_every.max(1)),
            outstanding: 0,
            history: History::new(),
            last_rx_nsec: 0,
            answered_before: 0,
        }
    }

    /// Messages so far.
    pub fn count(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Messages that wait for their reply.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Messages that are not settled.
    pub fn unsettled(&self) -> usize {
        self.slots.len()
    }

    /// When the last message was sent.
    pub fn last_tx_nsec(&self) -> u64 {
        self.slots.back().map_or(0, |slot| slot.tx_nsec)
    }

    /// Notes that the next message leaves at `tx_nsec`, `lag_nsec` later than it should.
    #[inline]
    pub fn push(&mut self, tx_nsec: u64, lag_nsec: u64) {
        self.history.forget(self.count());
        self.slots.push_back(Slot {
            tx_nsec,
            lag_nsec,
            rx_nsec: None,
        });
        self.outstanding += 1;
    }

    /// Takes back the last [`Flight::push`], for a message that did not leave.
    pub fn unpush(&mut self) {
        if self.slots.pop_back().is_some() {
            self.outstanding -= 1;
        }
    }

    /// The position of the message with this number among those that want an answer; `None` if it does
    /// not want one.
    #[inline]
    pub fn position(&self, sequence: u64) -> Option<u64> {
        // Ping-pong is spared the division.
        if self.reply_every == 1 {
            return sequence.checked_sub(1);
        }
        let is_asking = sequence > 0 && sequence.is_multiple_of(self.reply_every);
        is_asking.then(|| sequence / self.reply_every - 1)
    }

    /// Notes the arrival of a reply.
    #[inline]
    pub fn receive(&mut self, sequence: u64, rx_nsec: u64) -> Reply {
        let position = self.position(sequence);
        let Some(position) = position.filter(|&position| position < self.count()) else {
            return Reply::Unexpected;
        };
        let Some(index) = position.checked_sub(self.first) else {
            let age = self.count() - position;
            // Of messages older than the history it is not known; most replies are duplicates.
            if age > HISTORY_LEN || self.history.is_answered(position) {
                return Reply::Duplicate;
            }
            self.history.answer(position);
            return Reply::Late;
        };
        let slot = usize::try_from(index)
            .ok()
            .and_then(|index| self.slots.get_mut(index));
        match slot {
            Some(slot) if slot.rx_nsec.is_none() => {
                slot.rx_nsec = Some(rx_nsec);
                self.outstanding -= 1;
                self.answered_before = self.answered_before.max(position + 1);
                self.history.answer(position);
                Reply::InTime
            }
            Some(_) => Reply::Duplicate,
            None => Reply::Unexpected,
        }
    }

    /// Hands messages to the recorder, in the order of sending.
    #[inline]
    pub fn settle(&mut self, recorder: &mut Recorder, unanswered: Unanswered) {
        while let Some(&slot) = self.slots.front() {
            let outcome = match (slot.rx_nsec, unanswered) {
                (Some(rx_nsec), _) => Some(self.outcome(slot, rx_nsec)),
                (None, Unanswered::Wait) => return,
                (None, Unanswered::Drop) => Some(Outcome::Dropped),
                (None, Unanswered::Forget) => None,
            };
            self.pop(recorder, slot, outcome);
        }
    }

    /// Counts messages as dropped that were sent before `sent_before_nsec` while a later one has its reply:
    /// networks do not reorder so far.
    #[inline]
    pub fn settle_overtaken(&mut self, recorder: &mut Recorder, sent_before_nsec: u64) {
        while let Some(&slot) = self.slots.front()
            && slot.tx_nsec < sent_before_nsec
            && self.answered_before > self.first + 1
        {
            let outcome = match slot.rx_nsec {
                Some(rx_nsec) => self.outcome(slot, rx_nsec),
                None => Outcome::Dropped,
            };
            self.pop(recorder, slot, Some(outcome));
        }
    }

    /// Counts the oldest messages as dropped if they have no reply, until `count` are left.
    pub fn settle_down_to(&mut self, count: usize, recorder: &mut Recorder) {
        while self.slots.len() > count
            && let Some(&slot) = self.slots.front()
        {
            let outcome = match slot.rx_nsec {
                Some(rx_nsec) => self.outcome(slot, rx_nsec),
                None => Outcome::Dropped,
            };
            self.pop(recorder, slot, Some(outcome));
        }
    }

    fn outcome(&mut self, slot: Slot, rx_nsec: u64) -> Outcome {
        if rx_nsec < self.last_rx_nsec {
            return Outcome::OutOfOrder;
        }
        self.last_rx_nsec = rx_nsec;
        Outcome::Received(rx_nsec.saturating_sub(slot.tx_nsec))
    }

    fn pop(&mut self, recorder: &mut Recorder, slot: Slot, outcome: Option<Outcome>) {
        self.slots.pop_front();
        self.first += 1;
        if slot.rx_nsec.is_none() {
            self.outstanding -= 1;
        }
        if let Some(outcome) = outcome {
            recorder.record(Event {
                tx_nsec: slot.tx_nsec,
                lag_nsec: slot.lag_nsec,
                outcome,
            });
        }
    }
}

/// Which of the latest messages were answered, one bit each.
#[derive(Debug)]
struct History {
    bits: Vec<u64>,
}

const HISTORY_LEN: u64 = 1 << 16;

impl History {
    fn new() -> Self {
        Self {
            bits: vec![0; 1 << 10],
        }
    }

    fn is_answered(&self, sequence: u64) -> bool {
        let (index, bit) = Self::position(sequence);
        self.bits.get(index).is_some_and(|word| word & bit != 0)
    }

    fn answer(&mut self, sequence: u64) {
        let (index, bit) = Self::position(sequence);
        if let Some(word) = self.bits.get_mut(index) {
            *word |= bit;
        }
    }

    fn forget(&mut self, sequence: u64) {
        let (index, bit) = Self::position(sequence);
        if let Some(word) = self.bits.get_mut(index) {
            *word &= !bit;
        }
    }

    fn position(sequence: u64) -> (usize, u64) {
        let index = sequence % HISTORY_LEN;
        (
            usize::try_from(index / 64).unwrap_or(usize::MAX),
            1 << (index % 64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::{WARM_UP_PACKETS, Window};

    fn flight(burst: u32) -> Flight {
        let mut flight = Flight::new(1, 1);
        begin(&mut flight, burst, 100);
        flight
    }

    fn begin(flight: &mut Flight, burst: u32, tx_nsec: u64) {
        (0..u64::from(burst)).for_each(|index| flight.push(tx_nsec + index, 0));
    }

    /// A recorder whose next events count.
    fn warm_recorder() -> Recorder {
        let mut recorder = Recorder::new(Window::Packets(1000), None, None).unwrap();
        for _ in 0..WARM_UP_PACKETS {
            recorder.record(Event {
                tx_nsec: 0,
                lag_nsec: 0,
                outcome: Outcome::Dropped,
            });
        }
        recorder
    }

    #[test]
    fn first_reply_is_in_time_second_is_duplicate() {
        let mut flight = flight(1);
        let mut recorder = warm_recorder();
        assert_eq!(flight.outstanding(), 1);
        assert_eq!(flight.receive(1, 200), Reply::InTime);
        assert_eq!(flight.outstanding(), 0);
        assert_eq!(flight.receive(1, 300), Reply::Duplicate);
        flight.settle(&mut recorder, Unanswered::Wait);
        begin(&mut flight, 1, 400);
        assert_eq!(flight.receive(1, 500), Reply::Duplicate);
        assert_eq!(flight.receive(2, 500), Reply::InTime);
    }

    #[test]
    fn reply_to_a_dropped_message_is_late_once() {
        let mut flight = flight(1);
        flight.settle(&mut warm_recorder(), Unanswered::Drop);
        begin(&mut flight, 1, 400);
        assert_eq!(flight.receive(1, 500), Reply::Late);
        assert_eq!(flight.receive(1, 500), Reply::Duplicate);
        assert_eq!(flight.outstanding(), 1);
    }

    #[test]
    fn unsent_numbers_are_unexpected() {
        let mut flight = flight(2);
        for sequence in [0, 3, u64::MAX] {
            assert_eq!(
                flight.receive(sequence, 200),
                Reply::Unexpected,
                "{sequence}"
            );
        }
        flight.unpush();
        assert_eq!(flight.receive(2, 200), Reply::Unexpected);
        assert_eq!((flight.count(), flight.outstanding()), (1, 1));
    }

    #[test]
    fn only_every_so_many_messages_have_a_reply() {
        let mut flight = Flight::new(10, 1);
        begin(&mut flight, 3, 100);
        for sequence in [0, 1, 9, 11, 40] {
            assert_eq!(flight.receive(sequence, 200), Reply::Unexpected);
        }
        for sequence in [20, 10, 30] {
            assert_eq!(flight.receive(sequence, 200), Reply::InTime);
        }
    }

    #[test]
    fn history_reaches_back_65536_messages() {
        let mut flight = Flight::new(1, 1);
        let mut recorder = warm_recorder();
        for _ in 0..=HISTORY_LEN {
            begin(&mut flight, 1, 100);
            flight.settle(&mut recorder, Unanswered::Drop);
        }
        assert_eq!(flight.receive(2, 200), Reply::Late);
        assert_eq!(flight.receive(1, 200), Reply::Duplicate);
    }

    #[test]
    fn settle_tells_loss_from_reordering() {
        let mut flight = flight(4);
        flight.receive(1, 300);
        flight.receive(3, 250);
        flight.receive(4, 310);
        let mut recorder = warm_recorder();
        flight.settle(&mut recorder, Unanswered::Wait);
        assert_eq!((flight.unsettled(), flight.outstanding()), (3, 1));
        flight.settle(&mut recorder, Unanswered::Drop);
        let valid = recorder.finish(0);
        assert_eq!((valid.sent, valid.dropped, valid.out_of_order), (4, 1, 1));
        assert_eq!(valid.round_trips.count, 2);
        assert_eq!(valid.round_trips.sum_nsec, 200 + 207);
    }

    #[test]
    fn settle_at_the_end_of_the_test_drops_nothing() {
        let mut flight = flight(2);
        flight.receive(1, 300);
        let mut recorder = warm_recorder();
        flight.settle(&mut recorder, Unanswered::Forget);
        assert_eq!((flight.count(), flight.outstanding()), (2, 0));
        let valid = recorder.finish(0);
        assert_eq!(
            (valid.sent, valid.dropped, valid.round_trips.count),
            (1, 0, 1)
        );
    }

    #[test]
    fn a_lost_message_does_not_hold_up_the_later_ones() {
        // Sent at 100, 101, ...
        let mut flight = flight(5);
        flight.receive(3, 300);
        let mut recorder = warm_recorder();
        flight.settle_overtaken(&mut recorder, 101);
        assert_eq!(flight.unsettled(), 4);
        // Nothing later than the third has a reply: that may just be slow.
        flight.settle_overtaken(&mut recorder, 1000);
        flight.settle(&mut recorder, Unanswered::Wait);
        assert_eq!(flight.unsettled(), 2);
        let valid = recorder.finish(0);
        assert_eq!((valid.dropped, valid.round_trips.count), (2, 1));
    }

    #[test]
    fn memory_of_messages_without_reply_is_bounded() {
        let mut flight = flight(10);
        flight.receive(2, 300);
        let mut recorder = warm_recorder();
        flight.settle_down_to(4, &mut recorder);
        assert_eq!((flight.unsettled(), flight.outstanding()), (4, 4));
        let valid = recorder.finish(0);
        assert_eq!((valid.dropped, valid.round_trips.count), (5, 1));
    }
}
