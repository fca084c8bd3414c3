//! The messages of a ping-pong client that are under way, and those that recently were.

use crate::recorder::{Event, Outcome, Recorder};

/// What a reply turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The first one to a message of the current burst.
    InTime,
    /// The first one to a message that was already counted as dropped.
    Late,
    /// A further one.
    Duplicate,
    /// To a message that was never sent.
    Unexpected,
}

/// The current burst and the memory of earlier ones.
#[derive(Debug)]
pub struct Flight {
    slots: Vec<Slot>,
    first_sequence: u64,
    next_sequence: u64,
    outstanding: usize,
    history: History,
    last_rx_nsec: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    tx_nsec: u64,
    rx_nsec: Option<u64>,
}

impl Flight {
    /// No messages yet; bursts have up to `burst` messages.
    pub fn new(burst: u32) -> Self {
        Self {
            slots: Vec::with_capacity(usize::try_from(burst).unwrap_or(usize::MAX)),
            first_sequence: 1,
            next_sequence: 1,
            outstanding: 0,
            history: History::new(),
            last_rx_nsec: 0,
        }
    }

    /// The sequence number of the next message.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Messages sent so far.
    pub fn sent(&self) -> u64 {
        self.next_sequence - 1
    }

    /// Messages of the burst that wait for their reply.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// When the last message was sent.
    pub fn last_tx_nsec(&self) -> u64 {
        self.slots.last().map_or(0, |slot| slot.tx_nsec)
    }

    /// Begins a burst.
    pub fn begin_burst(&mut self) {
        self.slots.clear();
        self.first_sequence = self.next_sequence;
        self.outstanding = 0;
    }

    /// Notes that the next message of the burst leaves at `tx_nsec`.
    pub fn send(&mut self, tx_nsec: u64) {
        self.slots.push(Slot {
            tx_nsec,
            rx_nsec: None,
        });
        self.history.forget(self.next_sequence);
        self.next_sequence += 1;
        self.outstanding += 1;
    }

    /// Takes back the last [`Flight::send`], for a message that did not leave.
    pub fn unsend(&mut self) {
        if self.slots.pop().is_some() {
            self.next_sequence -= 1;
            self.outstanding -= 1;
        }
    }

    /// Notes the arrival of a reply.
    pub fn receive(&mut self, sequence: u64, rx_nsec: u64) -> Reply {
        if sequence == 0 || sequence >= self.next_sequence {
            return Reply::Unexpected;
        }
        let Some(index) = sequence.checked_sub(self.first_sequence) else {
            let age = self.next_sequence - sequence;
            // Of messages older than the history it is not known; most replies are duplicates.
            if age > HISTORY_LEN || self.history.is_answered(sequence) {
                return Reply::Duplicate;
            }
            self.history.answer(sequence);
            return Reply::Late;
        };
        let slot = usize::try_from(index)
            .ok()
            .and_then(|index| self.slots.get_mut(index));
        match slot {
            Some(slot) if slot.rx_nsec.is_none() => {
                slot.rx_nsec = Some(rx_nsec);
                self.outstanding -= 1;
                self.history.answer(sequence);
                Reply::InTime
            }
            Some(_) => Reply::Duplicate,
            None => Reply::Unexpected,
        }
    }

    /// Hands the burst to the recorder. Messages without a reply are dropped, except when the end
    /// of the test cut the wait short: then nothing is known of them.
    pub fn settle(&mut self, recorder: &mut Recorder, cut_short: bool) {
        for slot in &self.slots {
            let outcome = match slot.rx_nsec {
                Some(rx_nsec) if rx_nsec < self.last_rx_nsec => Outcome::OutOfOrder,
                Some(rx_nsec) => {
                    self.last_rx_nsec = rx_nsec;
                    Outcome::Received(rx_nsec.saturating_sub(slot.tx_nsec))
                }
                None if cut_short => continue,
                None => Outcome::Dropped,
            };
            recorder.record(Event {
                tx_nsec: slot.tx_nsec,
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
        let mut flight = Flight::new(burst);
        begin(&mut flight, burst, 100);
        flight
    }

    fn begin(flight: &mut Flight, burst: u32, tx_nsec: u64) {
        flight.begin_burst();
        (0..u64::from(burst)).for_each(|index| flight.send(tx_nsec + index));
    }

    /// A recorder whose next events count.
    fn warm_recorder() -> Recorder {
        let mut recorder = Recorder::new(Window::Packets(1000), None, None).unwrap();
        for _ in 0..WARM_UP_PACKETS {
            recorder.record(Event {
                tx_nsec: 0,
                outcome: Outcome::Dropped,
            });
        }
        recorder
    }

    #[test]
    fn first_reply_is_in_time_second_is_duplicate() {
        let mut flight = flight(1);
        assert_eq!(flight.outstanding(), 1);
        assert_eq!(flight.receive(1, 200), Reply::InTime);
        assert_eq!(flight.outstanding(), 0);
        assert_eq!(flight.receive(1, 300), Reply::Duplicate);
        begin(&mut flight, 1, 400);
        assert_eq!(flight.receive(1, 500), Reply::Duplicate);
        assert_eq!(flight.receive(2, 500), Reply::InTime);
    }

    #[test]
    fn reply_to_a_dropped_message_is_late_once() {
        let mut flight = flight(1);
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
        flight.unsend();
        assert_eq!(flight.receive(2, 200), Reply::Unexpected);
        assert_eq!((flight.sent(), flight.outstanding()), (1, 1));
    }

    #[test]
    fn history_reaches_back_65536_messages() {
        let mut flight = Flight::new(1);
        for _ in 0..=HISTORY_LEN {
            begin(&mut flight, 1, 100);
        }
        // Message 2 shares its bit with none that is newer; message 1 shares it with the newest.
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
        flight.settle(&mut recorder, false);
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
        flight.settle(&mut recorder, true);
        let valid = recorder.finish(0);
        assert_eq!(
            (valid.sent, valid.dropped, valid.round_trips.count),
            (1, 0, 1)
        );
    }
}
