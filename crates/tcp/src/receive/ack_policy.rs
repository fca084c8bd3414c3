//! When to acknowledge: at once or later (RFC 1122 §4.2.3.2, RFC 5681 §4.2), with Linux's adaptive
//! delay.

use core::time::Duration;

use crate::time::{Nanos, Span};
use crate::{Config, Instant, mss};

/// The delayed-acknowledgement state (`inet_connection_sock.icsk_ack`).
#[derive(Clone, Debug, Default)]
pub(crate) struct AckPolicy {
    /// Acknowledgements to send at once: one for data in order, one for each segment that must be a
    /// duplicate.
    owed: u8,
    /// One is due, at the latest when the timer of delayed acknowledgements says so.
    is_scheduled: bool,
    /// Acknowledgements that will not be delayed: at the start the peer's slow start needs them.
    quick: u8,
    /// None will ever be delayed.
    is_always_quick: bool,
    /// Data goes both ways: an acknowledgement will have data to ride on.
    is_interactive: bool,
    /// How often received data was marked PSH since the last acknowledgement, as far as 2.
    pushes: u8,
    /// The delay; zero before the first data.
    delay: Span,
    /// The retransmission timeout, a copy of what [`RttEstimator`](crate::rtt::RttEstimator) says:
    /// it is nearer.
    pub(crate) rto: Span,
    last_data_at: Instant,
    /// The peer's segment size, from what arrives (`rcv_mss`).
    rcv_mss: u16,
}

impl AckPolicy {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            is_always_quick: config.always_quick,
            rcv_mss: mss::DEFAULT_IPV4,
            ..Self::default()
        }
    }

    /// Data arrived in order (`tcp_event_data_recv`).
    #[inline]
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        len: u32,
        is_push: bool,
        config: &Config,
        window: u32,
    ) {
        self.is_scheduled = true;
        self.measure_rcv_mss(len, is_push);
        let half_minimum = Nanos::from(config.delayed_ack_min).get() / 2;
        if self.delay == Span::ZERO {
            // The first data: the peer is in slow start.
            self.grant_quick(config, window);
            self.delay = config.delayed_ack_min.into();
        } else {
            let gap = now.nanos_since(self.last_data_at);
            let half_delay = self.delay.nanos() / 2;
            if gap <= half_minimum {
                self.delay = Span::from_nanos(half_delay.saturating_add(half_minimum));
            } else if gap < self.delay.nanos() {
                self.delay = Span::from_nanos(half_delay.saturating_add(gap)).min(self.rto);
            } else if gap > self.rto.nanos() {
                // The peer restarted after idleness, perhaps in slow start.
                self.grant_quick(config, window);
            }
        }
        self.last_data_at = now;
    }

    fn measure_rcv_mss(&mut self, len: u32, is_push: bool) {
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        if len >= self.rcv_mss {
            self.rcv_mss = len;
        } else if is_push {
            // A short segment with PSH was short because there was no more.
            self.pushes = self.pushes.saturating_add(1).min(2);
        }
    }

    /// Something is wrong on the way: no delays for a while, even if data goes both ways.
    pub(crate) fn enter_quick_mode(&mut self, config: &Config, window: u32) {
        self.grant_quick(config, window);
        self.is_interactive = false;
        self.delay = config.delayed_ack_min.into();
    }

    /// As many acknowledgements at once as a window of half-segments has, at most the configured
    /// number.
    fn grant_quick(&mut self, config: &Config, window: u32) {
        let segments = window
            .checked_div(u32::from(self.rcv_mss).saturating_mul(2))
            .unwrap_or(0)
            .max(2);
        let quick = u8::try_from(segments)
            .unwrap_or(u8::MAX)
            .min(config.quick_acks);
        self.quick = self.quick.max(quick);
    }

    /// The handshake is over; idleness counts from here. `mss` is what segments of either side can
    /// be long, in octets: `rcv_mss` starts low and only rises by evidence
    /// (`tcp_initialize_rcv_mss`).
    pub(crate) fn on_established(&mut self, now: Instant, mss: u16, window: u32) {
        self.last_data_at = now;
        if self.delay == Span::ZERO {
            let half = u16::try_from(window / 2).unwrap_or(u16::MAX);
            self.rcv_mss = mss.min(half).clamp(mss::MIN_ANNOUNCED, mss::DEFAULT_IPV4);
        }
    }

    /// Acknowledgements wait for data to ride on.
    pub(crate) fn is_interactive(&self) -> bool {
        self.is_interactive
    }

    /// `TCP_QUICKACK`.
    pub(crate) fn set_quick(&mut self, on: bool, config: &Config) {
        if on {
            self.is_interactive = false;
            self.quick = self.quick.max(config.quick_acks);
            if self.is_scheduled {
                self.owe_one();
            }
        } else {
            self.is_interactive = true;
        }
    }

    /// One is due, and what the application is about to send will carry it.
    pub(crate) fn expect_reply(&mut self) {
        self.is_scheduled = true;
        self.is_interactive = true;
    }

    /// In order, but nothing may be delayed.
    pub(crate) fn is_quick(&self) -> bool {
        self.is_always_quick || (self.quick > 0 && !self.is_interactive)
    }

    /// Acknowledge at once; further data in order needs no second.
    #[inline]
    pub(crate) fn owe_one(&mut self) {
        self.owed = self.owed.max(1);
    }

    /// Acknowledge at once, and once for each segment that asks so: RFC 5681 §4.2: "A TCP receiver
    /// SHOULD send an immediate duplicate ACK when an out-of-order segment arrives".
    pub(crate) fn owe_duplicate(&mut self) {
        self.owed = self.owed.saturating_add(1);
    }

    #[inline]
    pub(crate) fn is_owed(&self) -> bool {
        self.owed > 0
    }

    /// Data came in order, and nothing that each asks for an acknowledgement.
    #[inline]
    pub(crate) fn is_owed_once(&self) -> bool {
        self.owed == 1
    }

    /// One is due, but may wait.
    pub(crate) fn schedule(&mut self) {
        self.is_scheduled = true;
    }

    /// One is due, if not at once.
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    /// An acknowledgement went out, with `has_data` as part of a data segment.
    #[inline]
    pub(crate) fn on_ack_sent(&mut self, now: Instant, has_data: bool) {
        self.owed = self.owed.saturating_sub(1);
        self.is_scheduled = false;
        self.pushes = 0;
        self.quick = self.quick.saturating_sub(1);
        if has_data {
            self.owed = 0;
            // A reply to what just came: `tcp_event_data_sent`.
            if now.nanos_since(self.last_data_at) < self.delay.nanos() {
                self.is_interactive = true;
            }
        }
    }

    /// The timer of delayed acknowledgements (`tcp_delack_timer_handler`).
    pub(crate) fn on_timeout(&mut self, config: &Config) {
        if !self.is_scheduled {
            return;
        }
        if self.is_interactive {
            self.is_interactive = false;
            self.delay = config.delayed_ack_min.into();
        } else {
            self.delay = self.delay.doubled().min(self.rto);
        }
        self.owe_one();
    }

    /// How long the acknowledgement may wait (`tcp_send_delayed_ack`).
    #[inline]
    pub(crate) fn delay(&self, srtt: impl Fn() -> Option<Duration>, config: &Config) -> Span {
        if self.delay <= config.delayed_ack_min.into() {
            return self.delay;
        }
        let is_bounded = self.is_interactive || self.pushes > 0;
        let mut most = if is_bounded {
            config.delayed_ack_max
        } else {
            MAX_DELAY
        };
        if let Some(srtt) = srtt() {
            most = most.min(srtt.max(config.delayed_ack_min));
        }
        self.delay.min(most.into())
    }

    /// Reading emptied the queue: whether the peer's last segment is to be acknowledged at once,
    /// for it may wait for that (`__tcp_cleanup_rbuf`).
    pub(crate) fn wants_ack_after_read(&self, unacknowledged: u32, is_queue_empty: bool) -> bool {
        self.is_scheduled
            && (unacknowledged > u32::from(self.rcv_mss)
                || (is_queue_empty && (self.pushes > 1 || self.pushes > 0 && !self.is_interactive)))
    }

    #[inline]
    pub(crate) fn rcv_mss(&self) -> u16 {
        self.rcv_mss
    }

    pub(crate) fn last_data_at(&self) -> Instant {
        self.last_data_at
    }

    /// The current delay, for `TCP_INFO`.
    pub(crate) fn ato(&self) -> Duration {
        self.delay.duration()
    }
}

/// RFC 9293 §3.8.6.3 (MUST-40): "the delay MUST be less than 0.5 seconds"; Linux's is half a
/// second.
const MAX_DELAY: Duration = Duration::from_millis(499);
