//! What a run shall do, checked but not yet resolved: no name has been looked up, no file opened.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::bins::BinOptions;

/// The subcommands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Answers clients.
    Server,
    /// Measures latency, one burst in flight.
    PingPong,
    /// Sends as fast as it can.
    Throughput,
}

/// A complete command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Options {
    /// `server`
    Server(ServerOptions),
    /// `ping-pong`
    PingPong(PingPongOptions),
    /// `throughput`
    Throughput(ThroughputOptions),
}

/// What all modes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommonOptions {
    /// Address or name to listen on or send to; `None` is the mode's default.
    pub host: Option<String>,
    /// Port to listen on or send to; 0 lets the system choose (server only).
    pub port: u16,
    /// IP type of service.
    pub tos: Option<u8>,
    /// Size of both socket buffers in bytes.
    pub buffer_len: Option<usize>,
    /// Spin on a non-blocking socket.
    pub nonblocked: bool,
    /// Progress output.
    pub activity: Activity,
    /// Whether there is a warm-up stage.
    pub warm_up: bool,
    /// Pause before the warm-up stage.
    #[serde(rename = "pre_warm_up_wait_sec", serialize_with = "seconds")]
    pub pre_warm_up_wait: Duration,
    /// Use `CLOCK_MONOTONIC`.
    pub no_rdtsc: bool,
    /// CPUs to run on.
    pub cpus: Option<Vec<usize>>,
    /// Where the JSON document goes.
    pub json: Option<JsonTarget>,
}

/// What both clients share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientOptions {
    /// See [`CommonOptions`].
    #[serde(flatten)]
    pub common: CommonOptions,
    /// Address or name to bind to.
    pub bind_host: Option<String>,
    /// Port to bind to; 0 lets the system choose.
    pub bind_port: u16,
    /// Size of a message in bytes.
    pub message_len: usize,
    /// The size varies by up to this much.
    pub range_len: usize,
    /// Messages sent at a time.
    pub burst: u32,
    /// Rate; `None` is as fast as possible.
    pub messages_per_second: Option<u32>,
    /// Seed of payload bytes and sizes.
    pub seed: u64,
}

/// `server`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerOptions {
    /// See [`CommonOptions`].
    #[serde(flatten)]
    pub common: CommonOptions,
    /// Whether requests are answered.
    pub reply: bool,
    /// Whether gaps in the sequence numbers are reported.
    pub gap_detection: bool,
}

/// `ping-pong`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PingPongOptions {
    /// See [`ClientOptions`].
    #[serde(flatten)]
    pub client: ClientOptions,
    /// When the test ends.
    pub length: TestLength,
    /// How long to wait for a reply; `None` is for ever.
    #[serde(rename = "timeout_msec", serialize_with = "milliseconds")]
    pub timeout: Option<Duration>,
    /// Report round trips instead of half of them.
    pub full_rtt: bool,
    /// Compare each reply with its request.
    pub data_integrity: bool,
    /// Level of the confidence interval in percent, 1..=99.
    pub confidence_level: u8,
    /// Histogram with fixed bins.
    pub histogram: Option<BinOptions>,
    /// CSV file of all samples.
    pub full_log: Option<String>,
}

/// `throughput`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThroughputOptions {
    /// See [`ClientOptions`].
    #[serde(flatten)]
    pub client: ClientOptions,
    /// Duration of the test in seconds.
    pub time_sec: u32,
}

/// When a ping-pong test ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestLength {
    /// After so many seconds.
    TimeSec(u32),
    /// After so many measured packets.
    Packets(u32),
}

/// Progress output, every so many messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// None.
    Off,
    /// A dot.
    Dots(u64),
    /// A line with the rate.
    Rates(u64),
}

/// Where the JSON document goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonTarget {
    /// The standard output.
    Stdout,
    /// A file, which is overwritten.
    File(String),
}

impl Mode {
    /// The mode of a subcommand word.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "server" | "sr" => Some(Self::Server),
            "ping-pong" | "pp" => Some(Self::PingPong),
            "throughput" | "tp" => Some(Self::Throughput),
            _ => None,
        }
    }

    /// The subcommand word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::PingPong => "ping-pong",
            Self::Throughput => "throughput",
        }
    }

    /// One line for the help texts.
    pub fn about(self) -> &'static str {
        match self {
            Self::Server => "Run sockperf as a server.",
            Self::PingPong => "Run sockperf client for latency test in ping pong mode.",
            Self::Throughput => "Run sockperf client for one way throughput test.",
        }
    }

    /// The short form of the subcommand word.
    pub fn alias(self) -> &'static str {
        match self {
            Self::Server => "sr",
            Self::PingPong => "pp",
            Self::Throughput => "tp",
        }
    }
}

impl Options {
    /// Which subcommand this is.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Server(_) => Mode::Server,
            Self::PingPong(_) => Mode::PingPong,
            Self::Throughput(_) => Mode::Throughput,
        }
    }

    /// What all modes share.
    pub fn common(&self) -> &CommonOptions {
        match self {
            Self::Server(options) => &options.common,
            Self::PingPong(options) => &options.client.common,
            Self::Throughput(options) => &options.client.common,
        }
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}

fn milliseconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration
        .map(|duration| duration.as_secs_f64() * 1e3)
        .serialize(serializer)
}
