//! The messages of a client that are under way, and those that recently were.

use std::collections::VecDeque;

use crate::measure::event::{Event, Outcome};
use crate::measure::recorder::Recorder;

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
    /// `reply_every`, 2 `reply_every`, ...; there is room for `capacity` before memory is
    /// allocated.
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

    /// The position of the message with this number among those that want an answer; `None` if it
    /// does not want one.
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

    /// Counts messages as dropped that were sent before `sent_before_nsec` while a later one has
    /// its reply: networks do not reorder so far.
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
mod tests;
