//! `ping-pong`: sends a burst, waits for its replies, and so on.
//!
//! One system call sends a message and one receives its reply; nothing else happens in the kernel,
//! and nothing is allocated or formatted, unless progress output was asked for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::dummies::Dummies;
use crate::client::flight::{Flight, Unanswered};
use crate::client::pacer::Pacer;
use crate::client::payload::MessageSource;
use crate::client::replies::{Receiver, Replies};
use crate::client::run::{End, Estimate, Recording, Run, Sending, TICK, Test};
use crate::client::sender::message_source;
use crate::error::Error;
use crate::measure::activity::Activity;
use crate::measure::recorder::{COOL_DOWN_PACKETS, Recorder, WARM_UP_PACKETS};
use crate::message::Flags;
use crate::net::socket::{SendPolicy, Sent};
use crate::options::{ClientOptions, TestLength};

/// How often a blocked call looks at the clock: often enough to notice that a reply is overdue.
fn tick(options: &ClientOptions) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(1);
    let timeout = options.common.reply_timeout();
    timeout.map_or(TICK, |timeout| (timeout / 4).clamp(SHORTEST, TICK))
}

/// Runs a test.
pub fn run(test: &mut Test<'_>, recording: Recording) -> Result<Run, Error> {
    let _ticks = test.ticks(tick(test.options))?;
    let start_nsec = test.clock.now_nsec();
    let mut activity = Activity::new(test.options.common.activity, start_nsec);
    let mut output = test.output.clone();
    let mut client = PingPong::new(test, start_nsec, recording)?;
    let end = client.run(|count| {
        (0..count).for_each(|_| activity.count(test.clock, &mut output));
    })?;
    activity.finish(&mut output);
    client.replies.malformed = client.receiver.malformed();
    Ok(Run {
        sending: Sending {
            end,
            sent: client.sent,
            sent_bytes: client.sent_bytes,
            skipped: client.skipped,
            send_retries: client.policy.retries,
            start_nsec,
            run_time_nsec: client.now_nsec.saturating_sub(start_nsec),
            last_tx_nsec: client.last_tx_nsec,
            rate_too_high: client.pacer.is_some_and(|pacer| !pacer.ever_waited()),
        },
        replies: client.replies,
        estimate: client.estimate,
        valid: client.recorder.finish(client.last_tx_nsec),
    })
}

struct PingPong<'a> {
    test: &'a Test<'a>,
    source: MessageSource,
    receiver: Receiver<'a>,
    policy: SendPolicy<'a>,
    flight: Flight,
    recorder: Recorder,
    pacer: Option<Pacer>,
    dummies: Option<Dummies<'a>>,
    spins_max: u32,
    timeout_nsec: u64,
    start_nsec: u64,
    /// The last reading of the clock.
    now_nsec: u64,
    /// The test does not go on after this time.
    end_nsec: u64,
    last_tx_nsec: u64,
    last_reply_nsec: u64,
    sent: u64,
    sent_bytes: u64,
    skipped: u64,
    replies: Replies,
    estimate: Option<Estimate>,
}

/// How the wait for a burst's replies ended.
#[derive(PartialEq, Eq)]
enum Wait {
    /// All arrived, or the time for them passed.
    Over,
    /// The test ended.
    CutShort,
}

impl<'a> PingPong<'a> {
    fn new(test: &'a Test<'a>, start_nsec: u64, recording: Recording) -> Result<Self, Error> {
        /// A spinning receive reads the clock once in so many calls.
        const SPINS_PER_CLOCK_READING: u32 = 64;
        let options = test.options;
        let common = &options.common;
        let burst = usize::try_from(options.burst).unwrap_or(usize::MAX);
        let is_reliable = test.endpoints.iter().all(|it| it.socket.is_stream());
        // Nothing is lost on a connection.
        let timeout = common.reply_timeout().filter(|_| !is_reliable);
        Ok(Self {
            test,
            source: message_source(options, None),
            receiver: Receiver::new(test.endpoints, options.message_len, common)?,
            policy: SendPolicy::new(common.socket.skip_blocking_send, test.stop),
            flight: Flight::new(1, burst),
            recorder: Recorder::of_client(options, recording.tap)?,
            pacer: options
                .messages_per_second
                .map(|rate| Pacer::new(start_nsec, options.burst, rate)),
            dummies: Dummies::new(test.endpoints, options.dummies_per_second)?,
            spins_max: if common.nonblocked || common.timeout_msec == Some(0) {
                SPINS_PER_CLOCK_READING
            } else {
                1
            },
            timeout_nsec: timeout.map_or(u64::MAX, nsec),
            start_nsec,
            now_nsec: start_nsec,
            end_nsec: test.end_nsec(start_nsec),
            last_tx_nsec: start_nsec,
            last_reply_nsec: start_nsec,
            sent: 0,
            sent_bytes: 0,
            skipped: 0,
            replies: Replies::default(),
            estimate: None,
        })
    }

    fn run(&mut self, mut count_replies: impl FnMut(u64)) -> Result<End, Error> {
        let burst = u64::from(self.test.options.burst);
        let (messages_max, end_at_time) = match self.test.options.length {
            TestLength::Packets(packets) => (
                WARM_UP_PACKETS + u64::from(packets) + COOL_DOWN_PACKETS,
                End::PacketTimeout,
            ),
            TestLength::TimeSec(_) | TestLength::TimeLine => (u64::MAX, End::Timer),
        };
        let mut number = 0;
        loop {
            if let Some(pacer) = &mut self.pacer {
                let turn = pacer.wait(
                    self.test.clock,
                    self.test.stop,
                    self.end_nsec,
                    &mut self.dummies,
                );
                self.now_nsec = turn.now_nsec;
            }
            let messages_left = messages_max - self.sent;
            if messages_left == 0 {
                return Ok(End::Packets);
            }
            if self.test.stop.is_requested() {
                return Ok(End::Stopped);
            }
            if self.now_nsec >= self.end_nsec {
                return Ok(end_at_time);
            }
            let received_before = self.replies.received;
            self.send_burst(number, messages_left.min(burst))?;
            let unanswered = match self.receive_burst(number)? {
                Wait::Over => Unanswered::Drop,
                Wait::CutShort => Unanswered::Forget,
            };
            self.flight.settle(&mut self.recorder, unanswered);
            let progress = self.test.progress;
            progress
                .received
                .store(self.replies.received, Ordering::Relaxed);
            count_replies(self.replies.received - received_before);
            if end_at_time == End::PacketTimeout && self.estimate_packet_test(messages_max) {
                return Ok(End::PacketTimeout);
            }
            number += 1;
            if number == self.test.endpoints.len() {
                number = 0;
            }
        }
    }

    fn send_burst(&mut self, number: usize, messages: u64) -> Result<(), Error> {
        const FLAGS: Flags = Flags(Flags::CLIENT | Flags::PONG_REQUEST);
        let Some(endpoint) = self.test.endpoints.get(number) else {
            return Ok(());
        };
        for _ in 0..messages {
            let message = self.source.message(self.sent + 1, FLAGS);
            let tx_nsec = self.test.clock.now_nsec();
            self.flight.push(tx_nsec, 0);
            let len = message.len() as u64;
            match endpoint
                .socket
                .send(message, &endpoint.peer, &mut self.policy)?
            {
                Sent::Yes => {}
                Sent::Skipped => {
                    self.flight.unpush();
                    self.skipped += 1;
                    self.now_nsec = tx_nsec;
                    continue;
                }
                Sent::Stopped => {
                    self.flight.unpush();
                    break;
                }
            }
            self.last_tx_nsec = tx_nsec;
            self.sent += 1;
            self.sent_bytes += len;
        }
        let progress = self.test.progress;
        progress.sent.store(self.sent, Ordering::Relaxed);
        progress
            .sent_bytes
            .store(self.sent_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn receive_burst(&mut self, number: usize) -> Result<Wait, Error> {
        let deadline_nsec = self.flight.last_tx_nsec().saturating_add(self.timeout_nsec);
        let mut spins = 0;
        while self.flight.outstanding() > 0 {
            let (flight, replies, source) = (&mut self.flight, &mut self.replies, &self.source);
            let checks = self.test.options.data_integrity;
            let arrived =
                self.receiver
                    .receive(number, self.test.clock, &mut |now, header, message| {
                        let is_answer = replies.take(flight, header, now);
                        if is_answer && checks && !source.is_echo(message) {
                            return Err(Error::Integrity {
                                sequence: header.sequence,
                            });
                        }
                        Ok(())
                    })?;
            match arrived {
                Some(now_nsec) => {
                    self.now_nsec = now_nsec;
                    if self.flight.outstanding() == 0 {
                        break;
                    }
                }
                None => {
                    spins += 1;
                    if spins < self.spins_max {
                        continue;
                    }
                    spins = 0;
                    self.now_nsec = self.test.clock.now_nsec();
                }
            }
            if self.test.stop.is_requested() || self.now_nsec >= self.end_nsec {
                return Ok(Wait::CutShort);
            }
            if self.now_nsec >= deadline_nsec {
                return Ok(Wait::Over);
            }
        }
        self.last_reply_nsec = self.now_nsec;
        Ok(Wait::Over)
    }

    /// Sets the end of a test with a number of packets once its speed is known; returns whether the
    /// test should be given up because the server is silent.
    fn estimate_packet_test(&mut self, messages_max: u64) -> bool {
        /// No network is silent for so long and then works.
        const SILENCE_NSEC: u64 = 10_000_000_000;
        let sent = self.sent;
        if self.estimate.is_none() && sent >= WARM_UP_PACKETS {
            let elapsed_nsec = self.now_nsec.saturating_sub(self.start_nsec);
            let left = u128::from(messages_max - sent);
            let run_time_nsec = u128::from(elapsed_nsec) * left / u128::from(sent);
            let run_time_nsec = u64::try_from(run_time_nsec).unwrap_or(u64::MAX);
            let time_out_nsec = (run_time_nsec / 2)
                .saturating_add(run_time_nsec)
                .max(SILENCE_NSEC);
            self.estimate = Some(Estimate {
                run_time_nsec,
                time_out_nsec,
            });
            self.end_nsec = self.now_nsec.saturating_add(time_out_nsec);
        }
        let silence_nsec = self.now_nsec.saturating_sub(self.last_reply_nsec);
        silence_nsec >= SILENCE_NSEC.max(self.timeout_nsec.saturating_mul(10))
    }
}

fn nsec(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
