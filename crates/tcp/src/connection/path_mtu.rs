//! The segment size that the path takes: told by the network (RFC 1191), or found (RFC 4821).
//!
//! Differences from RFC 4821, all of them Linux's: the search is by halves of the interval (§7.3
//! leaves that open), a probe carries data of the stream (§7.4), and the congestion window stays
//! what it is when one is lost alone (§7.6.2). There are no probes without SACK, which tells
//! whether what followed has arrived.

use wire::tcp::MIN_HEADER_LEN;

use super::Connection;
use crate::path::search::{MtuProbe, MtuSearch};
use crate::recovery::SentSegment;
use crate::send::NewSegment;
use crate::{CaState, Instant, MtuProbing, Payload, Transmit};

/// What [`Connection::emit_mtu_probe`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probing {
    /// Nothing: other segments may go.
    Idle,
    /// A probe is due, for which there will be room when what is in flight has arrived.
    Waits,
    Sent,
}

impl<P: Payload> Connection<P> {
    /// RFC 1191 §6.4. No MTU below Linux's `min_pmtu` is believed; in IPv6 a message that tells of
    /// less than every link carries is none (RFC 8201 §4: it must not reduce the estimate below
    /// that).
    pub(super) fn on_packet_too_big(&mut self, mtu: u16) {
        let least = self.cold.path.min_mtu();
        if self.cold.path.is_ipv6() && mtu < least {
            return;
        }
        let mtu = mtu.max(least);
        let probe = self.mtu_search().and_then(|search| search.probe());
        let is_probe_too_big = probe.is_some_and(|probe| mtu < probe.mtu);
        if let Some(search) = self.mtu_search_mut() {
            if is_probe_too_big {
                search.on_lost();
            }
            if mtu < search.mtu() || is_probe_too_big {
                search.set_path_mtu(mtu, mtu);
            }
        }
        if mtu < self.cold.path.mtu {
            self.cold.path.mtu = mtu;
            self.apply_mss(true);
            self.repeat_syn_that_was_too_big();
        } else if is_probe_too_big {
            self.apply_mss(true);
        }
    }

    /// The network layer knows the path better: a route has changed, or a larger packet may be
    /// tried again.
    pub fn set_path_mtu(&mut self, mtu: u16) {
        let mut mtu = mtu.max(self.cold.path.min_mtu());
        let most = self.largest_packet();
        if let Some(search) = self.mtu_search_mut() {
            search.set_path_mtu(mtu, most);
            mtu = search.mtu();
        }
        let is_smaller = mtu < self.cold.path.mtu;
        self.cold.path.mtu = mtu;
        self.apply_mss(is_smaller);
    }

    /// With `is_too_big` what is outstanding did not fit and is sent again.
    fn apply_mss(&mut self, is_too_big: bool) {
        if self.state.is_synchronized() {
            self.cold
                .recovery
                .set_mss(u32::from(self.mss()), is_too_big);
        }
    }

    /// The handshake is over. As a client of Linux: if probing is always on, it begins with small
    /// segments.
    pub(super) fn start_mtu_probing(&mut self, now: Instant) {
        if self.config.mtu_probing == MtuProbing::Always {
            self.search_mtu(now);
            self.cold.path.mtu = self.mtu_search().map_or(self.cold.path.mtu, MtuSearch::mtu);
        }
    }

    fn search_mtu(&mut self, now: Instant) {
        let low = self.packet_of(self.config.base_mss);
        let search = MtuSearch::new(low, self.largest_packet(), self.cold.path.mtu, now);
        self.outgoing().mtu_search = Some(Box::new(search));
    }

    /// RFC 4821 §7.7, RFC 2923 §2.1: large segments vanish without a word. As Linux
    /// (`tcp_mtu_probing`): `base_mss`, then half of what was tried, and so on.
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        if self.config.mtu_probing == MtuProbing::Off {
            return;
        }
        if self.mtu_search().is_none() {
            self.search_mtu(now);
        } else {
            let smaller = (self.mss() / 2)
                .min(self.config.base_mss)
                .max(self.config.mtu_probe_floor)
                .max(MIN_BLACK_HOLE_MSS);
            let mtu = self.packet_of(smaller);
            if let Some(search) = self.mtu_search_mut() {
                search.fall_back(mtu);
            }
        }
        let mtu = self.mtu_search().map_or(self.cold.path.mtu, MtuSearch::mtu);
        if mtu < self.cold.path.mtu {
            self.cold.path.mtu = mtu;
            self.apply_mss(true);
        }
    }

    /// Sends a segment larger than the others if one is to be sent and all is calm: enough data,
    /// and enough window for what shows whether it has arrived (`tcp_mtu_probe`; RFC 4821 §7.4).
    #[cold]
    pub(super) fn emit_mtu_probe(&mut self, now: Instant, transmit: &mut Transmit) -> Probing {
        let mss = u32::from(self.mss());
        let most = self.largest_packet();
        let (threshold, interval) = (
            self.config.mtu_probe_threshold,
            self.config.mtu_probe_interval,
        );
        let cwnd = self.cold.recovery.congestion.cwnd();
        if !self.cold.handshake.has_sack
            || self.receiver.has_sack_blocks()
            || self.sender.has_marks()
            || self.cold.recovery.ca_state() != CaState::Open
            || cwnd < mss.saturating_mul(MIN_WINDOW_SEGMENTS)
        {
            return Probing::Idle;
        }
        let size = self
            .mtu_search_mut()
            .and_then(|search| search.next_mtu(now, most, threshold, interval));
        let Some(mtu) = size else {
            return Probing::Idle;
        };
        let len = u32::from(mtu.saturating_sub(self.headers_len()));
        let following = self.cold.recovery.reordering().saturating_add(1);
        let needed = following.saturating_mul(mss).saturating_add(len);
        if len <= mss || self.sender.unsent() < needed || self.sender.snd_wnd < needed {
            return Probing::Idle;
        }
        let has_room = self.cold.recovery.room() >= len.max(mss.saturating_mul(2));
        let is_outstanding = self.sender.is_outstanding();
        if self.sender.snd_nxt + needed > self.sender.window_end() || !has_room {
            return if is_outstanding {
                Probing::Waits
            } else {
                Probing::Idle
            };
        }
        if self.hold_for_pacing(now) {
            return Probing::Waits;
        }
        let start = self.sender.snd_nxt;
        let segment = NewSegment {
            start,
            len,
            is_fin: false,
            is_push: false,
        };
        self.emit_new(now, &segment, len, transmit);
        let end = start + len;
        if let Some(search) = self.mtu_search_mut() {
            search.on_sent(MtuProbe { mtu, start, end });
        }
        Probing::Sent
    }

    /// An acknowledgement, or a timer, may have decided about the probe.
    #[cold]
    pub(super) fn review_mtu_probe(&mut self) {
        let snd_una = self.sender.snd_una;
        let Some(search) = self.mtu_search_mut() else {
            return;
        };
        let Some(probe) = search.probe() else {
            return;
        };
        if search.on_ack(snd_una) {
            self.cold.path.mtu = self.cold.path.mtu.max(probe.mtu);
            self.apply_mss(false);
            return;
        }
        // Recovery has cut it, to send it again.
        let first = self.cold.recovery.scoreboard().first();
        if first.is_some_and(|first| first.seq == probe.start && first.end() < probe.end)
            && let Some(search) = self.mtu_search_mut()
        {
            search.on_lost();
        }
    }

    /// Whether what is to be sent again is the probe. Then it is cut into segments that are known
    /// to arrive.
    #[cold]
    pub(super) fn takes_back_mtu_probe(&mut self, lost: &SentSegment) -> bool {
        let probe = self.mtu_search().and_then(|search| search.probe());
        let is_probe = probe.is_some_and(|probe| probe.start == lost.seq);
        if is_probe {
            self.abandon_mtu_probe();
        }
        is_probe
    }

    /// Other segments were lost, too.
    pub(super) fn abandon_mtu_probe(&mut self) {
        if let Some(search) = self.mtu_search_mut()
            && search.probe().is_some()
        {
            search.abandon();
            self.apply_mss(false);
        }
    }

    /// The size of a packet with `mss` octets of payload.
    fn packet_of(&self, mss: u16) -> u16 {
        mss.saturating_add(self.headers_len())
    }

    /// Headers of a segment with the options that every one carries.
    fn headers_len(&self) -> u16 {
        self.cold
            .path
            .ip_header_len
            .saturating_add(MIN_HEADER_LEN)
            .saturating_add(self.options_len())
    }

    /// The largest packet that the peer takes, and the application allows.
    fn largest_packet(&self) -> u16 {
        self.cold
            .handshake
            .peer_mss
            .saturating_add(self.cold.path.ip_header_len)
            .saturating_add(MIN_HEADER_LEN)
    }

    /// The path MTU that the network layer has reported, whether or not segments use all of it.
    pub(super) fn path_mtu(&self) -> u16 {
        self.mtu_search()
            .map_or(self.cold.path.mtu, MtuSearch::path_mtu)
    }

    #[inline]
    pub(super) fn is_searching_mtu(&self) -> bool {
        self.mtu_search().is_some()
    }

    #[inline]
    fn mtu_search(&self) -> Option<&MtuSearch> {
        self.cold.outgoing.as_deref()?.mtu_search.as_deref()
    }

    fn mtu_search_mut(&mut self) -> Option<&mut MtuSearch> {
        self.cold.outgoing.as_deref_mut()?.mtu_search.as_deref_mut()
    }
}

/// `tcp_min_snd_mss` and a little sense.
const MIN_BLACK_HOLE_MSS: u16 = 256;
/// The smallest congestion window for a probe, in segments: one must not take most of it.
const MIN_WINDOW_SEGMENTS: u32 = 11;
