//! `TCP_INFO` by the names of `struct tcp_info`.

use std::time::Duration;

use tcp::Info;

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn wide(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn value(info: &Info, name: &str) -> Option<i64> {
    let scales = info.window_scales.unwrap_or_default();
    let number = match name {
        "tcpi_retransmits" => info.retransmits.into(),
        "tcpi_probes" => info.probes.into(),
        "tcpi_backoff" => info.backoff.into(),
        "tcpi_snd_wscale" => scales.snd.into(),
        "tcpi_rcv_wscale" => scales.rcv.into(),
        "tcpi_snd_mss" => info.snd_mss,
        "tcpi_rcv_mss" => info.rcv_mss,
        "tcpi_unacked" => info.unacked,
        "tcpi_sacked" => info.sacked,
        "tcpi_lost" => info.lost,
        "tcpi_retrans" => info.retrans,
        "tcpi_pmtu" => info.path_mtu,
        "tcpi_rcv_ssthresh" => info.rcv_ssthresh,
        "tcpi_snd_ssthresh" => info.snd_ssthresh,
        "tcpi_snd_cwnd" => info.snd_cwnd,
        "tcpi_advmss" => info.advertised_mss,
        "tcpi_reordering" => info.reordering,
        "tcpi_rcv_space" => info.rcv_space,
        "tcpi_total_retrans" => info.total_retrans,
        "tcpi_segs_out" => info.segments_out,
        "tcpi_segs_in" => info.segments_in,
        "tcpi_notsent_bytes" => info.octets_not_sent,
        "tcpi_data_segs_in" => info.data_segments_in,
        "tcpi_data_segs_out" => info.data_segments_out,
        "tcpi_delivered" => info.delivered,
        "tcpi_dsack_dups" => info.dsack_duplicates,
        "tcpi_reord_seen" => info.reorder_seen,
        "tcpi_rcv_ooopack" => info.out_of_order_segments,
        "tcpi_snd_wnd" => info.snd_wnd,
        "tcpi_rcv_wnd" => info.rcv_wnd,
        _ => return other(info, name),
    };
    Some(number.into())
}

fn other(info: &Info, name: &str) -> Option<i64> {
    Some(match name {
        "tcpi_state" => info.state.linux_number().into(),
        "tcpi_ca_state" => info.ca_state as i64,
        "tcpi_options" => {
            i64::from(info.has_timestamps)
                | i64::from(info.has_sack) << 1
                | i64::from(info.window_scales.is_some()) << 2
                | i64::from(info.has_ecn) << 3
                | i64::from(info.has_seen_ecn) << 4
                | i64::from(info.has_syn_data) << 5
        }
        "tcpi_fastopen_client_fail" => info.fast_open_failure as i64,
        "tcpi_rto" => micros(info.rto),
        "tcpi_ato" => micros(info.ato),
        "tcpi_last_data_sent" => millis(info.last_data_sent),
        "tcpi_last_data_recv" => millis(info.last_data_received),
        "tcpi_last_ack_recv" => millis(info.last_ack_received),
        "tcpi_rtt" => micros(info.rtt),
        "tcpi_rttvar" => micros(info.rtt_variance),
        "tcpi_rcv_rtt" => micros(info.rcv_rtt),
        "tcpi_min_rtt" => micros(info.min_rtt),
        "tcpi_pacing_rate" => wide(info.pacing_rate),
        "tcpi_max_pacing_rate" => wide(info.max_pacing_rate),
        "tcpi_bytes_acked" => wide(info.octets_acked),
        "tcpi_bytes_received" => wide(info.octets_received),
        "tcpi_delivery_rate" => wide(info.delivery_rate),
        "tcpi_delivery_rate_app_limited" => info.is_delivery_rate_app_limited.into(),
        "tcpi_busy_time" => micros(info.busy_time),
        "tcpi_rwnd_limited" => micros(info.rwnd_limited),
        "tcpi_sndbuf_limited" => micros(info.sndbuf_limited),
        "tcpi_delivered_ce" => info.delivered_ce.into(),
        "tcpi_total_rto" => info.total_rto.into(),
        "tcpi_total_rto_recoveries" => info.total_rto_recoveries.into(),
        "tcpi_total_rto_time" => millis(info.total_rto_time),
        "tcpi_fackets" | "tcpi_last_ack_sent" | "tcpi_rehash" => 0,
        "tcpi_bytes_sent" => wide(info.octets_sent),
        "tcpi_bytes_retrans" => wide(info.octets_retransmitted),
        _ => return None,
    })
}
