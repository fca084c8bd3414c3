//! The sending side of under-load, playback and throughput: messages on a schedule.

use std::sync::atomic::Ordering;

use crate::client::dummies::Dummies;
use crate::client::pacer::{Pacer, Turn, spin_until};
use crate::client::payload::MessageSource;
use crate::client::run::{End, Sending, TICK, Test};
use crate::client::stamps::Stamps;
use crate::client::time_line::TimeLine;
use crate::error::Error;
use crate::measure::activity::Activity;
use crate::message::{Flags, MAX_STREAM_LEN, MAX_UDP_LEN};
use crate::net::socket::{SendPolicy, Sent};
use crate::options::{ClientOptions, TestLength};

/// When messages are sent.
enum Schedule<'a> {
    /// As fast as possible; the clock is read once in so many bursts.
    Unpaced { until_reading: u32, period: u32 },
    /// At a rate.
    Paced(Pacer),
    /// After a time line.
    TimeLine { line: &'a TimeLine, next: usize },
}

/// Without a schedule, the clock is read once in about so many messages.
const MESSAGES_PER_CLOCK_READING: u32 = 32;

/// The messages of a client with these options.
pub fn message_source(options: &ClientOptions, line: Option<&TimeLine>) -> MessageSource {
    let len = line.map_or(options.message_len, TimeLine::longest_len);
    let is_stream_only = options.message_len > MAX_UDP_LEN
        || matches!(
            options.common.target,
            crate::options::Target::One { stream: true, .. }
        );
    let len_max = if is_stream_only {
        MAX_STREAM_LEN
    } else {
        MAX_UDP_LEN
    };
    MessageSource::new(len, options.range_len, len_max, options.seed)
}

/// Sends until the test ends. Messages that want an answer are noted in `stamps`.
pub fn run(
    test: &mut Test<'_>,
    line: Option<&TimeLine>,
    stamps: Option<&Stamps>,
) -> Result<Sending, Error> {
    let _ticks = test.ticks(TICK)?;
    let options = test.options;
    let burst = options.burst;
    let mut source = message_source(options, line);
    let mut policy = SendPolicy::new(options.common.socket.skip_blocking_send, test.stop);
    let start_nsec = test.clock.now_nsec();
    let end_nsec = test.end_nsec(start_nsec);
    let mut activity = Activity::new(options.common.activity, start_nsec);
    let mut schedule = Schedule::new(options, line, start_nsec);
    let (mut sent, mut sent_bytes, mut skipped, mut last_tx_nsec) = (0u64, 0u64, 0u64, start_nsec);
    let mut until_reply = options.reply_every;
    let mut endpoints = test.endpoints.iter().cycle();
    let mut dummies = Dummies::new(test.endpoints, options.dummies_per_second)?;
    let end = 'test: loop {
        let (turn, len) = match schedule.next_turn(test, start_nsec, end_nsec, &mut dummies) {
            Ok(next) => next,
            Err(end) => break end,
        };
        let Some(endpoint) = endpoints.next() else {
            break End::Stopped;
        };
        for _ in 0..burst {
            let wants_reply = until_reply == 1;
            let message = next_message(&mut source, len, sent + 1, wants_reply);
            let stamps = stamps.filter(|_| wants_reply);
            if let Some(stamps) = stamps {
                let tx_nsec = test.clock.now_nsec();
                stamps.publish(tx_nsec, tx_nsec.saturating_sub(turn.due_nsec));
                last_tx_nsec = tx_nsec;
            }
            let message_len = message.len() as u64;
            match endpoint.socket.send(message, &endpoint.peer, &mut policy) {
                Ok(Sent::Yes) => {}
                Ok(Sent::Skipped) => {
                    // The next message gets this one's number.
                    skipped += 1;
                    stamps.inspect(|stamps| stamps.retract());
                    continue;
                }
                Ok(Sent::Stopped) => {
                    stamps.inspect(|stamps| stamps.retract());
                    break 'test End::Stopped;
                }
                Err(error) => return Err(error),
            }
            until_reply = match until_reply {
                1 => options.reply_every,
                count => count.saturating_sub(1),
            };
            sent += 1;
            sent_bytes += message_len;
            test.progress.sent.store(sent, Ordering::Relaxed);
            test.progress
                .sent_bytes
                .store(sent_bytes, Ordering::Relaxed);
            activity.count(test.clock, &mut test.output);
        }
    };
    let run_time_nsec = test.clock.now_nsec().saturating_sub(start_nsec);
    activity.finish(&mut test.output);
    Ok(Sending {
        end,
        sent,
        sent_bytes,
        skipped,
        send_retries: policy.retries,
        start_nsec,
        run_time_nsec,
        last_tx_nsec,
        rate_too_high: schedule.was_too_fast(),
    })
}

#[inline]
fn next_message(
    source: &mut MessageSource,
    len: Option<usize>,
    number: u64,
    wants_reply: bool,
) -> &[u8] {
    let flags = if wants_reply {
        Flags(Flags::CLIENT | Flags::PONG_REQUEST)
    } else {
        Flags(Flags::CLIENT)
    };
    match len {
        None => source.message(number, flags),
        Some(len) => source.message_of(len, number, flags),
    }
}

impl<'a> Schedule<'a> {
    fn new(options: &ClientOptions, line: Option<&'a TimeLine>, start_nsec: u64) -> Self {
        match (line, options.messages_per_second) {
            (Some(line), _) if options.length == TestLength::TimeLine => {
                Self::TimeLine { line, next: 0 }
            }
            (_, Some(rate)) => Self::Paced(Pacer::new(start_nsec, options.burst, rate)),
            (_, None) => Self::Unpaced {
                until_reading: 1,
                period: MESSAGES_PER_CLOCK_READING.div_ceil(options.burst),
            },
        }
    }

    /// Waits for the next turn, which may come with a size, or says why there is none.
    #[inline]
    fn next_turn(
        &mut self,
        test: &Test<'_>,
        start_nsec: u64,
        end_nsec: u64,
        dummies: &mut Option<Dummies<'_>>,
    ) -> Result<(Turn, Option<usize>), End> {
        let next = self.wait(test, start_nsec, end_nsec, dummies);
        let next = next.ok_or(End::TimeLine)?;
        if test.stop.is_requested() {
            return Err(End::Stopped);
        }
        if next.0.now_nsec >= end_nsec {
            return Err(End::Timer);
        }
        Ok(next)
    }

    /// The same; `None` at the end of the time line.
    #[inline]
    fn wait(
        &mut self,
        test: &Test<'_>,
        start_nsec: u64,
        end_nsec: u64,
        dummies: &mut Option<Dummies<'_>>,
    ) -> Option<(Turn, Option<usize>)> {
        match self {
            Self::Paced(pacer) => {
                let turn = pacer.wait(test.clock, test.stop, end_nsec, dummies);
                Some((turn, None))
            }
            Self::Unpaced {
                until_reading,
                period,
            } => {
                *until_reading -= 1;
                let mut now_nsec = start_nsec;
                if *until_reading == 0 {
                    *until_reading = *period;
                    now_nsec = test.clock.now_nsec();
                }
                // Without a plan nothing is late.
                let due_nsec = u64::MAX;
                Some((Turn { now_nsec, due_nsec }, None))
            }
            Self::TimeLine { line, next } => {
                let message = line.messages().get(*next)?;
                *next += 1;
                let due_nsec = start_nsec.saturating_add(message.after_nsec);
                let (now_nsec, _) = spin_until(due_nsec, test.clock, test.stop, dummies);
                Some((Turn { now_nsec, due_nsec }, Some(message.len)))
            }
        }
    }

    fn was_too_fast(&self) -> bool {
        matches!(self, Self::Paced(pacer) if !pacer.ever_waited())
    }
}
