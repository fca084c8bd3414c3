//! TIME-WAIT: RFC 9293 §3.6.1, RFC 6191. Owners of many connections keep it in a smaller form instead.

use wire::tcp::{Flags, Header};

use super::Connection;
use super::segment::Incoming;
use crate::time_wait::{Residue, TimestampState};
use crate::timers::Timer;
use crate::{Event, Instant, Payload, SeqNumber, State};

impl<P: Payload> Connection<P> {
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers.stop_all();
        self.timers.set(Timer::Linger, now + self.config.time_wait);
        self.events.raise(Event::TimeWait);
    }

    /// What a [`TimeWaitTable`](crate::time_wait::TimeWaitTable) needs to go on for the connection, which then can go.
    /// After [`Event::TimeWait`] and [`poll_transmit`](Self::poll_transmit); `None` in other states.
    pub fn residue(&self) -> Option<Residue> {
        (self.state == State::TimeWait).then(|| Residue {
            snd_nxt: self.sender.snd_nxt,
            rcv_nxt: self.receiver.rcv_nxt,
            window: u16::try_from(self.receiver.window.offered() >> self.receiver.window.scale())
                .unwrap_or(u16::MAX),
            timestamps: self.timestamps.is_on.then_some(TimestampState {
                recent: self.timestamps.recent,
                offset: self.timestamps.offset,
            }),
        })
    }

    /// RFC 9293 §3.10.7.4 for TIME-WAIT, as Linux's `tcp_timewait_state_process` has it.
    pub(super) fn on_segment_in_time_wait(&mut self, now: Instant, segment: &Incoming<'_>) {
        let is_old = segment.header.options.timestamps.is_some_and(|timestamps| {
            self.timestamps.is_on && self.timestamps.is_old(now, timestamps.value)
        });
        let is_in_window = self.receiver.is_acceptable(segment.seq, segment.end());
        if segment.has(Flags::RST) {
            // RFC 1337: a reset that ends TIME-WAIT early is a hazard, if a small one.
            if is_in_window
                && !is_old
                && !self.config.rfc1337
                && segment.seq == self.receiver.rcv_nxt
            {
                self.enter_closed();
            }
            return;
        }
        if segment.has(Flags::SYN) {
            // A new incarnation is the owner's to begin (`accepts_syn`).
            self.challenge(now);
            return;
        }
        if segment.is_empty() && !is_old && is_in_window {
            return;
        }
        // "The only thing that can arrive in this state is a retransmission of the remote FIN. Acknowledge it, and restart the
        // 2 MSL timeout."
        if segment.has(Flags::FIN) && !is_old {
            self.timers.set(Timer::Linger, now + self.config.time_wait);
        }
        self.receiver.acks.owe_duplicate();
    }

    /// Whether a SYN may begin the next incarnation of a connection in TIME-WAIT: RFC 6191 §2, RFC 1122 §4.2.2.13: its
    /// numbers are beyond all that the old one used.
    pub fn accepts_syn(&self, syn: &Header) -> bool {
        let is_plain_syn = syn.flags.contains(Flags::SYN)
            && !syn.flags.intersects(Flags::ACK | Flags::RST | Flags::FIN);
        if self.state != State::TimeWait || !is_plain_syn {
            return false;
        }
        let is_newer = match syn.options.timestamps {
            Some(timestamps) if self.timestamps.is_on => {
                timestamps
                    .value
                    .wrapping_sub(self.timestamps.recent)
                    .cast_signed()
                    > 0
            }
            _ => false,
        };
        is_newer || SeqNumber(syn.seq) > self.receiver.rcv_nxt
    }
}
