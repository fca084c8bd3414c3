//! What a run shall do, checked but not yet resolved: no name has been looked up, no file opened.

use std::time::Duration;

use serde::{Serialize, Serializer};

pub mod args;
mod bins;
pub mod completions;
pub mod manual;
mod rates;
pub mod table;

pub use bins::BinOptions;
pub use rates::RatePlan;

/// What is sent this soon after the first message does not count, unless told otherwise.
pub const WARM_UP_MSEC: u32 = 400;

/// The subcommands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Measures latency while sending at a rate of its own.
    UnderLoad,
    /// Measures latency, one burst in flight.
    PingPong,
    /// Measures latency of messages sent after a time line.
    Playback,
    /// Sends as fast as it can.
    Throughput,
    /// Answers clients.
    Server,
}

/// A complete command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "there is one per process")]
pub enum Options {
    /// `server`
    Server(ServerOptions),
    /// All other subcommands.
    Client(ClientOptions),
}

/// What all modes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommonOptions {
    /// Where to listen or send to.
    pub target: Target,
    /// How to wait for several sockets.
    pub multiplexer: Multiplexer,
    /// What `--timeout` says, in milliseconds: at most this long in one call of the multiplexer,
    /// and for a reply of ping-pong. -1 is without limit; `None` is the default of each.
    pub timeout_msec: Option<i32>,
    /// Datagrams or messages received in one go from a socket that is ready; `None` is all.
    pub receive_loops: Option<u32>,
    /// Options of the sockets.
    pub socket: SocketOptions,
    /// Spin on a non-blocking socket.
    pub nonblocked: bool,
    /// Receive without a copy, by libvma's extra API.
    pub zero_copy: bool,
    /// The library to run with, if it is not preloaded.
    pub load_vma: Option<String>,
    /// Progress output.
    pub activity: Activity,
    /// Whether there is a warm-up stage.
    pub warm_up: bool,
    /// Pause before the warm-up stage.
    #[serde(rename = "pre_warm_up_wait_sec", serialize_with = "seconds")]
    pub pre_warm_up_wait: Duration,
    /// Use `CLOCK_MONOTONIC`.
    pub no_rdtsc: bool,
    /// Leave the terminal and the foreground.
    pub daemonize: bool,
    /// Show what the options came to.
    pub debug: bool,
    /// When to use colours.
    pub color: Color,
    /// Where the JSON document goes.
    pub json: Option<JsonTarget>,
}

/// Where to listen or send to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One address.
    One {
        /// Address, name or path; `None` is the mode's default.
        host: Option<String>,
        /// 0 lets the system choose (server only).
        port: u16,
        /// TCP or a stream socket of the Unix domain.
        stream: bool,
    },
    /// The lines of a file.
    File(String),
}

/// How to wait for several sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Multiplexer {
    /// In the receive call, one socket after the other.
    Recvfrom,
    /// `select(2)`
    Select,
    /// `poll(2)`
    Poll,
    /// `epoll(7)`
    Epoll,
    /// The rings of libvma's extra API, which are polled.
    #[serde(rename = "socketxtreme")]
    SocketXtreme,
}

/// Options of the sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SocketOptions {
    /// IP type of service.
    pub tos: Option<u8>,
    /// Size of both socket buffers in bytes.
    pub buffer_len: Option<usize>,
    /// Busy polling of the kernel (`SO_BUSY_POLL`).
    pub busy_poll_usec: Option<u32>,
    /// Bytes a second (`SO_MAX_PACING_RATE`).
    pub rate_limit: Option<u32>,
    /// The option by which some systems accelerate a socket (`--set-sock-accl`).
    pub accelerated: bool,
    /// `SO_REUSEADDR` for unicast.
    pub reuse_address: bool,
    /// `TCP_NODELAY`
    pub no_delay: bool,
    /// Never wait in a send call: what does not fit is skipped.
    pub skip_blocking_send: bool,
    /// What concerns groups.
    pub multicast: MulticastOptions,
    /// Cipher suite of TLS over TCP.
    pub tls: Option<String>,
}

/// What concerns groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MulticastOptions {
    /// IPv4 address or interface index to receive on.
    pub receive_interface: Option<String>,
    /// IPv4 address or interface index to send on.
    pub send_interface: Option<String>,
    /// Whether this host receives what it sends.
    pub loopback: bool,
    /// Hops; 2 unless given.
    pub ttl: Option<u8>,
    /// Only messages of this sender.
    pub source: Option<String>,
}

/// What all clients share. What a mode does not have is at its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientOptions {
    /// See [`CommonOptions`].
    #[serde(flatten)]
    pub common: CommonOptions,
    /// Which test.
    #[serde(skip)]
    pub mode: Mode,
    /// When the test ends.
    pub length: TestLength,
    /// Address, name or path to bind to.
    pub bind_host: Option<String>,
    /// Port to bind to; 0 lets the system choose.
    pub bind_port: u16,
    /// How long a connection may take to come about.
    #[serde(rename = "connect_timeout_msec", serialize_with = "milliseconds")]
    pub connect_timeout: Duration,
    /// Size of a message in bytes.
    pub message_len: usize,
    /// The size varies by up to this much.
    pub range_len: usize,
    /// Messages sent at a time.
    pub burst: u32,
    /// Sends a second that send nothing (`--dummy-send`).
    pub dummies_per_second: Option<u32>,
    /// Rate; `None` is as fast as possible.
    pub messages_per_second: Option<u32>,
    /// One in so many messages wants an answer; 0 if none does.
    pub reply_every: u32,
    /// Seed of payload bytes and sizes.
    pub seed: u64,
    /// Time line of playback.
    pub data_file: Option<String>,
    /// Compare each reply with its request.
    pub data_integrity: bool,
    /// CPUs of the thread that sends.
    pub sender_cpus: Option<Vec<usize>>,
    /// CPUs of the thread that receives.
    pub receiver_cpus: Option<Vec<usize>>,
    /// Many rates instead of one.
    pub rates: Option<RatePlan>,
    /// Sockets for each address.
    pub flows: usize,
    /// Threads that share the sockets.
    pub threads: usize,
    /// Throughput has all messages sent back.
    pub is_bidirectional: bool,
    /// What is sent this soon after the first message does not count.
    pub warm_up_msec: u32,
    /// How the results are shown.
    pub results: ResultOptions,
}

/// How the results are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResultOptions {
    /// Report round trips instead of half of them.
    pub full_rtt: bool,
    /// Level of the confidence interval in percent, 1..=99.
    pub confidence_level: u8,
    /// Histogram with fixed bins.
    pub histogram: Option<BinOptions>,
    /// CSV file of all samples.
    pub full_log: Option<String>,
    /// Bandwidth in thousands of the usual units.
    pub giga_size: bool,
    /// Nine decimals in the bandwidth.
    pub precise: bool,
    /// Length of a report interval in milliseconds; `None` is without reports.
    pub interval_msec: Option<u32>,
    /// CSV file of the intervals.
    pub csv: Option<String>,
    /// File with the percentile distribution, as HdrHistogram prints it.
    pub hgrm: Option<String>,
    /// File with the histograms of the intervals.
    pub hlog: Option<String>,
    /// HTML report.
    pub html: Option<String>,
    /// Live view on the terminal.
    pub live: bool,
}

/// `server`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerOptions {
    /// See [`CommonOptions`].
    #[serde(flatten)]
    pub common: CommonOptions,
    /// Whether requests are answered.
    pub reply: bool,
    /// Whether messages are handled where the library shows them, before they are received.
    pub in_callback: bool,
    /// Whether requests to a group are answered to their sender alone.
    pub unicast_reply: bool,
    /// Whether gaps in the sequence numbers are reported.
    pub gap_detection: bool,
    /// Longest message that is accepted on a stream.
    pub message_len_max: usize,
    /// Threads that share the sockets.
    pub threads: usize,
    /// CPUs of all threads.
    pub cpus: Option<Vec<usize>>,
}

/// When a test ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestLength {
    /// After so many seconds.
    TimeSec(u32),
    /// After so many measured packets.
    Packets(u32),
    /// With the time line's last message.
    TimeLine,
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

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
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
    /// All of them, in the order of the help text.
    pub const ALL: [Self; 5] = [
        Self::UnderLoad,
        Self::PingPong,
        Self::Playback,
        Self::Throughput,
        Self::Server,
    ];

    /// The mode of a subcommand word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == word || mode.alias() == word)
    }

    /// The subcommand word.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnderLoad => "under-load",
            Self::PingPong => "ping-pong",
            Self::Playback => "playback",
            Self::Throughput => "throughput",
            Self::Server => "server",
        }
    }

    /// The short form of the subcommand word.
    pub fn alias(self) -> &'static str {
        match self {
            Self::UnderLoad => "ul",
            Self::PingPong => "pp",
            Self::Playback => "pb",
            Self::Throughput => "tp",
            Self::Server => "sr",
        }
    }

    /// One line for the help texts.
    pub fn about(self) -> &'static str {
        match self {
            Self::UnderLoad => "Measure latency while sending at a given rate.",
            Self::PingPong => "Measure latency, one message or burst at a time.",
            Self::Playback => "Measure latency of messages sent after a time line from a file.",
            Self::Throughput => "Measure how fast messages can be sent.",
            Self::Server => "Receive messages and answer those that ask for it.",
        }
    }

    /// Whether replies are measured.
    pub fn measures_latency(self) -> bool {
        match self {
            Self::UnderLoad | Self::PingPong | Self::Playback => true,
            Self::Throughput | Self::Server => false,
        }
    }
}

impl Multiplexer {
    /// How sockets are waited for, in the words of the original's report.
    pub fn waiting(self) -> String {
        let call = match self {
            Self::Recvfrom => "recvfrom",
            Self::Select => "select",
            Self::Poll => "poll",
            Self::Epoll => "epoll",
            Self::SocketXtreme => "socketxtreme",
        };
        format!("using {call}() to block on socket(s)")
    }
}

impl Options {
    /// Which subcommand this is.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Server(_) => Mode::Server,
            Self::Client(options) => options.mode,
        }
    }

    /// What all modes share.
    pub fn common(&self) -> &CommonOptions {
        match self {
            Self::Server(options) => &options.common,
            Self::Client(options) => &options.common,
        }
    }
}

impl CommonOptions {
    /// The longest wait in one call of the multiplexer, in milliseconds: 10 unless given, -1 is
    /// without limit.
    pub fn multiplexer_timeout_msec(&self) -> i32 {
        self.timeout_msec.unwrap_or(10)
    }

    /// How long ping-pong waits for a reply: 100 ms unless given; `None` is without limit.
    pub fn reply_timeout(&self) -> Option<Duration> {
        match self.timeout_msec {
            // 0 asks the multiplexer to spin, not for replies in no time.
            None | Some(0) => Some(Duration::from_millis(100)),
            Some(msec) => u64::try_from(msec).ok().map(Duration::from_millis),
        }
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_secs())
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64() * 1e3)
}
