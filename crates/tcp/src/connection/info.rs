//! Counters and `TCP_INFO`.

use super::Connection;
use crate::outgoing::Outgoing;
use crate::{Info, Instant, Payload, State, WindowScales};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) segments_in: u32,
    pub(super) segments_out: u32,
    pub(super) data_segments_in: u32,
    pub(super) data_segments_out: u32,
    pub(super) octets_acked: u64,
    pub(super) octets_received: u64,
    pub(super) octets_sent: u64,
}

impl Counters {
    #[inline]
    pub(super) fn on_data_sent(&mut self, len: u32) {
        if len > 0 {
            self.data_segments_out = self.data_segments_out.wrapping_add(1);
            self.octets_sent = self.octets_sent.wrapping_add(u64::from(len));
        }
    }
}

impl<P: Payload> Connection<P> {
    /// `TCP_INFO`.
    pub fn info(&self, now: Instant) -> Info {
        let mss = u32::from(self.mss());
        let segments = |octets: u32| octets.checked_div(mss).unwrap_or(0);
        let counts = self.recovery.scoreboard().segments();
        let congestion = &self.recovery.congestion;
        let ssthresh = congestion.ssthresh();
        let (has_syn_data, fast_open_failure) = self.fast_open_info();
        let none = Outgoing::default();
        let outgoing = self.outgoing.as_deref().unwrap_or(&none);
        let [busy_time, rwnd_limited, sndbuf_limited] = outgoing.chronometer.times(now);
        Info {
            state: self.state,
            ca_state: self.recovery.ca_state(),
            retransmits: if self.is_handshaking() {
                self.handshake.retransmits
            } else {
                self.recovery.timeouts()
            },
            probes: self.liveness.probes,
            backoff: self.recovery.rtt.backoff().max(self.liveness.probe_backoff),
            has_timestamps: self.timestamps.is_on,
            has_sack: self.handshake.has_sack,
            has_ecn: self.ecn.is_on,
            has_seen_ecn: self.ecn.is_seen,
            has_syn_data,
            fast_open_failure,
            window_scales: self.handshake.has_window_scaling.then(|| WindowScales {
                snd: self.sender.scale,
                rcv: self.receiver.window.scale(),
            }),
            rto: self.rto(),
            ato: self.receiver.acks.ato(),
            snd_mss: mss,
            rcv_mss: u32::from(self.receiver.acks.rcv_mss()),
            unacked: counts.outstanding,
            sacked: counts.sacked,
            lost: counts.lost,
            retrans: counts.retransmitted,
            last_data_sent: now - self.recovery.last_sent_at().unwrap_or(Instant::ZERO),
            last_data_received: now - self.receiver.acks.last_data_at(),
            last_ack_received: now - self.liveness.last_ack_at,
            path_mtu: u32::from(self.path_mtu()),
            rcv_ssthresh: self.receiver.window.threshold(),
            rtt: self.recovery.rtt.srtt().unwrap_or_default(),
            rtt_variance: self.recovery.rtt.rttvar().unwrap_or_default(),
            snd_ssthresh: if ssthresh == u32::MAX {
                INFINITE_SSTHRESH
            } else {
                segments(ssthresh)
            },
            // In recovery it may be a part of a segment, which Linux, counting segments, takes for one.
            snd_cwnd: segments(congestion.cwnd()).max(u32::from(congestion.cwnd() > 0)),
            advertised_mss: u32::from(self.received_mss()),
            reordering: self.recovery.reordering(),
            rcv_rtt: self.receiver.window.rtt(),
            rcv_space: self.receiver.window.space(),
            total_retrans: self
                .recovery
                .total_retransmissions()
                .saturating_add(self.handshake.retransmits.into()),
            pacing_rate: self.options.max_pacing_rate,
            max_pacing_rate: self.options.max_pacing_rate,
            octets_acked: self.counters.octets_acked,
            octets_received: self
                .counters
                .octets_received
                .saturating_add(self.receiver.has_received_fin().into()),
            segments_out: self.counters.segments_out,
            segments_in: self.counters.segments_in,
            octets_not_sent: self.sender.unsent(),
            min_rtt: self.recovery.rtt.min_rtt().unwrap_or_default(),
            data_segments_in: self.counters.data_segments_in,
            data_segments_out: self.counters.data_segments_out,
            delivery_rate: outgoing.delivery_rate.octets_per_second(),
            is_delivery_rate_app_limited: outgoing.delivery_rate.is_app_limited(),
            busy_time,
            rwnd_limited,
            sndbuf_limited,
            octets_sent: self.counters.octets_sent,
            octets_retransmitted: self.recovery.octets_retransmitted(),
            delivered: self
                .recovery
                .scoreboard()
                .delivered()
                .wrapping_add(self.recovery.dsack_duplicates())
                .wrapping_add(u32::from(self.state.is_synchronized())),
            delivered_ce: outgoing.delivered_ce,
            dsack_duplicates: self.recovery.dsack_duplicates(),
            reorder_seen: self.recovery.reorderings(),
            out_of_order_segments: self.receiver.out_of_order_count,
            snd_wnd: self.sender.snd_wnd,
            rcv_wnd: self.receiver.window.remaining(self.receiver.rcv_nxt),
            total_rto: outgoing.timeouts.total(),
            total_rto_recoveries: outgoing.timeouts.episodes(),
            total_rto_time: outgoing.timeouts.time(now),
        }
    }

    /// What is sent again is the SYN or its answer.
    fn is_handshaking(&self) -> bool {
        matches!(self.state, State::SynSent | State::SynReceived)
    }
}

/// `TCP_INFINITE_SSTHRESH`
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
