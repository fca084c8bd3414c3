//! `throughput`: sends as fast as it can, or as fast as it was told to. Only the sender is
//! measured.

use std::net::{SocketAddr, UdpSocket};

use crate::activity::Activity;
use crate::clock::Clock;
use crate::error::Error;
use crate::message::Flags;
use crate::options::ThroughputOptions;
use crate::output::Output;
use crate::pacer::Pacer;
use crate::payload::MessageSource;
use crate::ping_pong::End;
use crate::socket;
use crate::stop::Stop;

/// The result of a test.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Why it ended.
    pub end: End,
    /// Messages sent.
    pub sent: u64,
    /// Bytes sent, headers included.
    pub sent_bytes: u64,
    /// Repetitions of send calls because the system's buffers were full.
    pub send_retries: u64,
    /// Duration.
    pub run_time_nsec: u64,
    /// Whether the requested rate was never reached.
    pub rate_too_high: bool,
}

/// Runs a test against the server at `peer`.
pub fn run(
    socket: &UdpSocket,
    peer: SocketAddr,
    options: &ThroughputOptions,
    clock: &Clock,
    stop: &Stop,
    output: &mut Output,
) -> Result<Run, Error> {
    /// Without a schedule, the clock is read once in about so many messages.
    const MESSAGES_PER_CLOCK_READING: u32 = 32;
    let client = &options.client;
    let mut source = MessageSource::new(client.message_len, client.range_len, client.seed);
    let start_nsec = clock.now_nsec();
    let end_nsec = start_nsec + u64::from(options.time_sec) * 1_000_000_000;
    let mut activity = Activity::new(client.common.activity, start_nsec);
    let mut pacer = client
        .messages_per_second
        .map(|rate| Pacer::new(start_nsec, client.burst, rate));
    let (mut sent, mut sent_bytes, mut send_retries) = (0, 0, 0);
    let mut until_reading = 1;
    let end = 'test: loop {
        let mut now_nsec = start_nsec;
        if let Some(pacer) = &mut pacer {
            now_nsec = pacer.wait(clock, stop, end_nsec);
        } else {
            until_reading -= 1;
            if until_reading == 0 {
                until_reading = MESSAGES_PER_CLOCK_READING.div_ceil(client.burst);
                now_nsec = clock.now_nsec();
            }
        }
        if stop.is_requested() {
            break End::Stopped;
        }
        if now_nsec >= end_nsec {
            break End::Timer;
        }
        for _ in 0..client.burst {
            let message = source.message(sent + 1, Flags(Flags::CLIENT));
            if !socket::send(socket, message, peer, stop, &mut send_retries)? {
                break 'test End::Stopped;
            }
            sent += 1;
            sent_bytes += message.len() as u64;
            activity.count(clock, output);
        }
    };
    let run_time_nsec = clock.now_nsec().saturating_sub(start_nsec);
    activity.finish(output);
    let rate_too_high = pacer.is_some_and(|pacer| !pacer.ever_waited());
    Ok(Run {
        end,
        sent,
        sent_bytes,
        send_retries,
        run_time_nsec,
        rate_too_high,
    })
}
