//! What sockperf prints.

use crate::median::median;

/// Half round trips in microseconds, as a ping-pong client reports them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latency {
    pub(crate) p50_usec: f64,
    pub(crate) p99_usec: f64,
    pub(crate) p999_usec: f64,
}

impl Latency {
    /// What [`Latency::values`] holds.
    pub(crate) const NAMES: [&str; 3] = ["p50", "p99", "p99.9"];

    /// In microseconds.
    pub(crate) fn values(&self) -> [f64; 3] {
        [self.p50_usec, self.p99_usec, self.p999_usec]
    }

    /// The one with the lower median.
    pub(crate) fn faster<'a>(&'a self, other: &'a Self) -> &'a Self {
        if other.p50_usec < self.p50_usec {
            other
        } else {
            self
        }
    }

    /// The median of each percentile by itself.
    pub(crate) fn median_of<'a>(rounds: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let of = |value: fn(&Self) -> f64| median(rounds.clone().map(value));
        Self {
            p50_usec: of(|latency| latency.p50_usec),
            p99_usec: of(|latency| latency.p99_usec),
            p999_usec: of(|latency| latency.p999_usec),
        }
    }
}

/// What a throughput client reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) seconds: f64,
}

/// What a server prints when it is ready for its first message.
pub(crate) const SERVER_IS_READY: &str = "using recvfrom() to block on socket(s)";

/// Reads a ping-pong client's output; `None` if it measured nothing.
pub(crate) fn latency(output: &str) -> Option<Latency> {
    Some(Latency {
        p50_usec: percentile(output, "50.000")?,
        p99_usec: percentile(output, "99.000")?,
        p999_usec: percentile(output, "99.900")?,
    })
}

/// Of `sockperf: ---> percentile 99.900 =  107.448`.
fn percentile(output: &str, percent: &str) -> Option<f64> {
    let (_, value) = output
        .lines()
        .filter_map(|line| line.split_once("---> percentile ")?.1.split_once('='))
        .find(|(name, _)| name.trim() == percent)?;
    value.trim().parse().ok()
}

/// Reads a throughput client's output: `sockperf: Total of 792336 messages sent in 2.000 sec`,
/// where a note on skipped messages may follow the count.
pub(crate) fn sent(output: &str) -> Option<Sent> {
    let (_, rest) = output.split_once("Total of ")?;
    let line = rest.lines().next()?;
    let (messages, rest) = line.split_once(" messages sent")?;
    let (_, rest) = rest.split_once("in ")?;
    let (seconds, _) = rest.split_once(" sec")?;
    Some(Sent {
        messages: messages.trim().parse().ok()?,
        seconds: seconds.trim().parse().ok()?,
    })
}

/// Reads a stopped server's output: `sockperf: Total 1334230 messages received and handled`.
pub(crate) fn received(output: &str) -> Option<u64> {
    if output.contains("No messages were received on the server.") {
        return Some(0);
    }
    let (before, _) = output.split_once(" messages received and handled")?;
    before.rsplit("Total ").next()?.trim().parse().ok()
}

/// Without the escape sequences for colours, which sockperf writes to files too.
pub(crate) fn plain(output: &str) -> String {
    let mut parts = output.split("\u{1b}[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += part.split_once('m').map_or(part, |(_, rest)| rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING_PONG: &str = "\
sockperf: Summary: Latency is 11.090 usec
sockperf: \u{1b}[2;35mTotal 69668 observations\u{1b}[0m; each percentile contains 696.68 observations
sockperf: ---> <MAX> observation = 2103.751
sockperf: ---> percentile 99.999 = 1872.047
sockperf: ---> percentile 99.990 =  593.031
sockperf: ---> percentile 99.900 =  107.448
sockperf: ---> percentile 99.000 =   52.543
sockperf: ---> percentile 90.000 =   10.169
sockperf: ---> percentile 75.000 =    9.799
sockperf: ---> percentile 50.000 =    9.669
sockperf: ---> percentile 25.000 =    9.577
sockperf: ---> <MIN> observation =    3.253
";

    #[test]
    fn percentiles_of_a_ping_pong() {
        let expected = Latency {
            p50_usec: 9.669,
            p99_usec: 52.543,
            p999_usec: 107.448,
        };
        assert_eq!(latency(PING_PONG), Some(expected));
        assert_eq!(latency("sockperf: No messages were sent\n"), None);
        // Few observations: the high percentiles are left out.
        let few = PING_PONG.replace("percentile 99.900", "percentile 98.000");
        assert_eq!(latency(&few), None);
    }

    #[test]
    fn messages_that_a_client_sent() {
        let expected = Sent {
            messages: 792_336,
            seconds: 2.0,
        };
        let output =
            "sockperf: Test ended\nsockperf: Total of 792336 messages sent in 2.000 sec\n\n";
        assert_eq!(sent(output), Some(expected));
        let skipped = "sockperf: Total of 792336 messages sent (7 messages skipped) in 2.000 sec\n";
        assert_eq!(sent(skipped), Some(expected));
        assert_eq!(sent("sockperf: Total of nothing"), None);
    }

    #[test]
    fn messages_that_a_server_received() {
        let output = "sockperf: Test end (interrupted by user)\n\
                      sockperf: Total 1334230 messages received and handled\n\
                      sockperf: cleanupAfterLoop() exit\n";
        assert_eq!(received(output), Some(1_334_230));
        assert_eq!(
            received("sockperf: No messages were received on the server.\n"),
            Some(0)
        );
        assert_eq!(received("sockperf: [SERVER] listen on:\n"), None);
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(
            plain("sockperf: \u{1b}[2;35m== version\u{1b}[0m\nx"),
            "sockperf: == version\nx"
        );
        assert_eq!(plain("none"), "none");
    }
}
