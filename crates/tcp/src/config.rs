//! What all connections of a stack share: the `net.ipv4.tcp_*` settings (kernel
//! `Documentation/networking/ip-sysctl.rst`) and the constants of `include/net/tcp.h`.

use core::time::Duration;

use crate::FastOpenModes;
use crate::rtt::{DEFAULT_MAX_RTO, DEFAULT_MIN_RTO};

/// Shared by all connections, in an `Arc`. The defaults are Linux's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `tcp_window_scaling` (RFC 7323 §2).
    pub window_scaling: bool,
    /// `tcp_timestamps` (RFC 7323 §3).
    pub timestamps: bool,
    /// `tcp_sack` (RFC 2018).
    pub sack: bool,
    /// `tcp_dsack` (RFC 2883).
    pub dsack: bool,
    /// `tcp_ecn`.
    pub ecn: EcnMode,
    /// `tcp_rfc1337`: TIME-WAIT ignores resets.
    pub rfc1337: bool,
    /// Segments of the initial window (RFC 6928).
    pub initial_window_segments: u8,
    /// `tcp_slow_start_after_idle` (RFC 5681 §4.1).
    pub slow_start_after_idle: bool,
    /// `tcp_reordering`: duplicates that mean loss before there is anything better to go by.
    pub reordering: u8,
    /// TLP (RFC 8985 §7), bit of `tcp_early_retrans`.
    pub tail_loss_probe: bool,
    /// The least retransmission timeout (`TCP_RTO_MIN`); down to 1 ms.
    pub rto_min: Duration,
    /// The greatest (`TCP_RTO_MAX`).
    pub rto_max: Duration,
    /// `tcp_syn_retries`: retransmissions of a SYN with doubling intervals.
    pub syn_retries: u8,
    /// `tcp_syn_linear_timeouts`: those before, with equal intervals.
    pub syn_linear_timeouts: u8,
    /// `tcp_synack_retries`.
    pub syn_ack_retries: u8,
    /// `tcp_retries1`: retransmissions after which the path is suspected.
    pub retries1: u8,
    /// `tcp_retries2`: the timeout of an established connection, as the time that so many
    /// retransmissions take.
    pub retries2: u8,
    /// `tcp_orphan_retries`, where 0 stands for 8.
    pub orphan_retries: u8,
    /// How long an acknowledgement is delayed at least, if it is (`TCP_DELACK_MIN`).
    pub delayed_ack_min: Duration,
    /// How long one is delayed at most that data of this side may carry (`TCP_DELACK_MAX`).
    pub delayed_ack_max: Duration,
    /// `tcp_fin_timeout`: how long an orphan stays in FIN-WAIT-2.
    pub fin_timeout: Duration,
    /// 2 MSL (`TCP_TIMEWAIT_LEN`).
    pub time_wait: Duration,
    /// `tcp_rmem[1]`: the receive buffer to begin with, in octets.
    pub receive_buffer_default: u32,
    /// `tcp_wmem[1]`: the send buffer to begin with, in octets.
    pub send_buffer_default: u32,
    /// `tcp_rmem[2]`: how far the receive buffer grows by itself, in octets.
    pub receive_buffer_max: u32,
    /// `tcp_wmem[2]`: how far the send buffer grows by itself, in octets.
    pub send_buffer_max: u32,
    /// `tcp_moderate_rcvbuf`.
    pub moderate_receive_buffer: bool,
    /// `tcp_invalid_ratelimit`: acknowledgements of invalid segments are this far apart.
    pub invalid_ratelimit: Duration,
    /// `tcp_mtu_probing` (RFC 4821).
    pub mtu_probing: MtuProbing,
    /// `tcp_base_mss`: where that begins, in octets.
    pub base_mss: u16,
    /// `tcp_mtu_probe_floor`: the least MSS for a path that swallows everything, in octets; never
    /// below 256.
    pub mtu_probe_floor: u16,
    /// `tcp_probe_threshold`: bounds so close to each other, in octets, end the search.
    pub mtu_probe_threshold: u16,
    /// `tcp_probe_interval`: until it begins anew.
    pub mtu_probe_interval: Duration,
    /// Segments acknowledged at once at the start of a connection (`TCP_MAX_QUICKACKS`).
    pub quick_acks: u8,
    /// No acknowledgement is delayed (`RTAX_QUICKACK`; VMA's `VMA_TCP_QUICKACK`).
    pub always_quick: bool,
    /// `tcp_abort_on_overflow`.
    pub abort_on_overflow: bool,
    /// `tcp_syncookies`.
    pub syn_cookies: SynCookies,
    /// SYNs a second that one listening socket answers (`VMA_TCP_MAX_SYN_RATE`); 0 for no limit.
    pub syn_rate_max: u32,
    /// `tcp_fastopen` (RFC 7413).
    pub fast_open: FastOpenModes,
    /// `tcp_fastopen_blackhole_timeout_sec`: how long Fast Open is not used after a network has
    /// swallowed a connection; zero for that it goes on.
    pub fast_open_black_hole_timeout: Duration,
}

/// `tcp_syncookies` (RFC 4987 §3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynCookies {
    /// A SYN that finds the queue full is ignored.
    Never,
    /// A SYN that finds the queue full is answered with one.
    WhenFull,
    /// Every SYN is.
    Always,
}

/// `tcp_ecn` (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnMode {
    /// Never.
    Off,
    /// Ask for it and agree to it.
    On,
    /// Agree to it.
    Passive,
}

/// `tcp_mtu_probing`: whether the segment size that a path takes is searched for (RFC 4821).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuProbing {
    /// What the network layer says is believed.
    #[default]
    Off,
    /// When the path seems to swallow large packets.
    AfterBlackHole,
    /// From small segments on.
    Always,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window_scaling: true,
            timestamps: true,
            sack: true,
            dsack: true,
            ecn: EcnMode::Passive,
            rfc1337: false,
            initial_window_segments: 10,
            slow_start_after_idle: true,
            reordering: 3,
            tail_loss_probe: true,
            rto_min: DEFAULT_MIN_RTO,
            rto_max: DEFAULT_MAX_RTO,
            syn_retries: 6,
            syn_linear_timeouts: 4,
            syn_ack_retries: 5,
            retries1: 3,
            retries2: 15,
            orphan_retries: 0,
            delayed_ack_min: Duration::from_millis(40),
            delayed_ack_max: Duration::from_millis(200),
            fin_timeout: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
            receive_buffer_default: 128 << 10,
            send_buffer_default: 16 << 10,
            receive_buffer_max: 6 << 20,
            send_buffer_max: 4 << 20,
            moderate_receive_buffer: true,
            invalid_ratelimit: Duration::from_millis(500),
            mtu_probing: MtuProbing::Off,
            base_mss: 1024,
            mtu_probe_floor: 48,
            mtu_probe_threshold: 8,
            mtu_probe_interval: Duration::from_secs(600),
            quick_acks: 16,
            always_quick: false,
            abort_on_overflow: false,
            syn_cookies: SynCookies::WhenFull,
            syn_rate_max: 0,
            fast_open: FastOpenModes::default(),
            fast_open_black_hole_timeout: Duration::ZERO,
        }
    }
}
