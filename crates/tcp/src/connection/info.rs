//! `TCP_INFO`.

use super::Connection;
use crate::congestion::BbrInfo;
use crate::outgoing::Outgoing;
use crate::{Info, Instant, Payload, State, WindowScales};

impl<P: Payload> Connection<P> {
    /// `tcpi_bytes_received`: as with Linux the peer's FIN counts as one.
    pub(super) fn octets_received(&self) -> u64 {
        self.cold.received.total(self.receiver.rcv_nxt)
    }

    /// `TCP_CC_INFO` of BBR; other algorithms have none.
    pub fn bbr_info(&self) -> Option<BbrInfo> {
        self.cold.recovery.congestion.bbr_info()
    }

    /// `TCP_INFO`.
    pub fn info(&self, now: Instant) -> Info {
        let mss = u32::from(self.mss());
        let segments = |octets: u32| octets.checked_div(mss).unwrap_or(0);
        let counts = self.cold.recovery.scoreboard().segments();
        let congestion = &self.cold.recovery.congestion;
        let ssthresh = congestion.ssthresh();
        let (has_syn_data, fast_open_failure) = self.fast_open_info();
        let none = Outgoing::default();
        let outgoing = self.cold.outgoing.as_deref().unwrap_or(&none);
        let [busy_time, rwnd_limited, sndbuf_limited] = outgoing.chronometer.times(now);
        Info {
            state: self.state,
            ca_state: self.cold.recovery.ca_state(),
            retransmits: if self.is_handshaking() {
                self.cold.handshake.retransmits
            } else {
                self.cold.recovery.timeouts()
            },
            probes: self.unanswered_probes,
            backoff: self
                .cold
                .recovery
                .rtt
                .backoff()
                .max(self.cold.probe_backoff),
            has_timestamps: self.timestamps.is_on(),
            has_sack: self.cold.handshake.has_sack,
            has_ecn: self.ecn.is_on,
            has_seen_ecn: self.ecn.is_seen,
            has_syn_data,
            fast_open_failure,
            window_scales: self
                .cold
                .handshake
                .has_window_scaling
                .then(|| WindowScales {
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
            last_data_sent: now - self.cold.recovery.last_sent_at().unwrap_or(Instant::ZERO),
            last_data_received: now - self.receiver.acks.last_data_at(),
            last_ack_received: now - self.last_ack_at,
            path_mtu: u32::from(self.path_mtu()),
            rcv_ssthresh: self.receiver.window.threshold(),
            rtt: self.cold.recovery.rtt.srtt().unwrap_or_default(),
            rtt_variance: self.cold.recovery.rtt.rttvar().unwrap_or_default(),
            snd_ssthresh: if ssthresh == u32::MAX {
                INFINITE_SSTHRESH
            } else {
                segments(ssthresh)
            },
            // In recovery it may be a part of a segment, which Linux, counting segments, takes for
            // one.
            snd_cwnd: segments(congestion.cwnd()).max(u32::from(congestion.cwnd() > 0)),
            advertised_mss: u32::from(self.received_mss()),
            reordering: self.cold.recovery.reordering(),
            rcv_rtt: self.receiver.window.tuning.rtt(),
            rcv_space: self.receiver.window.tuning.space(),
            total_retrans: self
                .cold
                .recovery
                .total_retransmissions()
                .saturating_add(self.cold.handshake.retransmits.into()),
            pacing_rate: match congestion.pacing() {
                Some(pacing) => pacing
                    .octets_per_second
                    .min(self.cold.options.max_pacing_rate),
                None => self.cold.options.max_pacing_rate,
            },
            max_pacing_rate: self.cold.options.max_pacing_rate,
            octets_acked: self.cold.sent.octets_acked,
            duplicate_acks: self.cold.sent.duplicate_acks,
            octets_received: self.octets_received(),
            segments_out: self.counters.segments_out,
            segments_in: self.counters.segments_in,
            octets_not_sent: self.sender.unsent(),
            min_rtt: self.cold.recovery.rtt.min_rtt().unwrap_or_default(),
            data_segments_in: self.counters.data_segments_in,
            data_segments_out: self.cold.sent.data_segments_out,
            delivery_rate: outgoing.delivery_rate.octets_per_second(),
            is_delivery_rate_app_limited: outgoing.delivery_rate.is_app_limited(),
            busy_time,
            rwnd_limited,
            sndbuf_limited,
            octets_sent: self.cold.sent.octets_sent,
            octets_retransmitted: self.cold.recovery.octets_retransmitted(),
            delivered: self
                .cold
                .recovery
                .scoreboard()
                .delivered()
                .wrapping_add(self.cold.recovery.dsack_duplicates())
                .wrapping_add(u32::from(self.state.is_synchronized())),
            delivered_ce: outgoing.delivered_ce,
            dsack_duplicates: self.cold.recovery.dsack_duplicates(),
            reorder_seen: self.cold.recovery.reorderings(),
            out_of_order_segments: self.cold.out_of_order_segments,
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
