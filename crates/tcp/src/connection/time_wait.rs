//! TIME-WAIT: RFC 9293 §3.6.1, RFC 6191. Owners of many connections keep it in a smaller form
//! instead.

use wire::tcp::Header;

use super::Connection;
use super::segment::Incoming;
use crate::time_wait::{Action, Residue, TimestampState, judge};
use crate::timers::Timer;
use crate::{Event, Instant, Payload, State};

impl<P: Payload> Connection<P> {
    pub(super) fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.timers.stop_all();
        self.set_timer(Timer::Linger, now + self.config.time_wait);
        self.events.raise(Event::TimeWait);
    }

    /// What a [`TimeWaitTable`](crate::time_wait::TimeWaitTable) needs to go on for the connection,
    /// which then can go. After [`Event::TimeWait`] and [`poll_transmit`](Self::poll_transmit);
    /// `None` in other states.
    pub fn residue(&self) -> Option<Residue> {
        (self.state == State::TimeWait).then(|| Residue {
            snd_nxt: self.sender.snd_nxt,
            rcv_nxt: self.receiver.rcv_nxt,
            window: u16::try_from(self.receiver.window.offered() >> self.receiver.window.scale())
                .unwrap_or(u16::MAX),
            timestamps: self.timestamps.is_on().then_some(TimestampState {
                recent: self.timestamps.recent,
                offset: self.timestamps.offset,
            }),
        })
    }

    pub(super) fn on_segment_in_time_wait(&mut self, now: Instant, segment: &Incoming<'_>) {
        let Some(residue) = self.residue() else {
            return;
        };
        let judgement = judge(
            &residue,
            segment.header,
            segment.len as usize,
            self.config.rfc1337,
        );
        if let Some(recent) = judgement.recent {
            self.timestamps.update(now, recent);
        }
        match judgement.action {
            Action::Drop => {}
            Action::Answer => self.receiver.acks.owe_duplicate(),
            // A new incarnation is the owner's to begin (`accepts_syn`).
            Action::AnswerSeldom | Action::Open => self.challenge(now),
            Action::Close => self.enter_closed(),
        }
        if judgement.restarts {
            self.set_timer(Timer::Linger, now + self.config.time_wait);
        }
    }

    /// Whether a SYN may begin the next incarnation of a connection in TIME-WAIT: RFC 6191 §2, RFC
    /// 1122 §4.2.2.13.
    pub fn accepts_syn(&self, syn: &Header) -> bool {
        self.residue().is_some_and(|residue| {
            judge(&residue, syn, 0, self.config.rfc1337).action == Action::Open
        })
    }
}
