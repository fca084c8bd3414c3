//! What `TCP_INFO` tells of a connection (kernel `include/uapi/linux/tcp.h`).

use core::time::Duration;

use crate::State;

/// The values of `struct tcp_info` (Linux 6.12); octets and segments as there.
///
/// Not here, since Linux has no value for them either: `tcpi_fackets` and `tcpi_last_ack_sent`,
/// always 0. `tcpi_rehash` (how often another path was chosen by another hash of the flow) is 0,
/// too: there is no such choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub state: State,
    pub ca_state: CaState,
    /// Retransmission timeouts in a row (`tcpi_retransmits`), of the SYN or SYN-ACK before the
    /// handshake is over.
    pub retransmits: u8,
    /// Zero-window or keepalive probes without an answer.
    pub probes: u8,
    /// Doublings of the retransmission timeout, or of the interval of window probes.
    pub backoff: u8,
    pub has_timestamps: bool,
    pub has_sack: bool,
    pub has_ecn: bool,
    pub has_seen_ecn: bool,
    /// Data of a SYN was acknowledged (`TCPI_OPT_SYN_DATA`).
    pub has_syn_data: bool,
    /// `tcpi_fastopen_client_fail`
    pub fast_open_failure: FastOpenFailure,
    /// `None` without window scaling.
    pub window_scales: Option<WindowScales>,
    pub rto: Duration,
    /// Delayed acknowledgement timeout.
    pub ato: Duration,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    /// Outstanding, in segments, as are the next three.
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent: Duration,
    pub last_data_received: Duration,
    pub last_ack_received: Duration,
    pub path_mtu: u32,
    /// The most that the receive window grows to at present, in octets.
    pub rcv_ssthresh: u32,
    pub rtt: Duration,
    pub rtt_variance: Duration,
    /// In segments, `u32::MAX / 2` for none, as Linux shows it.
    pub snd_ssthresh: u32,
    /// In segments.
    pub snd_cwnd: u32,
    pub advertised_mss: u32,
    /// By how many segments the network lets one overtake another.
    pub reordering: u32,
    /// The round-trip time as the receiver sees it; zero without a measurement.
    pub rcv_rtt: Duration,
    /// Octets that the application read in a round trip, for auto-tuning.
    pub rcv_space: u32,
    /// Segments sent again, the handshake's included.
    pub total_retrans: u32,
    /// Octets a second; `u64::MAX` if nothing is paced, where Linux shows at which rate it would.
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    /// In sequence numbers: the SYN of an active open counts (which Linux makes so), and FIN.
    pub octets_acked: u64,
    /// Received for nothing new while something was unacknowledged (RFC 5681 §2); Linux shows none.
    pub duplicate_acks: u32,
    /// In sequence numbers: FIN counts.
    pub octets_received: u64,
    /// Without the SYN-ACKs of a passive open, whose SYN and last ACK are `segments_in` (which
    /// Linux makes so).
    pub segments_out: u32,
    pub segments_in: u32,
    pub octets_not_sent: u32,
    pub min_rtt: Duration,
    pub data_segments_in: u32,
    pub data_segments_out: u32,
    /// Octets a second (`tcpi_delivery_rate`), 0 before there is a measurement.
    pub delivery_rate: u64,
    /// The application, not the network, made it what it is (`tcpi_delivery_rate_app_limited`).
    pub is_delivery_rate_app_limited: bool,
    /// There was something to send, or unacknowledged.
    pub busy_time: Duration,
    /// Of that: held back by the peer's window.
    pub rwnd_limited: Duration,
    /// Of that: the send buffer was too small for the network.
    pub sndbuf_limited: Duration,
    pub octets_sent: u64,
    pub octets_retransmitted: u64,
    /// Segments that arrived at the peer, the SYN and duplicates included.
    pub delivered: u32,
    /// Of these, those that arrived along with a congestion mark.
    pub delivered_ce: u32,
    pub dsack_duplicates: u32,
    pub reorder_seen: u32,
    pub out_of_order_segments: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    /// Retransmission timeouts, the handshake's included.
    pub total_rto: u16,
    /// Episodes of them, one that is going on included.
    pub total_rto_recoveries: u16,
    /// Time spent in these.
    pub total_rto_time: Duration,
}

/// The shifts of the two windows (RFC 7323 §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowScales {
    pub snd: u8,
    pub rcv: u8,
}

/// Why data did not go with the SYN, or not for good: with the numbers of `enum
/// tcp_fastopen_client_fail`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastOpenFailure {
    /// It did, or was not to.
    #[default]
    None = 0,
    NoCookie = 1,
    /// The SYN-ACK acknowledged less.
    NotAcknowledged = 2,
    /// It, or its answer, was lost.
    SynRetransmitted = 3,
}

/// Congestion state, with the numbers of `enum tcp_ca_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaState {
    #[default]
    Open = 0,
    Disorder = 1,
    /// Reduced because of ECN.
    Cwr = 2,
    Recovery = 3,
    Loss = 4,
}
