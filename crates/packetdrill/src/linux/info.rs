//! `struct tcp_info` by the names of its fields.

use super::sys;

/// Name, offset and size of the fields (kernel `include/uapi/linux/tcp.h`).
const FIELDS: &[(&str, usize, usize)] = &[
    ("tcpi_state", 0, 1),
    ("tcpi_ca_state", 1, 1),
    ("tcpi_retransmits", 2, 1),
    ("tcpi_probes", 3, 1),
    ("tcpi_backoff", 4, 1),
    ("tcpi_options", 5, 1),
    ("tcpi_rto", 8, 4),
    ("tcpi_ato", 12, 4),
    ("tcpi_snd_mss", 16, 4),
    ("tcpi_rcv_mss", 20, 4),
    ("tcpi_unacked", 24, 4),
    ("tcpi_sacked", 28, 4),
    ("tcpi_lost", 32, 4),
    ("tcpi_retrans", 36, 4),
    ("tcpi_fackets", 40, 4),
    ("tcpi_last_data_sent", 44, 4),
    ("tcpi_last_ack_sent", 48, 4),
    ("tcpi_last_data_recv", 52, 4),
    ("tcpi_last_ack_recv", 56, 4),
    ("tcpi_pmtu", 60, 4),
    ("tcpi_rcv_ssthresh", 64, 4),
    ("tcpi_rtt", 68, 4),
    ("tcpi_rttvar", 72, 4),
    ("tcpi_snd_ssthresh", 76, 4),
    ("tcpi_snd_cwnd", 80, 4),
    ("tcpi_advmss", 84, 4),
    ("tcpi_reordering", 88, 4),
    ("tcpi_rcv_rtt", 92, 4),
    ("tcpi_rcv_space", 96, 4),
    ("tcpi_total_retrans", 100, 4),
    ("tcpi_pacing_rate", 104, 8),
    ("tcpi_max_pacing_rate", 112, 8),
    ("tcpi_bytes_acked", 120, 8),
    ("tcpi_bytes_received", 128, 8),
    ("tcpi_segs_out", 136, 4),
    ("tcpi_segs_in", 140, 4),
    ("tcpi_notsent_bytes", 144, 4),
    ("tcpi_min_rtt", 148, 4),
    ("tcpi_data_segs_in", 152, 4),
    ("tcpi_data_segs_out", 156, 4),
    ("tcpi_delivery_rate", 160, 8),
    ("tcpi_busy_time", 168, 8),
    ("tcpi_rwnd_limited", 176, 8),
    ("tcpi_sndbuf_limited", 184, 8),
    ("tcpi_delivered", 192, 4),
    ("tcpi_delivered_ce", 196, 4),
    ("tcpi_bytes_sent", 200, 8),
    ("tcpi_bytes_retrans", 208, 8),
    ("tcpi_dsack_dups", 216, 4),
    ("tcpi_reord_seen", 220, 4),
    ("tcpi_rcv_ooopack", 224, 4),
    ("tcpi_snd_wnd", 228, 4),
    ("tcpi_rcv_wnd", 232, 4),
    ("tcpi_rehash", 236, 4),
    ("tcpi_total_rto", 240, 2),
    ("tcpi_total_rto_recoveries", 242, 2),
    ("tcpi_total_rto_time", 244, 4),
];

/// The value of a field of socket `fd`'s `TCP_INFO`.
pub(crate) fn value(fd: i32, name: &str) -> Option<i64> {
    let mut structure = [0; 256];
    let length = sys::option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut structure).ok()?;
    let scale = structure[6];
    match name {
        "tcpi_snd_wscale" => return Some(i64::from(scale & 0xf)),
        "tcpi_rcv_wscale" => return Some(i64::from(scale >> 4)),
        "tcpi_delivery_rate_app_limited" => return Some(i64::from(structure[7] & 1)),
        "tcpi_fastopen_client_fail" => return Some(i64::from(structure[7] >> 1 & 3)),
        _ => {}
    }
    let (_, offset, size) = FIELDS.iter().find(|(known, ..)| *known == name)?;
    let bytes = structure[..length].get(*offset..offset + size)?;
    let mut wide = [0; 8];
    wide[..*size].copy_from_slice(bytes);
    // Python has no limit; values above are "none" (`~0`) and still compare as large.
    Some(i64::try_from(u64::from_le_bytes(wide)).unwrap_or(i64::MAX))
}
