//! Closing: RFC 9293 §3.6 and §3.10.4, and what Linux does for applications that are gone.

use core::time::Duration;

use super::Connection;
use super::reset_segment::Reset;
use super::segment::Verdict;
use crate::timers::Timer;
use crate::{Error, Event, Instant, Payload, State};

/// Which directions to end (`shutdown(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// What comes from the peer from here on is still acknowledged, and what is there can still be
    /// read (as Linux).
    Read,
    /// Everything written is sent, then FIN.
    Write,
    Both,
}

impl<P: Payload> Connection<P> {
    /// Ends directions. `false` if there is no connection (`ENOTCONN`).
    pub fn shutdown(&mut self, now: Instant, how: Shutdown) -> bool {
        // For the application of Linux a connection in TIME-WAIT is over.
        let is_connected = !matches!(self.state, State::Closed | State::SynSent | State::TimeWait);
        if !is_connected {
            return false;
        }
        if how != Shutdown::Write {
            self.is_read_shut = true;
            self.events.raise(Event::Readable);
        }
        if how != Shutdown::Read {
            self.queue_fin(now);
        }
        true
    }

    /// The application lets go (`close(2)`): what was written is sent and acknowledged in the
    /// background; unread data resets the connection (RFC 2525 §2.17). To be driven on until
    /// [`Event::Closed`] or [`Event::TimeWait`].
    pub fn close(&mut self, now: Instant) {
        let has_unread = self.orphan();
        match self.state {
            // A connection that is over for the network is over.
            State::Closed | State::TimeWait => {}
            State::SynSent => self.enter_closed(),
            _ if has_unread => self.reset_and_close(),
            State::FinWait2 => match self.cold.options.linger2(&self.config) {
                Some(time) => self.limit_fin_wait_2(now, time),
                None => self.reset_and_close(),
            },
            _ => self.queue_fin(now),
        }
    }

    /// The application lets go and nothing more is to be sent (`close(2)` with an `SO_LINGER` of
    /// zero): RFC 9293 §3.10.5, ABORT. To be driven on until [`Event::Closed`] or
    /// [`Event::TimeWait`].
    pub fn abort(&mut self) {
        let has_unread = self.orphan();
        match self.state {
            State::Closed | State::TimeWait => {}
            State::SynSent => self.enter_closed(),
            // Both sides have sent everything (Linux's `tcp_need_reset`).
            State::Closing | State::LastAck if !has_unread && !self.sender.has_unsent() => {
                self.enter_closed();
            }
            _ => self.reset_and_close(),
        }
    }

    /// Somebody else than the application ends the connection (`SOCK_DESTROY`, `ss -K`): a peer
    /// that may wait for something is reset, and the application told (Linux's `tcp_abort`).
    pub fn destroy(&mut self) {
        match self.state {
            State::Closed | State::TimeWait => return,
            // Linux's `tcp_need_reset`.
            State::SynSent | State::Closing | State::LastAck => {}
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait => self.send_reset(),
        }
        self.fail(Error::Aborted);
    }

    /// Nobody will read or write any more. Returns whether received data was thrown away.
    fn orphan(&mut self) -> bool {
        self.is_orphan = true;
        let has_unread = self.receiver.queue.len() > 0;
        self.receiver.discard();
        has_unread
    }

    fn reset_and_close(&mut self) {
        self.send_reset();
        self.enter_closed();
    }

    /// RFC 9293 §3.10.4: "Queue this until all preceding SENDs have been segmentized, then form a
    /// FIN segment and send it."
    fn queue_fin(&mut self, now: Instant) {
        match self.state {
            // The handshake ends first; `establish` goes on from here.
            State::SynReceived => {}
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            State::Closed
            | State::SynSent
            | State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck
            | State::TimeWait => return,
        }
        self.sender.is_fin_queued = true;
        self.measure_fin(now);
        self.sender.is_more = false;
        // What was held back for want of more data will see no more.
        if self.timers.is_set(Timer::Retransmit) && !self.sender.is_outstanding() {
            self.timers.stop(Timer::Retransmit);
        }
    }

    /// The peer's FIN is the next thing in the stream: RFC 9293 §3.10.7.4, "eighth, check the FIN
    /// bit".
    pub(super) fn take_fin(&mut self, now: Instant) {
        if !self.state.can_receive() {
            return;
        }
        // "advance RCV.NXT over the FIN, and send an acknowledgment for the FIN."
        self.receiver.take_fin();
        if self.state == State::Established {
            // Most applications close as soon as they read the end: the acknowledgement goes with
            // their FIN.
            self.receiver.acks.expect_reply();
        } else {
            self.receiver.acks.owe_one();
        }
        self.events.raise(Event::PeerClosed);
        self.events.raise(Event::Readable);
        match self.state {
            State::Established => self.state = State::CloseWait,
            // "If our FIN has been ACKed (perhaps in this segment), then enter TIME-WAIT [...];
            // otherwise, enter the CLOSING state."
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            State::Closed
            | State::SynSent
            | State::SynReceived
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => {}
        }
    }

    /// Our FIN is acknowledged: RFC 9293 §3.10.7.4, fifth check, by states.
    pub(super) fn on_fin_acknowledged(&mut self, now: Instant) -> Verdict {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.events.raise(Event::FinWait2);
                if !self.is_orphan {
                    return Verdict::Continue;
                }
                match self.cold.options.linger2(&self.config) {
                    Some(time) => {
                        self.limit_fin_wait_2(now, time);
                        Verdict::Continue
                    }
                    None => {
                        // As if the connection had been gone when the ACK came.
                        self.request_reset(Reset {
                            seq: self.sender.snd_nxt,
                            ack: None,
                            is_own: false,
                        });
                        self.enter_closed();
                        Verdict::Drop
                    }
                }
            }
            State::Closing => {
                self.enter_time_wait(now);
                Verdict::Drop
            }
            State::LastAck => {
                self.enter_closed();
                Verdict::Drop
            }
            State::Closed
            | State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait2
            | State::CloseWait
            | State::TimeWait => Verdict::Continue,
        }
    }

    /// The connection is over for a reason that the application must know.
    pub(super) fn fail(&mut self, error: Error) {
        self.error = Some(error);
        self.events.raise(Event::Failed);
        self.enter_closed();
    }

    /// CLOSED: nothing more is sent, but for a pending reset. What was received can still be read.
    pub(super) fn enter_closed(&mut self) {
        self.state = State::Closed;
        // An acknowledgement that came just now ends a connection, but for timeouts and resets,
        // which were measured already.
        self.measure_end(self.last_ack_at);
        if self.cold.handshake.is_fast_open {
            self.end_fast_open(false);
        }
        self.timers.stop_all();
        self.pending.syn = false;
        self.pending.probe = None;
        self.sender.queue.clear();
        self.forget_outstanding();
        self.events.raise(Event::Closed);
    }

    /// Nobody would notice a peer that never closes: `tcp_fin_timeout`, `TCP_LINGER2`.
    fn limit_fin_wait_2(&mut self, now: Instant, time: Duration) {
        // Time for a lost ACK of ours to be asked for again (`tcp_fin_time`).
        let least = self.rto_nanos().get().saturating_mul(7) / 2;
        // As with Linux, whose compact form of such connections has no memory of that.
        self.receiver.discard_behind_gap();
        let time = time.max(Duration::from_nanos(least));
        self.timers.stop(Timer::KeepAlive);
        self.set_timer(Timer::Linger, now + time);
    }
}
