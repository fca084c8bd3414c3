//! Sysctls and socket options, from the system's numbers to the engine's names.

use std::time::Duration;

use packetdrill::OptionValue;
use packetdrill::sysctl::Setting;
use tcp::{
    Config, CongestionAlgorithm, EcnMode, FastOpenModes, MtuProbing, Options, SocketOption,
    SynCookies,
};

/// Makes a configuration; the error names a setting that the engine does not have.
pub(super) fn of(sysctls: &[Setting]) -> Result<(Config, Options), String> {
    let mut config = Config::default();
    let mut options = Options::default();
    for (name, value) in sysctls {
        set(&mut config, &mut options, name, value)
            .ok_or_else(|| format!("sysctl {name}={value}"))?;
    }
    Ok((config, options))
}

fn set(config: &mut Config, options: &mut Options, name: &str, value: &str) -> Option<()> {
    let numbers: Vec<u32> = value
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    let number = numbers.first().copied();
    let on = || number.map(|number| number != 0);
    let small = || number.and_then(|number| u8::try_from(number).ok());
    match name {
        "tcp_window_scaling" => config.window_scaling = on()?,
        "tcp_timestamps" => config.timestamps = on()?,
        "tcp_sack" => config.sack = on()?,
        "tcp_dsack" => config.dsack = on()?,
        "tcp_ecn" => {
            config.ecn = match number? {
                0 => EcnMode::Off,
                1 => EcnMode::On,
                2 => EcnMode::Passive,
                _ => return None,
            }
        }
        "tcp_rfc1337" => config.rfc1337 = on()?,
        "tcp_slow_start_after_idle" => config.slow_start_after_idle = on()?,
        "tcp_reordering" => config.reordering = small()?,
        "tcp_early_retrans" => config.tail_loss_probe = on()?,
        "tcp_syn_retries" => config.syn_retries = small()?,
        "tcp_syn_linear_timeouts" => config.syn_linear_timeouts = small()?,
        "tcp_synack_retries" => config.syn_ack_retries = small()?,
        "tcp_retries1" => config.retries1 = small()?,
        "tcp_retries2" => config.retries2 = small()?,
        "tcp_orphan_retries" => config.orphan_retries = small()?,
        "tcp_fin_timeout" => config.fin_timeout = Duration::from_secs(u64::from(number?)),
        "tcp_rmem" => {
            config.receive_buffer_default = *numbers.get(1)?;
            config.receive_buffer_max = *numbers.get(2)?;
        }
        "tcp_wmem" => {
            config.send_buffer_default = *numbers.get(1)?;
            config.send_buffer_max = *numbers.get(2)?;
        }
        "tcp_moderate_rcvbuf" => config.moderate_receive_buffer = on()?,
        "tcp_mtu_probing" => {
            config.mtu_probing = match number? {
                0 => MtuProbing::Off,
                1 => MtuProbing::AfterBlackHole,
                2 => MtuProbing::Always,
                _ => return None,
            }
        }
        "tcp_mtu_probe_floor" => config.mtu_probe_floor = u16::try_from(number?).ok()?,
        "tcp_probe_threshold" => config.mtu_probe_threshold = u16::try_from(number?).ok()?,
        "tcp_probe_interval" => {
            config.mtu_probe_interval = Duration::from_secs(u64::from(number?));
        }
        "tcp_base_mss" => config.base_mss = u16::try_from(number?).ok()?,
        "tcp_abort_on_overflow" => config.abort_on_overflow = on()?,
        "tcp_syncookies" => {
            config.syn_cookies = match number? {
                0 => SynCookies::Never,
                1 => SynCookies::WhenFull,
                2 => SynCookies::Always,
                _ => return None,
            }
        }
        "tcp_invalid_ratelimit" => {
            config.invalid_ratelimit = Duration::from_millis(u64::from(number?))
        }
        "tcp_congestion_control" => {
            let option = SocketOption::Congestion(congestion(value)?);
            options.set(option).ok()?;
        }
        "tcp_fastopen" => {
            let bits = match value.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number?,
            };
            config.fast_open = FastOpenModes::from_bits(bits);
        }
        "tcp_fastopen_blackhole_timeout_sec" => {
            config.fast_open_black_hole_timeout = Duration::from_secs(u64::from(number?));
        }
        "tcp_notsent_lowat" => options.set(SocketOption::NotSentLowWater(number?)).ok()?,
        // What only Linux has, in the state in which the engine always is.
        "tcp_recovery" if value == "1" => {}
        "tcp_frto"
        | "tcp_fack"
        | "tcp_tso_win_divisor"
        | "tcp_pacing_ss_ratio"
        | "tcp_pacing_ca_ratio"
        | "tcp_min_tso_segs"
        | "tcp_fastopen_cookies"
        | "tcp_no_metrics_save"
        | "tcp_autocorking" => {}
        // By the socket layer.
        "tcp_fastopen_key" => {}
        _ => return None,
    }
    Some(())
}

fn congestion(name: &str) -> Option<CongestionAlgorithm> {
    match name {
        "cubic" => Some(CongestionAlgorithm::Cubic),
        "reno" => Some(CongestionAlgorithm::NewReno),
        _ => None,
    }
}

/// The engine's option for the system's; `Ok(None)` if it only matters to sockets. The error is an
/// error number, or `None` if the option is not known here.
pub(super) fn option(
    level: i32,
    name: i32,
    value: &OptionValue,
) -> Result<Option<SocketOption>, Option<i32>> {
    let invalid = || Some(libc::EINVAL);
    let number = match value {
        OptionValue::Integer(number) => *number,
        OptionValue::Text(text) if name == libc::TCP_CONGESTION => {
            let algorithm = congestion(text).ok_or(Some(libc::ENOENT))?;
            return Ok(Some(SocketOption::Congestion(algorithm)));
        }
        OptionValue::Octets(_) if (level, name) == (libc::SOL_TCP, libc::TCP_FASTOPEN_KEY) => {
            return Ok(None);
        }
        _ => return Err(None),
    };
    let on = number != 0;
    let unsigned = u32::try_from(number).map_err(|_| invalid());
    let seconds = || unsigned.map(|number| Duration::from_secs(u64::from(number)));
    let byte = || u8::try_from(number).map_err(|_| invalid());
    let doubled = || unsigned.map(|number| number.saturating_mul(2));
    Ok(Some(match (level, name) {
        (libc::SOL_TCP, libc::TCP_NODELAY) => SocketOption::NoDelay(on),
        (libc::SOL_TCP, libc::TCP_CORK) => SocketOption::Cork(on),
        (libc::SOL_TCP, libc::TCP_QUICKACK) => SocketOption::QuickAck(on),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => SocketOption::KeepAlive(on),
        (libc::SOL_TCP, libc::TCP_KEEPIDLE) => SocketOption::KeepIdle(seconds()?),
        (libc::SOL_TCP, libc::TCP_KEEPINTVL) => SocketOption::KeepInterval(seconds()?),
        (libc::SOL_TCP, libc::TCP_KEEPCNT) => SocketOption::KeepCount(byte()?),
        (libc::SOL_TCP, libc::TCP_USER_TIMEOUT) => {
            SocketOption::UserTimeout(Duration::from_millis(u64::from(unsigned?)))
        }
        (libc::SOL_TCP, libc::TCP_MAXSEG) => {
            SocketOption::MaxSegment(u16::try_from(number).map_err(|_| invalid())?)
        }
        (libc::SOL_TCP, libc::TCP_WINDOW_CLAMP) => SocketOption::WindowClamp(unsigned?),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => SocketOption::SendBuffer(doubled()?),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => SocketOption::ReceiveBuffer(doubled()?),
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => SocketOption::ReceiveLowWater(unsigned?),
        (libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT) => SocketOption::NotSentLowWater(unsigned?),
        (libc::SOL_TCP, libc::TCP_SYNCNT) => SocketOption::SynCount(byte()?),
        (libc::SOL_TCP, libc::TCP_LINGER2) => {
            let linger = u64::try_from(number).ok().map(Duration::from_secs);
            SocketOption::Linger2(linger)
        }
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => SocketOption::OobInline(on),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT)
        | (
            libc::SOL_TCP,
            libc::TCP_DEFER_ACCEPT
            | libc::TCP_FASTOPEN
            | libc::TCP_FASTOPEN_CONNECT
            | TCP_FASTOPEN_NO_COOKIE,
        )
        | (libc::SOL_IP, libc::IP_MTU_DISCOVER | libc::IP_TOS | libc::IP_TTL) => return Ok(None),
        _ => return Err(None),
    }))
}

/// Not in `libc` (kernel `include/uapi/linux/tcp.h`).
pub(super) const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
