//! What a test gives and takes, whichever it is.

use std::time::Duration;

use crate::client::replies::Replies;
use crate::error::Error;
use crate::measure::intervals::{Progress, Tap};
use crate::measure::recorder::Valid;
use crate::net::open::Endpoint;
use crate::options::{ClientOptions, TestLength};
use crate::sys::clock::Clock;
use crate::sys::stop::Stop;
use crate::sys::ticks::Ticks;
use crate::terminal::Output;

/// Why a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Its time was over.
    Timer,
    /// It sent its number of packets.
    Packets,
    /// It did not send its number of packets in time.
    PacketTimeout,
    /// It sent the whole time line.
    TimeLine,
    /// A signal.
    Stopped,
}

/// How long a test with a number of packets will take, from the speed of its warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Expected duration after the warm-up.
    pub run_time_nsec: u64,
    /// The test ends after this time at the latest.
    pub time_out_nsec: u64,
}

/// The result of a test's sending side.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Why it ended.
    pub end: End,
    /// Messages sent.
    pub sent: u64,
    /// Bytes sent, headers included.
    pub sent_bytes: u64,
    /// Messages that would have had to wait (`--tcp-skip-blocking-send`).
    pub skipped: u64,
    /// Repetitions of send calls because the system's buffers were full.
    pub send_retries: u64,
    /// When it began.
    pub start_nsec: u64,
    /// Duration.
    pub run_time_nsec: u64,
    /// When the last message was sent that wants an answer.
    pub last_tx_nsec: u64,
    /// Whether the requested rate was never reached.
    pub rate_too_high: bool,
}

/// The result of a test that measures latency.
#[derive(Debug)]
pub struct Run {
    /// The sending side.
    pub sending: Sending,
    /// Replies received.
    pub replies: Replies,
    /// Only with a number of packets.
    pub estimate: Option<Estimate>,
    /// What counts.
    pub valid: Valid,
}

/// Blocked calls of a client look at the clock and the stop request this often.
pub const TICK: Duration = Duration::from_millis(50);

/// What a test works with.
#[derive(Debug)]
pub struct Test<'a> {
    /// What was asked for.
    pub options: &'a ClientOptions,
    /// Where messages go.
    pub endpoints: &'a [Endpoint],
    /// The time.
    pub clock: &'a Clock,
    /// The request to end.
    pub stop: &'a Stop,
    /// Counters for the monitor.
    pub progress: &'a Progress,
    /// Where progress is shown.
    pub output: Output,
}

/// What records the samples of a test.
#[derive(Debug, Default)]
pub struct Recording {
    /// Shows them to the monitor, too.
    pub tap: Option<Tap>,
}

impl Sending {
    /// Messages per second.
    pub fn message_rate(&self) -> f64 {
        self.sent as f64 / (self.run_time_nsec as f64 * 1e-9).max(1e-9)
    }

    /// Adds what another thread sent at the same time.
    pub fn add(&mut self, other: &Self) {
        let end_nsec = |it: &Self| it.start_nsec.saturating_add(it.run_time_nsec);
        let last_end_nsec = end_nsec(self).max(end_nsec(other));
        self.start_nsec = self.start_nsec.min(other.start_nsec);
        self.run_time_nsec = last_end_nsec.saturating_sub(self.start_nsec);
        self.last_tx_nsec = self.last_tx_nsec.max(other.last_tx_nsec);
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.skipped += other.skipped;
        self.send_retries += other.send_retries;
        self.rate_too_high |= other.rate_too_high;
        if other.end == End::Stopped {
            self.end = End::Stopped;
        }
    }
}

impl Run {
    /// Adds what another thread measured at the same time.
    pub fn add(&mut self, other: Self) {
        self.sending.add(&other.sending);
        self.replies.add(&other.replies);
        self.valid.add(other.valid);
    }
}

impl Test<'_> {
    /// What interrupts this thread's blocked calls; non-blocking sockets need nothing.
    pub fn ticks(&self, period: Duration) -> Result<Option<Ticks>, Error> {
        let blocks = !self.options.common.nonblocked;
        blocks.then(|| Ticks::start(period)).transpose()
    }

    /// When the test ends by the clock, if it began at `start_nsec`.
    pub fn end_nsec(&self, start_nsec: u64) -> u64 {
        match self.options.length {
            TestLength::TimeSec(time_sec) => {
                start_nsec.saturating_add(u64::from(time_sec).saturating_mul(1_000_000_000))
            }
            TestLength::Packets(_) | TestLength::TimeLine => u64::MAX,
        }
    }
}
