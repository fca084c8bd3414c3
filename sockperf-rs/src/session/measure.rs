//! The test itself, in one thread or many.

use super::Session;
use crate::client::ping_pong;
use crate::client::replies::Replies;
use crate::client::run::{Recording, Run, Sending, Test};
use crate::client::sender;
use crate::client::threads;
use crate::client::time_line::TimeLine;
use crate::client::under_load;
use crate::error::Error;
use crate::measure::intervals::Progress;
use crate::net::open::Endpoint;
use crate::options::{ClientOptions, Mode};

/// What a test measured.
#[allow(clippy::large_enum_variant, reason = "there is one per thread")]
pub(super) enum Outcome {
    Latency(Run),
    /// With what came back, if that was asked for.
    Throughput(Sending, Option<Replies>),
}

impl Session<'_> {
    /// Runs a test, each share of the sockets in a thread of its own.
    pub(super) fn measure(
        &self,
        options: &ClientOptions,
        shares: &[Vec<Endpoint>],
        (progress, recordings): (&[Progress], Vec<Recording>),
        line: Option<&TimeLine>,
    ) -> Result<Outcome, Error> {
        let all_options = threads::options(options, shares.len());
        let threads = all_options.iter().zip(shares).zip(progress).zip(recordings);
        let tests = threads.map(|(((options, endpoints), progress), recording)| {
            let test = Test {
                options,
                endpoints,
                clock: &self.clock,
                stop: &self.stop,
                progress,
                output: self.output.clone(),
            };
            (test, recording)
        });
        let outcomes = threads::run(tests.collect(), |test, recording| {
            in_this_thread(test, recording, line)
        })?;
        outcomes
            .into_iter()
            .reduce(Outcome::and)
            .ok_or_else(|| Error::NoResult("No messages were sent".to_owned()))
    }
}

fn in_this_thread(
    test: &mut Test<'_>,
    recording: Recording,
    line: Option<&TimeLine>,
) -> Result<Outcome, Error> {
    match test.options.mode {
        Mode::PingPong => ping_pong::run(test, recording).map(Outcome::Latency),
        Mode::Throughput if test.options.is_bidirectional => under_load::run(test, line, recording)
            .map(|run| Outcome::Throughput(run.sending, Some(run.replies))),
        Mode::Throughput => {
            sender::run(test, line, None).map(|sending| Outcome::Throughput(sending, None))
        }
        _ => under_load::run(test, line, recording).map(Outcome::Latency),
    }
}

impl Outcome {
    /// What two threads of a test measured; both are of one kind.
    fn and(mut self, other: Self) -> Self {
        match (&mut self, other) {
            (Self::Latency(sum), Self::Latency(run)) => sum.add(run),
            (Self::Throughput(sum, returned), Self::Throughput(sending, more)) => {
                sum.add(&sending);
                if let (Some(returned), Some(more)) = (returned, more) {
                    returned.add(&more);
                }
            }
            _ => {}
        }
        self
    }
}
