//! Every option, once: the parser, the help texts and the refusals come from this table.

use crate::options::Mode;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Long names without the dashes; the first one is also the key of the value.
    pub long: &'static [&'static str],
    /// Letter of the short form.
    pub short: Option<char>,
    /// Name of the value; `None` for switches.
    pub value: Option<&'static str>,
    /// Where it can be used; empty for options of the original that this program lacks.
    pub modes: &'static [Mode],
    /// Text for `--help`.
    pub help: &'static str,
}

impl OptionSpec {
    /// The key of the value.
    pub fn key(&self) -> &'static str {
        self.long.first().copied().unwrap_or_default()
    }

    /// How to name the option in a message: `--time (-t)`.
    pub fn display(&self) -> String {
        match self.short {
            Some(letter) => format!("--{} (-{letter})", self.key()),
            None => format!("--{}", self.key()),
        }
    }
}

const ALL: &[Mode] = &[Mode::Server, Mode::PingPong, Mode::Throughput];
const CLIENTS: &[Mode] = &[Mode::PingPong, Mode::Throughput];
const PING_PONG: &[Mode] = &[Mode::PingPong];
const SERVER: &[Mode] = &[Mode::Server];
const NOT_SUPPORTED: &[Mode] = &[];

const fn option(
    long: &'static [&'static str],
    short: Option<char>,
    value: Option<&'static str>,
    modes: &'static [Mode],
    help: &'static str,
) -> OptionSpec {
    OptionSpec {
        long,
        short,
        value,
        modes,
        help,
    }
}

const fn lacking(long: &'static [&'static str], short: Option<char>) -> OptionSpec {
    option(long, short, None, NOT_SUPPORTED, "")
}

/// The options, in the order of the help text.
pub const OPTIONS: &[OptionSpec] = &[
    option(
        &["ip", "addr"],
        Some('i'),
        Some("host"),
        ALL,
        "Listen on/send to this IPv4 or IPv6 address or host name [server: 0.0.0.0, clients: 127.0.0.1]",
    ),
    option(
        &["port"],
        Some('p'),
        Some("port"),
        ALL,
        "Listen on/send to this port [11111]",
    ),
    option(
        &["time"],
        Some('t'),
        Some("sec"),
        CLIENTS,
        "Run for 1..36000000 seconds [1]",
    ),
    option(
        &["number-of-packets"],
        Some('n'),
        Some("count"),
        PING_PONG,
        "Measure 1..100000000 packets instead of a time; 8000 before and 1000 after them do not count",
    ),
    option(
        &["msg-size"],
        Some('m'),
        Some("bytes"),
        ALL,
        "Send messages of 14..65507 bytes [14]; server: accepted for compatibility of command lines, \
         the server takes all of these sizes",
    ),
    option(
        &["range"],
        Some('r'),
        Some("bytes"),
        CLIENTS,
        "Vary the message size at random by up to this much in both directions",
    ),
    option(
        &["burst"],
        Some('b'),
        Some("count"),
        CLIENTS,
        "Send this many messages at a time [1]",
    ),
    option(
        &["mps", "pps"],
        None,
        Some("rate|max"),
        CLIENTS,
        "Send this many messages per second [max]",
    ),
    option(
        &["timeout"],
        None,
        Some("msec"),
        PING_PONG,
        "Wait this long for a reply before counting it as dropped and going on; -1 waits for ever [100]",
    ),
    option(
        &["full-rtt"],
        None,
        None,
        PING_PONG,
        "Report round-trip times instead of half of them",
    ),
    option(
        &["data-integrity"],
        None,
        None,
        PING_PONG,
        "Check that each reply equals its request",
    ),
    option(
        &["ci_sig_level"],
        None,
        Some("percent"),
        PING_PONG,
        "Significance level of the confidence interval, 1..99 [99]",
    ),
    option(
        &["histogram"],
        None,
        Some("bin:low:high"),
        PING_PONG,
        "Print a histogram with bins of this width between these bounds, all in microseconds",
    ),
    option(
        &["full-log"],
        None,
        Some("file"),
        PING_PONG,
        "Write every sample to this CSV file",
    ),
    option(
        &["json"],
        None,
        Some("file|-"),
        ALL,
        "Write the results as JSON to this file; - is the standard output, and the text goes to the \
         standard error then",
    ),
    option(
        &["client_port"],
        None,
        Some("port"),
        CLIENTS,
        "Bind the client to this port",
    ),
    option(
        &["client_ip", "client_addr"],
        None,
        Some("host"),
        CLIENTS,
        "Bind the client to this address",
    ),
    option(&["dont-reply"], None, None, SERVER, "Never reply"),
    option(
        &["gap-detection"],
        Some('g'),
        None,
        SERVER,
        "Report gaps in the sequence numbers of each client",
    ),
    option(
        &["nonblocked"],
        None,
        None,
        ALL,
        "Use non-blocking sockets and spin",
    ),
    option(
        &["buffer-size"],
        None,
        Some("bytes"),
        ALL,
        "Size of the socket's receive and send buffers [the system's]",
    ),
    option(
        &["tos"],
        None,
        Some("value"),
        ALL,
        "IP type of service, 0..255 [0]",
    ),
    option(
        &["activity"],
        Some('a'),
        Some("count"),
        ALL,
        "Print a dot every so many messages",
    ),
    option(
        &["Activity"],
        Some('A'),
        Some("count"),
        ALL,
        "Print the message rate every so many messages",
    ),
    option(&["dontwarmup"], None, None, ALL, "Skip the warm-up stage"),
    option(
        &["pre-warmup-wait"],
        None,
        Some("sec"),
        ALL,
        "Wait this long before the warm-up [0]",
    ),
    option(
        &["sender-affinity"],
        None,
        Some("cpus"),
        CLIENTS,
        "Run on these CPUs, a list like 0,2-4 (ping-pong sends and receives in one thread)",
    ),
    option(
        &["receiver-affinity"],
        None,
        Some("cpus"),
        PING_PONG,
        "The same as --sender-affinity; if both are given, the lists must be equal",
    ),
    option(
        &["cpu-affinity"],
        None,
        Some("cpus"),
        SERVER,
        "Run on these CPUs, a list like 0,2-4",
    ),
    option(
        &["no-rdtsc"],
        None,
        None,
        ALL,
        "Use CLOCK_MONOTONIC instead of the CPU's counter",
    ),
    lacking(&["tcp", "stream"], None),
    lacking(&["file"], Some('f')),
    lacking(&["iomux-type"], Some('F')),
    lacking(&["tcp-avoid-nodelay"], None),
    lacking(&["tcp-skip-blocking-send"], None),
    lacking(&["tcp_nb_connect_timeout_ms"], None),
    lacking(&["mc-rx-if", "mc-rx-ip"], None),
    lacking(&["mc-tx-if", "mc-tx-ip"], None),
    lacking(&["mc-loopback-enable"], None),
    lacking(&["mc-ttl"], None),
    lacking(&["mc-source-filter"], None),
    lacking(&["uc-reuseaddr"], None),
    lacking(&["lls"], None),
    lacking(&["recv_looping_num"], None),
    lacking(&["zcopyread", "vmazcopyread"], None),
    lacking(&["daemonize"], None),
    lacking(&["load-vma"], None),
    lacking(&["load-xlio"], None),
    lacking(&["rate-limit"], None),
    lacking(&["set-sock-accl"], None),
    lacking(&["tls"], None),
    lacking(&["debug"], Some('d')),
    lacking(&["giga-size"], None),
    lacking(&["increase_output_precision"], None),
    lacking(&["dummy-send"], None),
    lacking(&["srv-num"], None),
    lacking(&["reply-every"], None),
    lacking(&["data-file"], None),
    lacking(&["threads-num"], None),
    lacking(&["rxfiltercb", "vmarxfiltercb"], None),
    lacking(&["force-unicast-reply"], None),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names = HashSet::from(["help".to_owned(), "usage".to_owned(), "h".to_owned()]);
        for option in OPTIONS {
            for name in option.long {
                assert!(names.insert((*name).to_owned()), "--{name}");
            }
            if let Some(letter) = option.short {
                assert!(names.insert(letter.to_string()), "-{letter}");
            }
        }
    }

    #[test]
    fn supported_options_have_help() {
        for option in OPTIONS {
            assert_eq!(
                option.help.is_empty(),
                option.modes.is_empty(),
                "{}",
                option.display()
            );
            assert!(!option.key().is_empty());
        }
    }
}
