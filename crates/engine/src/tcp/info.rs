//! `TCP_INFO`.

use std::time::Duration;

use ::tcp::congestion::BbrInfo;
use ::tcp::{CongestionAlgorithm, Info, State, WindowScales};

use crate::sockets::stack::Stack;
use crate::tcp::clock::now;
use crate::tcp::socket::{Role, TcpSocket};

/// `struct tcp_info` of Linux 6.12 in bytes.
const INFO_BYTES: usize = 256;

// kernel `include/uapi/linux/tcp.h`
const OPT_TIMESTAMPS: u8 = 1;
const OPT_SACK: u8 = 2;
const OPT_WSCALE: u8 = 4;
const OPT_ECN: u8 = 8;
const OPT_ECN_SEEN: u8 = 16;
const OPT_SYN_DATA: u8 = 32;

impl<S: Stack> TcpSocket<S> {
    /// What `TCP_INFO` tells of a stream. `None`: the kernel knows.
    pub fn info(&self) -> Option<Vec<u8>> {
        let Role::Stream(stream) = &*self.role.lock() else {
            return None;
        };
        let mut bytes = bytes_of(&stream.connection.info(now()));
        if stream.is_over() {
            // Of TIME-WAIT the kernel's sockets know nothing.
            bytes[0] = State::Closed.linux_number();
        }
        Some(bytes)
    }

    /// What `TCP_CC_INFO` tells of a stream: only BBR has something to tell. `None`: the kernel
    /// knows.
    pub(super) fn congestion_info(&self) -> Option<Vec<u8>> {
        let Role::Stream(stream) = &*self.role.lock() else {
            return None;
        };
        let info = stream.connection.bbr_info();
        Some(info.map_or_else(Vec::new, |info| bbr_bytes(&info)))
    }
}

/// `struct tcp_bbr_info` of the kernel's `include/uapi/linux/inet_diag.h`.
fn bbr_bytes(info: &BbrInfo) -> Vec<u8> {
    // Gains are in 256ths.
    let gain = |percent: u32| percent.saturating_mul(256) / 100;
    let micros = u32::try_from(info.min_rtt.as_micros()).unwrap_or(u32::MAX);
    let words = [
        (info.bandwidth & u64::from(u32::MAX)) as u32,
        (info.bandwidth >> 32) as u32,
        micros,
        gain(info.pacing_gain),
        gain(info.cwnd_gain),
    ];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn bytes_of(info: &Info) -> Vec<u8> {
    let options = [
        (info.has_timestamps, OPT_TIMESTAMPS),
        (info.has_sack, OPT_SACK),
        (info.window_scales.is_some(), OPT_WSCALE),
        (info.has_ecn, OPT_ECN),
        (info.has_seen_ecn, OPT_ECN_SEEN),
        (info.has_syn_data, OPT_SYN_DATA),
    ];
    let options = options
        .into_iter()
        .filter(|(has, _)| *has)
        .fold(0, |all, (_, option)| all | option);
    let WindowScales { snd, rcv } = info.window_scales.unwrap_or_default();
    let limited = u8::from(info.is_delivery_rate_app_limited) | (info.fast_open_failure as u8) << 1;
    let mut bytes = vec![
        info.state.linux_number(),
        info.ca_state as u8,
        info.retransmits,
        info.probes,
        info.backoff,
        options,
        snd | rcv << 4,
        limited,
    ];
    let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        words
            .iter()
            .for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
    };
    let longs = |bytes: &mut Vec<u8>, longs: &[u64]| {
        longs
            .iter()
            .for_each(|long| bytes.extend_from_slice(&long.to_ne_bytes()));
    };
    let long_micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    words(
        &mut bytes,
        &[
            micros(info.rto),
            micros(info.ato),
            info.snd_mss,
            info.rcv_mss,
            info.unacked,
            info.sacked,
            info.lost,
            info.retrans,
            0, // tcpi_fackets
            millis(info.last_data_sent),
            0, // tcpi_last_ack_sent
            millis(info.last_data_received),
            millis(info.last_ack_received),
            info.path_mtu,
            info.rcv_ssthresh,
            micros(info.rtt),
            micros(info.rtt_variance),
            info.snd_ssthresh,
            info.snd_cwnd,
            info.advertised_mss,
            info.reordering,
            micros(info.rcv_rtt),
            info.rcv_space,
            info.total_retrans,
        ],
    );
    longs(
        &mut bytes,
        &[
            info.pacing_rate,
            info.max_pacing_rate,
            info.octets_acked,
            info.octets_received,
        ],
    );
    words(
        &mut bytes,
        &[
            info.segments_out,
            info.segments_in,
            info.octets_not_sent,
            micros(info.min_rtt),
            info.data_segments_in,
            info.data_segments_out,
        ],
    );
    longs(
        &mut bytes,
        &[
            info.delivery_rate,
            long_micros(info.busy_time),
            long_micros(info.rwnd_limited),
            long_micros(info.sndbuf_limited),
        ],
    );
    words(&mut bytes, &[info.delivered, info.delivered_ce]);
    longs(&mut bytes, &[info.octets_sent, info.octets_retransmitted]);
    words(
        &mut bytes,
        &[
            info.dsack_duplicates,
            info.reorder_seen,
            info.out_of_order_segments,
            info.snd_wnd,
            info.rcv_wnd,
            0, // tcpi_rehash
        ],
    );
    bytes.extend_from_slice(&info.total_rto.to_ne_bytes());
    bytes.extend_from_slice(&info.total_rto_recoveries.to_ne_bytes());
    words(&mut bytes, &[millis(info.total_rto_time)]);
    bytes.resize(INFO_BYTES, 0);
    bytes
}

/// The kernel's name of an algorithm, as `TCP_CONGESTION` has it. `None`: the kernel has none.
pub(super) fn name_of(algorithm: CongestionAlgorithm) -> Option<Vec<u8>> {
    if algorithm == CongestionAlgorithm::None {
        return None;
    }
    let mut bytes = algorithm.name().as_bytes().to_vec();
    bytes.resize(TCP_CA_NAME_MAX, 0);
    Some(bytes)
}

const TCP_CA_NAME_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn bbr_tells_its_rate_in_two_words_and_gains_in_256ths() {
        let bytes = bbr_bytes(&BbrInfo {
            bandwidth: (7 << 32) + 5,
            min_rtt: Duration::from_micros(20),
            pacing_gain: 125,
            cwnd_gain: 200,
        });
        let words = bytes
            .chunks(4)
            .map(|it| u32::from_ne_bytes(it.try_into().unwrap()));
        assert_eq!(words.collect::<Vec<_>>(), [5, 7, 20, 320, 512]);
    }

    #[test]
    fn an_algorithm_is_named_in_sixteen_bytes() {
        let name = name_of(CongestionAlgorithm::Bbr);
        assert_eq!(name.as_deref(), Some(&b"bbr\0\0\0\0\0\0\0\0\0\0\0\0\0"[..]));
        assert_eq!(name_of(CongestionAlgorithm::None), None);
    }

    #[test]
    fn fields_are_where_the_c_library_has_them() {
        let info = Info {
            snd_mss: 1460,
            rtt: Duration::from_micros(77),
            total_retrans: 5,
            octets_acked: 1 << 40,
            segments_in: 9,
            ..Info::default()
        };
        let bytes = bytes_of(&info);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(offset_of!(libc::tcp_info, tcpi_snd_mss)), 1460);
        assert_eq!(word(offset_of!(libc::tcp_info, tcpi_rtt)), 77);
        assert_eq!(word(offset_of!(libc::tcp_info, tcpi_total_retrans)), 5);
        // Beyond what every C library has, by the kernel's header.
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((long(120), word(140)), (1 << 40, 9));
        assert_eq!(bytes.len(), INFO_BYTES);
    }
}
