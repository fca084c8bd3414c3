//! What others see of a connection: what it is ready for, and its statistics.

use std::time::Duration;

use ::tcp::{Instant, State};

use crate::sockets::events;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

use crate::tcp::stream::Stream;

/// Room to write: `tcp_poll` reports no more of [`events::OUT`].
pub(super) const WRITABLE: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

impl<S: Stack> Stream<S> {
    /// Brings the socket's readiness up to date, as `tcp_poll` would report it.
    #[inline]
    pub(in crate::tcp) fn show_readiness(&self, core: &SocketCore<S>) {
        let bits = self.readiness();
        let known = core.readiness.now();
        if bits != known {
            core.readiness.set(bits);
            core.readiness.clear(known & !bits);
        }
    }

    #[inline]
    fn readiness(&self) -> u32 {
        let connection = &self.connection;
        let state = connection.state();
        let mut bits = 0;
        if state != State::SynSent {
            let is_over = self.is_over();
            let is_read_shut = self.is_read_shut || is_over || state.has_peer_fin();
            let is_write_shut = self.is_write_shut || is_over;
            if is_read_shut && is_write_shut {
                bits |= events::HUP;
            }
            if is_read_shut {
                bits |= events::IN | events::RDHUP;
            }
            if connection.is_readable() && !self.gate.hides() {
                bits |= events::IN;
            }
            if is_write_shut || connection.is_writable() {
                bits |= WRITABLE;
            }
            if connection.has_urgent() {
                bits |= events::PRI;
            }
        }
        if connection.has_error() {
            bits |= events::ERR;
        }
        bits
    }

    /// Shows readers how the connection is. Not with every segment: it costs as much as one.
    #[cold]
    pub(in crate::tcp) fn refresh_statistics(&self, core: &SocketCore<S>, now: Instant) {
        let state = u32::from(self.connection.state().linux_number());
        let counters = core.counters();
        counters.tcp_state.set(state);
        counters
            .tx_queue_bytes
            .set(self.connection.unacknowledged_len() as u64);
        counters
            .rx_queue_bytes
            .set(self.connection.readable_len() as u64);
        let info = self.connection.info(now);
        let more =
            |counter: &stats::Counter, now: u32| u64::from(now).saturating_sub(counter.value());
        let retransmits = info.total_retrans;
        counters
            .tx_retransmits
            .add(more(&counters.tx_retransmits, retransmits));
        let Some(slot) = &self.slot else {
            return;
        };
        let numbers = self.connection.numbers();
        let mss = u64::from(info.snd_mss);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        slot.state.set(state);
        slot.snd_una.set(numbers.snd_una.0);
        slot.snd_nxt.set(numbers.snd_nxt.0);
        slot.rcv_nxt.set(numbers.rcv_nxt.0);
        slot.mss.set(info.snd_mss);
        slot.cwnd.set(u64::from(info.snd_cwnd) * mss);
        slot.ssthresh.set(u64::from(info.snd_ssthresh) * mss);
        slot.snd_wnd.set(info.snd_wnd.into());
        slot.rcv_wnd.set(info.rcv_wnd.into());
        slot.srtt_usec.set(micros(info.rtt));
        slot.rttvar_usec.set(micros(info.rtt_variance));
        slot.rto_usec.set(micros(info.rto));
        slot.unacked_bytes
            .set(u64::from(numbers.snd_nxt - numbers.snd_una));
        slot.tx_queue_bytes
            .set(self.connection.unacknowledged_len() as u64);
        slot.rx_queue_bytes
            .set(self.connection.readable_len() as u64);
        slot.retransmits.add(more(&slot.retransmits, retransmits));
        let timeouts = info.total_rto.into();
        slot.timeouts.add(more(&slot.timeouts, timeouts));
        let duplicate_acks = info.duplicate_acks;
        slot.duplicate_acks
            .add(more(&slot.duplicate_acks, duplicate_acks));
        let out_of_order = info.out_of_order_segments;
        slot.out_of_order
            .add(more(&slot.out_of_order, out_of_order));
    }
}
