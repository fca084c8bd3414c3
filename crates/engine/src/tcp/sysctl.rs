//! The kernel's settings of TCP (`ip-sysctl`), for connections that are to behave as its own.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::tcp::{Config, CongestionAlgorithm, EcnMode, MtuProbing, SynCookies};

/// What all connections of the process share.
pub(super) fn config() -> Config {
    config_of(&|name| {
        let path = format!("/proc/sys/net/ipv4/tcp_{name}");
        std::fs::read_to_string(path).ok()
    })
}

/// How long a setting that every connection asks for is not read again.
const FRESH_NSEC: u64 = 100_000_000;

/// Whether the kernel's connections begin with this algorithm.
pub(super) fn is_default_congestion(name: &str) -> bool {
    static KNOWN: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let now = sys::now_nsec();
    if let Some((read_at, default)) = &*known
        && now.saturating_sub(*read_at) < FRESH_NSEC
    {
        return default == name;
    }
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let default = text.unwrap_or_default().trim().to_owned();
    let is_default = default == name;
    *known = Some((now, default));
    is_default
}

/// An algorithm by the kernel's name for it.
pub(super) fn algorithm(name: &str) -> Option<CongestionAlgorithm> {
    match name {
        "cubic" => Some(CongestionAlgorithm::Cubic),
        "reno" => Some(CongestionAlgorithm::NewReno),
        "bbr" => Some(CongestionAlgorithm::Bbr),
        _ => None,
    }
}

/// `read` gives a setting as its file has it.
fn config_of(read: &dyn Fn(&str) -> Option<String>) -> Config {
    let numbers = |name: &str| -> Vec<u64> {
        let text = read(name).unwrap_or_default();
        text.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let number = |name: &str| numbers(name).first().copied();
    let small = |name: &str, default: u8| {
        number(name).map_or(default, |value| u8::try_from(value).unwrap_or(u8::MAX))
    };
    let short = |name: &str, default: u16| {
        number(name).map_or(default, |value| u16::try_from(value).unwrap_or(u16::MAX))
    };
    let flag = |name: &str, default: bool| number(name).map_or(default, |value| value != 0);
    let bytes = |name: &str, index: usize, default: u32| {
        let value = numbers(name).get(index).copied();
        value.map_or(default, |value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    let default = Config::default();
    Config {
        window_scaling: flag("window_scaling", default.window_scaling),
        timestamps: flag("timestamps", default.timestamps),
        sack: flag("sack", default.sack),
        dsack: flag("dsack", default.dsack),
        ecn: match number("ecn") {
            Some(0) => EcnMode::Off,
            Some(1) => EcnMode::On,
            _ => EcnMode::Passive,
        },
        rfc1337: flag("rfc1337", default.rfc1337),
        slow_start_after_idle: flag("slow_start_after_idle", default.slow_start_after_idle),
        reordering: small("reordering", default.reordering),
        tail_loss_probe: number("early_retrans").map_or(default.tail_loss_probe, |it| it >= 3),
        syn_retries: small("syn_retries", default.syn_retries),
        syn_linear_timeouts: small("syn_linear_timeouts", default.syn_linear_timeouts),
        syn_ack_retries: small("synack_retries", default.syn_ack_retries),
        retries1: small("retries1", default.retries1),
        retries2: small("retries2", default.retries2),
        orphan_retries: small("orphan_retries", default.orphan_retries),
        fin_timeout: number("fin_timeout").map_or(default.fin_timeout, Duration::from_secs),
        receive_buffer_default: bytes("rmem", 1, default.receive_buffer_default),
        receive_buffer_max: bytes("rmem", 2, default.receive_buffer_max),
        send_buffer_default: bytes("wmem", 1, default.send_buffer_default),
        send_buffer_max: bytes("wmem", 2, default.send_buffer_max),
        moderate_receive_buffer: flag("moderate_rcvbuf", default.moderate_receive_buffer),
        invalid_ratelimit: number("invalid_ratelimit")
            .map_or(default.invalid_ratelimit, Duration::from_millis),
        mtu_probing: match number("mtu_probing") {
            Some(1) => MtuProbing::AfterBlackHole,
            Some(2) => MtuProbing::Always,
            _ => MtuProbing::Off,
        },
        base_mss: short("base_mss", default.base_mss),
        mtu_probe_floor: short("mtu_probe_floor", default.mtu_probe_floor),
        mtu_probe_threshold: short("probe_threshold", default.mtu_probe_threshold),
        mtu_probe_interval: number("probe_interval")
            .map_or(default.mtu_probe_interval, Duration::from_secs),
        abort_on_overflow: flag("abort_on_overflow", default.abort_on_overflow),
        syn_cookies: match number("syncookies") {
            Some(0) => SynCookies::Never,
            Some(2) => SynCookies::Always,
            _ => SynCookies::WhenFull,
        },
        ..default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_the_kernels_or_its_defaults() {
        assert_eq!(config_of(&|_| None), Config::default());
        let config = config_of(&|name| {
            let text = match name {
                "rmem" => "4096\t10000\t20000\n",
                "wmem" => "4096 5000 6000",
                "timestamps" => "0\n",
                "ecn" => "1",
                "fin_timeout" => "7",
                "retries2" => "1000",
                "mtu_probing" => "1",
                "base_mss" => "900",
                "probe_interval" => "60",
                _ => return None,
            };
            Some(text.to_owned())
        });
        assert_eq!(
            (config.receive_buffer_default, config.receive_buffer_max),
            (10_000, 20_000)
        );
        assert_eq!(
            (config.send_buffer_default, config.send_buffer_max),
            (5000, 6000)
        );
        assert!(!config.timestamps && config.sack && config.ecn == EcnMode::On);
        assert_eq!((config.fin_timeout.as_secs(), config.retries2), (7, 255));
        let probing = (config.mtu_probing, config.base_mss);
        assert_eq!(probing, (MtuProbing::AfterBlackHole, 900));
        assert_eq!(config.mtu_probe_interval.as_secs(), 60);
    }

    #[test]
    fn algorithms_have_the_kernels_names() {
        assert_eq!(algorithm("reno"), Some(CongestionAlgorithm::NewReno));
        assert_eq!(algorithm("cubic"), Some(CongestionAlgorithm::Cubic));
        assert_eq!(algorithm("bbr"), Some(CongestionAlgorithm::Bbr));
        assert_eq!(algorithm("dctcp"), None);
    }
}
