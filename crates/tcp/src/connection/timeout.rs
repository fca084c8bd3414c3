//! Timers: RFC 9293 §3.8.1, §3.8.3, §3.8.4, §3.8.6.1, and how long Linux tries.

use core::time::Duration;

use super::{Connection, Probe};
use crate::recovery::Timeout;
use crate::rtt::{DEFAULT_MIN_RTO, INITIAL_RTO};
use crate::timers::Timer;
use crate::{Error, Instant, Payload, State};

impl<P: Payload> Connection<P> {
    /// [`poll_timeout`](Self::poll_timeout)'s time has come; harmless before.
    /// [`poll_wake_up`](Self::poll_wake_up) tells the owner anew when to call.
    pub fn on_timeout(&mut self, now: Instant) {
        self.timers.on_wake_up();
        if self.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        if self.take_expired(Timer::DelayedAck, now) {
            self.receiver.acks.on_timeout(&self.config);
        }
        // What pacing held back is sent by the next `poll_transmit`.
        self.take_expired(Timer::Pacing, now);
        if self.take_expired(Timer::Linger, now) {
            self.enter_closed();
        }
        if self.take_expired(Timer::Retransmit, now) {
            if self.state.is_synchronized() {
                self.on_blocked_timeout(now);
            } else {
                self.on_handshake_timeout(now);
            }
        }
        if self.take_expired(Timer::Recovery, now) {
            self.on_recovery_timeout(now);
        }
        if self.take_expired(Timer::UserTimeout, now) {
            self.time_out(now);
        }
        if self.take_expired(Timer::KeepAlive, now) {
            self.on_keep_alive_timeout(now);
        }
    }

    /// RFC 5482: limits the time without an acknowledgement of anything new, from the first
    /// retransmission or window probe on (as Linux).
    fn start_user_timeout(&mut self, now: Instant) {
        if let Some(timeout) = self.user_timeout()
            && !self.timers.is_set(Timer::UserTimeout)
        {
            self.set_timer(Timer::UserTimeout, now + timeout);
        }
    }

    /// SYN or SYN-ACK was not answered.
    fn on_handshake_timeout(&mut self, now: Instant) {
        let retries = match (self.state, self.cold.options.syn_count) {
            // One more, since the application knows of the connection
            // (`tcp_fastopen_synack_timer`).
            (State::SynReceived, 0) if self.cold.handshake.is_fast_open => {
                self.config.syn_ack_retries.saturating_add(1)
            }
            (State::SynReceived, _) if !self.cold.handshake.is_fast_open => {
                self.config.syn_ack_retries
            }
            (_, 0) => self.config.syn_retries,
            (_, count) => count,
        };
        let linear = match self.state {
            State::SynSent => self.config.syn_linear_timeouts,
            _ => 0,
        };
        let limit = retries.saturating_add(linear);
        let waited = now - self.cold.retransmitting_since.unwrap_or(now);
        // As Linux (`retransmits_timed_out`): the equal intervals do not make it longer than
        // doubling ones would be.
        let most = self.time_of_retries(retries, INITIAL_RTO);
        let is_out_of_time = self.user_timeout().is_some_and(|timeout| waited >= timeout)
            || !self.cold.handshake.is_passive
                && self.cold.handshake.retransmits > 0
                && waited >= most;
        let is_last = self.cold.handshake.retransmits >= limit || is_out_of_time;
        self.suspect_fast_open(self.cold.handshake.retransmits, is_last);
        if is_last {
            if self.is_embryonic() {
                // Nobody knows of it yet.
                self.enter_closed();
            } else {
                self.time_out(now);
            }
            return;
        }
        self.measure_timeout(now, self.cold.handshake.retransmits == 0);
        self.cold.handshake.retransmits = self.cold.handshake.retransmits.saturating_add(1);
        if self.cold.handshake.retransmits > linear {
            self.cold.recovery.rtt.on_timeout();
        }
        // As Linux (`syn_ack_recalc`): a peer that has answered is reminded at the end of the wait
        // only.
        if self.cold.handshake.retransmits < self.cold.handshake.deferral {
            self.set_timer(Timer::Retransmit, now + self.rto_nanos());
        } else {
            self.pending.syn = true;
        }
    }

    fn on_recovery_timeout(&mut self, now: Instant) {
        let can_send_new = self.can_probe_with_new_data();
        let was_reducing = self.cold.recovery.is_reducing();
        let timeout = self.cold.recovery.on_timeout(now, can_send_new);
        if self.is_searching_mtu() {
            match timeout {
                Timeout::Retransmission => self.abandon_mtu_probe(),
                Timeout::Overdue => self.review_mtu_probe(),
                Timeout::Nothing | Timeout::Probe => {}
            }
        }
        self.follow_recovery();
        self.note_reduction(was_reducing && timeout != Timeout::Retransmission);
        if timeout == Timeout::Probe && can_send_new && self.sender.unsent() < u32::from(self.mss())
        {
            // RFC 8985 §7.3: "Transmit the lowest-sequence unsent segment", which Nagle or the cork
            // may hold back.
            self.sender.flush();
        }
        if timeout != Timeout::Retransmission {
            return;
        }
        self.start_user_timeout(now);
        let timeouts = self.cold.recovery.timeouts();
        self.measure_timeout(now, timeouts <= 1);
        if timeouts <= 1 {
            self.cold.retransmitting_since = Some(now);
            return;
        }
        let is_last = self.is_out_of_retransmissions(now);
        self.suspect_fast_open(timeouts.saturating_sub(1), is_last);
        if is_last {
            self.time_out(now);
        } else if timeouts > self.config.retries1 {
            self.suspect_black_hole(now);
        }
    }

    /// RFC 9293 §3.8.3 (R2), RFC 5482: `tcp_write_timeout`.
    fn is_out_of_retransmissions(&self, now: Instant) -> bool {
        let elapsed = now - self.cold.retransmitting_since.unwrap_or(now);
        if self.sender.snd_wnd == 0 && !self.is_orphan {
            // The peer closed its window over what it was sent, but lives.
            return now - self.last_ack_at > self.config.rto_max;
        }
        if self.user_timeout().is_some() {
            return false;
        }
        let retries = if self.is_orphan {
            self.orphan_retries(self.rto())
        } else {
            self.config.retries2
        };
        // Linux reckons `tcp_retries2` from `TCP_RTO_MIN`, whatever the timeout is. Its timeouts
        // are whole ticks of its clock: of the least timeout's 200 ms at least one more. Else a
        // path without delay got one retransmission more, of two minutes.
        elapsed.saturating_mul(201)
            >= self
                .time_of_retries(retries, DEFAULT_MIN_RTO)
                .saturating_mul(200)
    }

    /// `tcp_orphan_retries`. While the `interval` between retransmissions can still grow, 0 stands
    /// for 8; once it cannot, an ICMP error means none.
    fn orphan_retries(&self, interval: Duration) -> u8 {
        let is_patient = interval < self.config.rto_max;
        match self.config.orphan_retries {
            0 if is_patient => 8,
            _ if self.cold.soft_error.is_some() && !is_patient => 0,
            retries => retries,
        }
    }

    /// How long `retries` retransmissions take, if the timeout begins with `first` and doubles
    /// (`tcp_model_timeout`). With the least timeout as `first` a slow path gets as much time as a
    /// fast one, and fewer retransmissions.
    fn time_of_retries(&self, retries: u8, first: Duration) -> Duration {
        let mut total = Duration::ZERO;
        let mut timeout = first;
        for _ in 0..=retries {
            total = total.saturating_add(timeout);
            timeout = timeout.saturating_mul(2).min(self.config.rto_max);
        }
        total
    }

    /// Nothing is outstanding and data waits: for the peer's window or a full segment.
    fn on_blocked_timeout(&mut self, now: Instant) {
        if self.sender.is_outstanding() || !self.sender.has_unsent() {
            return;
        }
        let is_window_open =
            u32::try_from(self.sender.window_end().distance_from(self.sender.snd_nxt))
                .is_ok_and(|window| window >= self.sender.unsent().clamp(1, u32::from(self.mss())));
        if is_window_open {
            // Corked for long enough.
            self.sender.flush();
            return;
        }
        let interval = self.probe_interval();
        if self.pending.probe.is_some() {
            // The driver had no room for the last one (`tcp_send_probe0`, local congestion).
            self.set_timer(Timer::Retransmit, now + interval);
            return;
        }
        let limit = if self.is_orphan {
            self.orphan_retries(interval)
        } else {
            self.config.retries2
        };
        // Nobody else would end it: a peer that answers each probe could hold this side's memory
        // without end.
        let is_given_up =
            self.is_orphan && interval >= self.config.rto_max && self.cold.probe_backoff >= limit;
        // RFC 9293 §3.8.6.1: "As long as the receiving TCP peer continues to send acknowledgments
        // in response to the probe segments, the sending TCP peer MUST allow the connection to stay
        // open."
        if is_given_up || self.unanswered_probes >= limit {
            self.time_out(now);
            return;
        }
        self.start_user_timeout(now);
        self.unanswered_probes = self.unanswered_probes.saturating_add(1);
        self.cold.probe_backoff = self.cold.probe_backoff.saturating_add(1).min(MAX_BACKOFF);
        self.pending.probe = Some(Probe::Window);
        self.set_timer(Timer::Retransmit, now + self.probe_interval());
    }

    /// Between window probes.
    pub(super) fn probe_interval(&self) -> Duration {
        let shift = u32::from(self.cold.probe_backoff.min(MAX_BACKOFF));
        self.rto()
            .saturating_mul(1 << shift)
            .min(self.config.rto_max)
    }

    /// RFC 9293 §3.8.4: keepalive starts when the connection is open and its option on.
    pub(super) fn restart_keep_alive(&mut self, idle_since: Instant) {
        if self.cold.options.is_keep_alive && self.state.is_synchronized() {
            self.set_timer(Timer::KeepAlive, idle_since + self.cold.options.keep_idle());
        } else {
            self.timers.stop(Timer::KeepAlive);
        }
    }

    /// RFC 9293 §3.8.4, `tcp_keepalive_timer`.
    fn on_keep_alive_timeout(&mut self, now: Instant) {
        if !self.cold.options.is_keep_alive || !self.state.is_synchronized() {
            return;
        }
        // "Keep-alive packets MUST only be sent when no sent data is outstanding, and no data or
        // acknowledgment packets have been received for the connection within an interval".
        let elapsed = now - self.last_ack_at;
        let next = if self.sender.is_outstanding() || self.sender.has_unsent() {
            self.cold.options.keep_idle()
        } else if self.pending.probe.is_some() {
            // As with a window probe.
            self.cold.options.keep_interval()
        } else if elapsed >= self.cold.options.keep_idle() {
            let probes = self.unanswered_probes;
            let is_dead = match self.user_timeout() {
                Some(timeout) => elapsed >= timeout && probes > 0,
                None => probes >= self.cold.options.keep_count,
            };
            if is_dead {
                self.send_reset();
                self.time_out(now);
                return;
            }
            self.unanswered_probes = probes.saturating_add(1);
            self.pending.probe = Some(Probe::KeepAlive);
            self.cold.options.keep_interval()
        } else {
            self.cold.options.keep_idle().saturating_sub(elapsed)
        };
        self.set_timer(Timer::KeepAlive, now + next);
    }

    /// ETIMEDOUT, unless ICMP told why.
    fn time_out(&mut self, now: Instant) {
        self.measure_end(now);
        let error = self.cold.soft_error.take().unwrap_or(Error::TimedOut);
        self.fail(error);
    }
}

/// Doublings of an interval: enough to reach every `rto_max` from a millisecond.
const MAX_BACKOFF: u8 = 20;
