//! The options of the clients.

use std::time::Duration;

use super::common::{SECONDS_MAX, common, message_len};
use super::given::{Given, integer_in};
use super::sharing::{Sharing, sharing};
use super::usage;
use crate::error::Error;
use crate::message::{HEADER_LEN, MAX_STREAM_LEN, MAX_UDP_LEN};
use crate::options::{
    BinOptions, ClientOptions, Mode, RatePlan, ResultOptions, Target, TestLength, WARM_UP_MSEC,
};

const PACKETS_MAX: u32 = 100_000_000;
const RATE_MAX: u32 = 1 << 30;
/// A burst of ping-pong keeps some stamps per message: 32 MiB.
const BURST_MAX: u32 = 1 << 20;

pub(super) fn client(
    given: &Given<'_>,
    mode: Mode,
    seed: Option<&str>,
) -> Result<ClientOptions, Error> {
    let sender_cpus = given.cpu_list("sender-affinity")?;
    let receiver_cpus = given.cpu_list("receiver-affinity")?;
    let has_one_thread = match mode {
        Mode::PingPong => true,
        Mode::Throughput => !given.switch("bidir"),
        _ => false,
    };
    if let (true, Some(sender), Some(receiver)) = (has_one_thread, &sender_cpus, &receiver_cpus)
        && sender != receiver
    {
        return Err(usage(format!(
            "--sender-affinity and --receiver-affinity differ, but {} sends and receives in one \
             thread; give one of them",
            mode.name()
        )));
    }
    let common = common(given, mode)?;
    let message_len_max = match &common.target {
        Target::One { port: 0, host, .. }
            if !host.as_deref().is_some_and(|h| h.starts_with('/')) =>
        {
            return Err(usage("'-p' Invalid port: 0 cannot be sent to"));
        }
        Target::One { stream: true, .. } => MAX_STREAM_LEN,
        _ => MAX_UDP_LEN,
    };
    let length = length(given, mode)?;
    let warm_up_msec = warm_up_msec(given, length)?;
    let Sharing { flows, threads } = sharing(given)?;
    let messages_per_second = rate(given, mode)?;
    if messages_per_second.is_some_and(|rate| threads > usize::try_from(rate).unwrap_or(0)) {
        return Err(usage("--threads is more than --mps"));
    }
    let burst = given.number("burst", (1, BURST_MAX), |text| {
        format!("'-b' Invalid burst size: {text}")
    })?;
    let data_integrity = given.switch("data-integrity");
    if data_integrity && burst.is_some() {
        return Err(usage("--data-integrity conflicts with -b option"));
    }
    if given.has("file") && given.has("client_port") {
        return Err(usage("--client_port conflicts with -f option"));
    }
    if mode == Mode::Playback && !given.has("data-file") {
        return Err(usage("--data-file must be used with playback mode"));
    }
    Ok(ClientOptions {
        mode,
        length,
        bind_host: given.owned("client_ip"),
        bind_port: given
            .port("client_port", "'--client_port' Invalid value")?
            .unwrap_or(0),
        connect_timeout: connect_timeout(given)?,
        message_len: message_len(given, message_len_max)?.unwrap_or(HEADER_LEN),
        range_len: given
            .number("range", (0, MAX_STREAM_LEN), |text| {
                format!("'-r' Invalid value: {text}")
            })?
            .unwrap_or(0),
        burst: burst.unwrap_or(1),
        messages_per_second,
        dummies_per_second: dummies(given, messages_per_second)?,
        reply_every: reply_every(given, mode)?,
        seed: match seed {
            None => 1,
            Some(text) => integer_in(text, 0, u64::MAX).ok_or_else(|| {
                usage(format!(
                    "environment variable SEED: invalid number '{text}'"
                ))
            })?,
        },
        data_file: given.owned("data-file"),
        data_integrity,
        sender_cpus: sender_cpus.or_else(|| receiver_cpus.clone().filter(|_| has_one_thread)),
        receiver_cpus: receiver_cpus.filter(|_| !has_one_thread),
        rates: rates(given)?,
        flows,
        threads,
        is_bidirectional: given.switch("bidir"),
        warm_up_msec,
        results: results(given)?,
        common,
    })
}

/// `--dummy-send`
fn dummies(given: &Given<'_>, messages: Option<u32>) -> Result<Option<u32>, Error> {
    const BY_DEFAULT: u32 = 10_000;
    if !given.has("dummy-send") {
        return Ok(None);
    }
    let rate = match given.text("dummy-send") {
        None => BY_DEFAULT,
        Some("max" | "MAX") => RATE_MAX,
        Some(text) => integer_in(text, 1, RATE_MAX)
            .ok_or_else(|| usage(format!("'--dummy-send' Invalid value: {text}")))?,
    };
    if messages.is_some_and(|messages| rate <= messages) {
        return Err(usage(
            "Dummy send is allowed only if dummy-send rate is higher than regular msg rate",
        ));
    }
    Ok(Some(rate))
}

fn length(given: &Given<'_>, mode: Mode) -> Result<TestLength, Error> {
    if mode == Mode::Playback {
        return Ok(TestLength::TimeLine);
    }
    let packets = given.number("number-of-packets", (1, PACKETS_MAX), |text| {
        format!("'-n' Invalid number of packets: {text}")
    })?;
    if let Some(packets) = packets {
        if given.has("time") || given.has("mps") {
            return Err(usage("-n conflicts with -t,--mps options"));
        }
        return Ok(TestLength::Packets(packets));
    }
    let time_sec = given.number("time", (1, SECONDS_MAX), |text| {
        format!("'-t' Invalid duration: {text}")
    })?;
    Ok(TestLength::TimeSec(time_sec.unwrap_or(1)))
}

fn rate(given: &Given<'_>, mode: Mode) -> Result<Option<u32>, Error> {
    match given.text("mps") {
        None if mode == Mode::UnderLoad => Ok(Some(10_000)),
        None | Some("max" | "MAX") => Ok(None),
        Some(_) => given.number("mps", (1, RATE_MAX), |text| {
            format!("'--mps' Invalid rate: {text} (max, or 1 to {RATE_MAX})")
        }),
    }
}

fn reply_every(given: &Given<'_>, mode: Mode) -> Result<u32, Error> {
    let every = given.number("reply-every", (1, RATE_MAX), |text| {
        format!("'--reply-every' Invalid number of messages: {text} (1 to {RATE_MAX})")
    })?;
    Ok(match mode {
        Mode::UnderLoad | Mode::Playback => every.unwrap_or(100),
        Mode::PingPong => 1,
        Mode::Throughput => u32::from(given.switch("bidir")),
        Mode::Server => 0,
    })
}

fn connect_timeout(given: &Given<'_>) -> Result<Duration, Error> {
    let msec = given.number("tcp_nb_connect_timeout_ms", (1, u32::MAX), |text| {
        format!("'--tcp_nb_connect_timeout_ms' Invalid timeout: {text}")
    })?;
    if msec.is_some() && !given.switch("tcp") && !given.has("file") {
        return Err(usage("--tcp_nb_connect_timeout_ms requires --tcp or -f"));
    }
    Ok(Duration::from_millis(u64::from(msec.unwrap_or(5000))))
}

fn rates(given: &Given<'_>) -> Result<Option<RatePlan>, Error> {
    let complain = |key, text, format| {
        usage(format!(
            "'--{key}' Invalid rates: {text} Format should be {format}"
        ))
    };
    match (given.text("sweep"), given.text("search")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(usage("--sweep conflicts with --search")),
        _ if given.has("mps") => Err(usage("--sweep and --search conflict with --mps")),
        (Some(text), None) => RatePlan::parse_sweep(text)
            .map(Some)
            .ok_or_else(|| complain("sweep", text, "from:to:step")),
        (None, Some(text)) => RatePlan::parse_search(text)
            .map(Some)
            .ok_or_else(|| complain("search", text, "from:to")),
    }
}

fn results(given: &Given<'_>) -> Result<ResultOptions, Error> {
    let confidence_level = given.number("ci_sig_level", (1, 99), |text| {
        format!("'--ci_sig_level' Invalid Significance level: {text}")
    })?;
    Ok(ResultOptions {
        full_rtt: given.switch("full-rtt"),
        confidence_level: confidence_level.unwrap_or(99),
        histogram: given
            .text("histogram")
            .map(BinOptions::parse)
            .transpose()
            .map_err(usage)?,
        full_log: given.owned("full-log"),
        giga_size: given.switch("giga-size"),
        precise: given.switch("increase_output_precision"),
        interval_msec: msec(given, "interval", "interval", (0.1, 3600.0))?,
        csv: given.owned("csv"),
        hgrm: given.owned("hgrm"),
        hlog: given.owned("hlog"),
        html: given.owned("html"),
        live: given.switch("live"),
    })
}

fn warm_up_msec(given: &Given<'_>, length: TestLength) -> Result<u32, Error> {
    let msec = msec(given, "warmup-time", "time", (0.0, 3600.0))?;
    match (length, msec) {
        (TestLength::TimeSec(time_sec), Some(msec))
            if u64::from(msec) + 50 >= u64::from(time_sec) * 1000 =>
        {
            Err(usage("--warmup-time leaves nothing of -t"))
        }
        (TestLength::Packets(_), Some(_)) => Err(usage("--warmup-time conflicts with -n")),
        _ => Ok(msec.unwrap_or(WARM_UP_MSEC)),
    }
}

/// Seconds with a fraction, as milliseconds.
fn msec(
    given: &Given<'_>,
    key: &str,
    what: &str,
    (min, max): (f64, f64),
) -> Result<Option<u32>, Error> {
    let Some(text) = given.text(key) else {
        return Ok(None);
    };
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (min..=max).contains(seconds));
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 3600000"
    )]
    let msec = seconds.map(|seconds| (seconds * 1000.0).round() as u32);
    msec.map(Some).ok_or_else(|| {
        usage(format!(
            "'--{key}' Invalid {what}: {text} ({min} to {max} seconds)"
        ))
    })
}
