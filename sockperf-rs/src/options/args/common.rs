//! The options that all modes share, and those of the server.

use std::time::Duration;

use super::given::{Given, integer};
use super::sharing::waits_for_several;
use super::usage;
use crate::error::Error;
use crate::message::{HEADER_LEN, MAX_STREAM_LEN, MAX_UDP_LEN};
use crate::options::{
    Activity, Color, CommonOptions, JsonTarget, Mode, MulticastOptions, Multiplexer, ServerOptions,
    SocketOptions, Target,
};
use crate::tls;

pub(super) const SECONDS_MAX: u32 = 36_000_000;

pub(super) fn server(given: &Given<'_>) -> Result<ServerOptions, Error> {
    let common = common(given, Mode::Server)?;
    let is_stream = matches!(common.target, Target::One { stream: true, .. });
    if is_stream && given.switch("dont-reply") {
        return Err(usage("--tcp conflicts with --dont-reply option"));
    }
    let threads = given.number("threads-num", (1, 1024), |text| {
        format!("'--threads-num' Invalid threads number: {text}")
    })?;
    if threads.is_some() && !given.has("file") {
        return Err(usage(
            "--threads-num must be used with feed file (option '-f')",
        ));
    }
    let conflict = match common.multiplexer {
        Multiplexer::Recvfrom => "--threads-num conflicts with -F recvfrom",
        // Rings are of interfaces, whose sockets may be anybody's.
        Multiplexer::SocketXtreme => "--threads-num conflicts with -F socketxtreme",
        _ => "",
    };
    if threads.is_some_and(|threads| threads > 1) && !conflict.is_empty() {
        return Err(usage(conflict));
    }
    let in_callback = given.switch("rxfiltercb");
    if in_callback && common.multiplexer == Multiplexer::SocketXtreme {
        return Err(usage("--rxfiltercb conflicts with -F socketxtreme"));
    }
    if in_callback && given.has("tls") {
        return Err(usage("--tls conflicts with --rxfiltercb"));
    }
    let len = message_len(given, MAX_STREAM_LEN)?;
    Ok(ServerOptions {
        in_callback,
        common,
        reply: !given.switch("dont-reply"),
        unicast_reply: given.switch("force-unicast-reply"),
        gap_detection: given.switch("gap-detection"),
        message_len_max: len.unwrap_or(0).max(MAX_UDP_LEN),
        threads: threads.unwrap_or(1),
        cpus: given.cpu_list("cpu-affinity")?,
    })
}

/// The size of `-m`, which is at most `len_max`.
pub(super) fn message_len(given: &Given<'_>, len_max: usize) -> Result<Option<usize>, Error> {
    given.number("msg-size", (HEADER_LEN, len_max), |text| {
        let too_short = integer(text).is_none_or(|number| number < HEADER_LEN as i128);
        let limit = if too_short {
            format!("min: {HEADER_LEN}")
        } else {
            format!("max: {len_max}")
        };
        format!("'-m' Invalid message size: {text} ({limit})")
    })
}

pub(super) fn common(given: &Given<'_>, mode: Mode) -> Result<CommonOptions, Error> {
    let wait_sec = given.number("pre-warmup-wait", (1, SECONDS_MAX), |text| {
        format!("'--pre-warmup-wait' Invalid pre warmup wait: {text}")
    })?;
    let multiplexer = multiplexer(given)?;
    // Rings are polled.
    let nonblocked = given.switch("nonblocked") || multiplexer == Multiplexer::SocketXtreme;
    Ok(CommonOptions {
        target: target(given)?,
        multiplexer,
        timeout_msec: given.number("timeout", (-1, i32::MAX), |text| {
            format!("'--timeout' Invalid select/poll/epoll timeout val: {text} (msec, or =-1)")
        })?,
        receive_loops: receive_loops(given, nonblocked)?,
        socket: socket(given, mode)?,
        nonblocked,
        zero_copy: zero_copy(given)?,
        load_vma: load_vma(given)?,
        activity: activity(given)?,
        warm_up: !given.switch("dontwarmup"),
        pre_warm_up_wait: Duration::from_secs(u64::from(wait_sec.unwrap_or(0))),
        no_rdtsc: given.switch("no-rdtsc"),
        daemonize: given.switch("daemonize"),
        debug: given.switch("debug"),
        color: match given.text("color") {
            None | Some("auto") => Color::Auto,
            Some("always") => Color::Always,
            Some("never") => Color::Never,
            Some(text) => {
                return Err(usage(format!(
                    "'--color' Invalid value: {text} (auto, always or never)"
                )));
            }
        },
        json: given.text("json").map(|target| match target {
            "-" => JsonTarget::Stdout,
            path => JsonTarget::File(path.to_owned()),
        }),
    })
}

fn target(given: &Given<'_>) -> Result<Target, Error> {
    let stream = given.switch("tcp");
    if let Some(path) = given.text("file") {
        if given.has("ip") || given.has("port") {
            return Err(usage("-f conflicts with -i,-p options"));
        }
        if stream {
            return Err(usage("--tcp conflicts with -f option"));
        }
        return Ok(Target::File(path.to_owned()));
    }
    Ok(Target::One {
        host: given.owned("ip"),
        port: given.port("port", "'-p' Invalid port")?.unwrap_or(11_111),
        stream,
    })
}

fn multiplexer(given: &Given<'_>) -> Result<Multiplexer, Error> {
    let has_several = waits_for_several(given);
    match given.text("iomux-type") {
        None if has_several => Ok(Multiplexer::Epoll),
        None => Ok(Multiplexer::Recvfrom),
        Some(_) if !has_several => Err(usage("-F must be used with feed file (option '-f')")),
        Some("s" | "select") => Ok(Multiplexer::Select),
        Some("p" | "poll") => Ok(Multiplexer::Poll),
        Some("e" | "epoll") => Ok(Multiplexer::Epoll),
        Some("r" | "recvfrom") => Ok(Multiplexer::Recvfrom),
        Some("x" | "socketxtreme") if given.has("tls") => {
            Err(usage("--tls conflicts with -F socketxtreme"))
        }
        Some("x" | "socketxtreme") if given.text("threads").is_some_and(|it| it != "1") => {
            Err(usage("--threads conflicts with -F socketxtreme"))
        }
        Some("x" | "socketxtreme") if given.switch("zcopyread") => {
            Err(usage("--zcopyread conflicts with -F socketxtreme"))
        }
        Some("x" | "socketxtreme") => Ok(Multiplexer::SocketXtreme),
        Some(text) => Err(usage(format!(
            "'-F' Invalid multiply io handle type: {text} (s, p, e, r or x)"
        ))),
    }
}

fn receive_loops(given: &Given<'_>, nonblocked: bool) -> Result<Option<u32>, Error> {
    let loops = given.number("recv_looping_num", (-1i64, i64::from(u32::MAX)), |text| {
        format!("'--recv_looping_num' Invalid value: {text} (1 or more, or =-1)")
    })?;
    match loops {
        None | Some(1) => Ok(Some(1)),
        Some(0) => Err(usage(
            "'--recv_looping_num' Invalid value: 0 (1 or more, or =-1)",
        )),
        Some(_) if !nonblocked => Err(usage(
            "recv_looping_num larger then one must be used in a none-blocked mode only. add \
             --nonblocked.",
        )),
        Some(loops) => Ok(u32::try_from(loops).ok()),
    }
}

fn socket(given: &Given<'_>, mode: Mode) -> Result<SocketOptions, Error> {
    let no_delay = (mode == Mode::Throughput) == given.switch("tcp-avoid-nodelay");
    Ok(SocketOptions {
        tos: given.number("tos", (0, u8::MAX), |text| {
            format!("'--tos' Invalid value: {text} (0 to 255)")
        })?,
        buffer_len: given.number("buffer-size", (1, 0x7fff_ffff_usize), |text| {
            format!("'--buffer-size' Invalid socket buffer size: {text}")
        })?,
        busy_poll_usec: given.number("lls", (0, 0x7fff_ffff_u32), |text| {
            format!("'--lls' Invalid LLS value: {text}")
        })?,
        rate_limit: given.number("rate-limit", (1, u32::MAX), |text| {
            format!("'--rate-limit' Invalid rate limit: {text}")
        })?,
        accelerated: given.switch("set-sock-accl"),
        reuse_address: given.switch("uc-reuseaddr"),
        no_delay,
        skip_blocking_send: given.switch("tcp-skip-blocking-send"),
        multicast: MulticastOptions {
            receive_interface: given.owned("mc-rx-if"),
            send_interface: given.owned("mc-tx-if"),
            loopback: given.switch("mc-loopback-enable"),
            ttl: given.number("mc-ttl", (0, u8::MAX), |text| {
                format!("'--mc-ttl' Invalid value: {text} (0 to 255)")
            })?,
            source: given.owned("mc-source-filter"),
        },
        tls: tls(given)?,
    })
}

/// `--zcopyread`
fn zero_copy(given: &Given<'_>) -> Result<bool, Error> {
    let is_asked_for = given.switch("zcopyread");
    if is_asked_for && given.has("tls") {
        return Err(usage("--tls conflicts with --zcopyread"));
    }
    Ok(is_asked_for)
}

/// `--load-vma`
fn load_vma(given: &Given<'_>) -> Result<Option<String>, Error> {
    if !given.has("load-vma") {
        return Ok(None);
    }
    if given.has("tls") {
        return Err(usage("--tls conflicts with --load-vma"));
    }
    match given.text("load-vma") {
        Some(path) if path.is_empty() || path.contains([':', ' ']) => Err(usage(format!(
            "'--load-vma' Invalid path: {path} (none, or with a colon or a space)"
        ))),
        path => Ok(Some(path.unwrap_or("libvma.so").to_owned())),
    }
}

fn tls(given: &Given<'_>) -> Result<Option<String>, Error> {
    if !given.has("tls") {
        return Ok(None);
    }
    if !given.switch("tcp") && !given.has("file") {
        return Err(usage("--tls needs --tcp or -f"));
    }
    let cipher = given.text("tls").unwrap_or(tls::DEFAULT_CIPHER);
    if tls::has_cipher(cipher) {
        Ok(Some(cipher.to_owned()))
    } else {
        Err(usage(format!("'--tls' Unsupported cipher: {cipher}")))
    }
}

fn activity(given: &Given<'_>) -> Result<Activity, Error> {
    let count = |key, name| {
        given.number(key, (1, u64::MAX), |text| {
            format!("'{name}' Invalid number of messages: {text}")
        })
    };
    match (count("activity", "-a")?, count("Activity", "-A")?) {
        (None, None) => Ok(Activity::Off),
        (Some(every), None) => Ok(Activity::Dots(every)),
        (None, Some(every)) => Ok(Activity::Rates(every)),
        (Some(_), Some(_)) => Err(usage("-a conflicts with -A")),
    }
}
