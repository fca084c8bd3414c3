//! `ping-pong`: sends a burst, waits for its replies, and so on.
//!
//! One system call sends a message and one receives its reply; nothing else happens in the kernel,
//! and nothing is allocated or formatted, unless progress output was asked for.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::activity::Activity;
use crate::bins::Bins;
use crate::clock::Clock;
use crate::error::Error;
use crate::flight::{Flight, Reply};
use crate::message::{Flags, Header};
use crate::options::{PingPongOptions, TestLength};
use crate::output::Output;
use crate::pacer::Pacer;
use crate::payload::MessageSource;
use crate::recorder::{COOL_DOWN_PACKETS, Recorder, SampleLog, Valid, WARM_UP_PACKETS, Window};
use crate::socket::{self, RECEIVE_LEN};
use crate::stop::Stop;

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

/// Replies by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Replies {
    /// Messages that were answered, in time or late.
    pub received: u64,
    /// Further replies to an answered message.
    pub duplicated: u64,
    /// Replies to messages that had been counted as dropped.
    pub late: u64,
    /// Replies with a sequence number that was never sent.
    pub unexpected: u64,
    /// Datagrams that are not whole messages.
    pub malformed: u64,
}

/// The result of a test.
#[derive(Debug)]
pub struct Run {
    /// Why it ended.
    pub end: End,
    /// Messages sent.
    pub sent: u64,
    /// Replies received.
    pub replies: Replies,
    /// Repetitions of send calls because the system's buffers were full.
    pub send_retries: u64,
    /// Duration.
    pub run_time_nsec: u64,
    /// Only with a number of packets.
    pub estimate: Option<Estimate>,
    /// Whether the requested rate was never reached.
    pub rate_too_high: bool,
    /// What counts.
    pub valid: Valid,
}

/// How often a blocked receive call looks at the clock and the stop request.
pub fn wake_up(options: &PingPongOptions) -> Duration {
    const LONGEST: Duration = Duration::from_millis(50);
    options
        .timeout
        .map_or(LONGEST, |timeout| timeout.min(LONGEST))
}

/// Runs a test against the server at `peer`.
pub fn run(
    socket: &UdpSocket,
    peer: SocketAddr,
    options: &PingPongOptions,
    clock: &Clock,
    stop: &Stop,
    output: &mut Output,
) -> Result<Run, Error> {
    let mut test = PingPong::new(socket, peer, options, clock, stop)?;
    let start_nsec = clock.now_nsec();
    let mut activity = Activity::new(options.client.common.activity, start_nsec);
    let end = test.run(start_nsec, &mut activity, output)?;
    activity.finish(output);
    Ok(Run {
        end,
        sent: test.flight.sent(),
        replies: test.replies,
        send_retries: test.send_retries,
        run_time_nsec: test.now_nsec.saturating_sub(start_nsec),
        estimate: test.estimate,
        rate_too_high: test.pacer.is_some_and(|pacer| !pacer.ever_waited()),
        valid: test.recorder.finish(test.last_tx_nsec),
    })
}

struct PingPong<'a> {
    socket: &'a UdpSocket,
    peer: SocketAddr,
    options: &'a PingPongOptions,
    clock: &'a Clock,
    stop: &'a Stop,
    source: MessageSource,
    buffer: Vec<u8>,
    flight: Flight,
    recorder: Recorder,
    pacer: Option<Pacer>,
    timeout_nsec: u64,
    /// The last reading of the clock.
    now_nsec: u64,
    /// The test does not go on after this time.
    end_nsec: u64,
    last_tx_nsec: u64,
    last_reply_nsec: u64,
    replies: Replies,
    send_retries: u64,
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
    fn new(
        socket: &'a UdpSocket,
        peer: SocketAddr,
        options: &'a PingPongOptions,
        clock: &'a Clock,
        stop: &'a Stop,
    ) -> Result<Self, Error> {
        let client = &options.client;
        let window = match options.length {
            TestLength::TimeSec(_) => Window::Time,
            TestLength::Packets(packets) => Window::Packets(u64::from(packets)),
        };
        let log = options
            .full_log
            .as_ref()
            .map(|_| SampleLog::with_capacity(samples_max(options)));
        let bins = options
            .histogram
            .map(|bins| Bins::new(bins, options.full_rtt));
        Ok(Self {
            socket,
            peer,
            options,
            clock,
            stop,
            source: MessageSource::new(client.message_len, client.range_len, client.seed),
            buffer: vec![0; RECEIVE_LEN],
            flight: Flight::new(client.burst),
            recorder: Recorder::new(window, bins, log.transpose()?)?,
            pacer: None,
            timeout_nsec: options.timeout.map_or(u64::MAX, nsec),
            now_nsec: 0,
            end_nsec: u64::MAX,
            last_tx_nsec: 0,
            last_reply_nsec: 0,
            replies: Replies::default(),
            send_retries: 0,
            estimate: None,
        })
    }

    fn run(
        &mut self,
        start_nsec: u64,
        activity: &mut Activity,
        output: &mut Output,
    ) -> Result<End, Error> {
        let burst = self.options.client.burst;
        self.pacer = self
            .options
            .client
            .messages_per_second
            .map(|rate| Pacer::new(start_nsec, burst, rate));
        self.now_nsec = start_nsec;
        self.last_reply_nsec = start_nsec;
        let (messages_max, end_at_time) = match self.options.length {
            TestLength::TimeSec(time_sec) => {
                self.end_nsec =
                    start_nsec.saturating_add(u64::from(time_sec).saturating_mul(1_000_000_000));
                (u64::MAX, End::Timer)
            }
            TestLength::Packets(packets) => (
                WARM_UP_PACKETS + u64::from(packets) + COOL_DOWN_PACKETS,
                End::PacketTimeout,
            ),
        };
        loop {
            if let Some(pacer) = &mut self.pacer {
                self.now_nsec = pacer.wait(self.clock, self.stop, self.end_nsec);
            }
            let messages_left = messages_max - self.flight.sent();
            if messages_left == 0 {
                return Ok(End::Packets);
            }
            if self.stop.is_requested() {
                return Ok(End::Stopped);
            }
            if self.now_nsec >= self.end_nsec {
                return Ok(end_at_time);
            }
            let received_before = self.replies.received;
            self.send_burst(messages_left.min(u64::from(burst)))?;
            let wait = self.receive_burst()?;
            self.flight
                .settle(&mut self.recorder, wait == Wait::CutShort);
            for _ in received_before..self.replies.received {
                activity.count(self.clock, output);
            }
            if end_at_time == End::PacketTimeout
                && self.is_packet_test_stuck(start_nsec, messages_max)
            {
                return Ok(End::PacketTimeout);
            }
        }
    }

    fn send_burst(&mut self, messages: u64) -> Result<(), Error> {
        const FLAGS: Flags = Flags(Flags::CLIENT | Flags::PONG_REQUEST);
        self.flight.begin_burst();
        for _ in 0..messages {
            let message = self.source.message(self.flight.next_sequence(), FLAGS);
            let tx_nsec = self.clock.now_nsec();
            self.flight.send(tx_nsec);
            if !socket::send(
                self.socket,
                message,
                self.peer,
                self.stop,
                &mut self.send_retries,
            )? {
                self.flight.unsend();
                break;
            }
            self.last_tx_nsec = tx_nsec;
        }
        Ok(())
    }

    fn receive_burst(&mut self) -> Result<Wait, Error> {
        /// A spinning receive reads the clock once in so many calls.
        const SPINS_PER_CLOCK_READING: u32 = 64;
        let deadline_nsec = self.flight.last_tx_nsec().saturating_add(self.timeout_nsec);
        let spins_max = if self.options.client.common.nonblocked {
            SPINS_PER_CLOCK_READING
        } else {
            1
        };
        let mut spins = 0;
        while self.flight.outstanding() > 0 {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((len, _)) => {
                    self.now_nsec = self.clock.now_nsec();
                    self.take_datagram(len)?;
                    if self.flight.outstanding() == 0 {
                        break;
                    }
                }
                Err(error) if socket::is_idle_receive_error(&error) => {
                    spins += 1;
                    if spins < spins_max {
                        continue;
                    }
                    spins = 0;
                    self.now_nsec = self.clock.now_nsec();
                }
                Err(error) => {
                    return Err(Error::Transfer {
                        what: "recvfrom() failed".to_owned(),
                        source: error,
                    });
                }
            }
            if self.stop.is_requested() || self.now_nsec >= self.end_nsec {
                return Ok(Wait::CutShort);
            }
            if self.now_nsec >= deadline_nsec {
                return Ok(Wait::Over);
            }
        }
        Ok(Wait::Over)
    }

    /// Handles the messages of a datagram that arrived at `now_nsec`.
    fn take_datagram(&mut self, len: usize) -> Result<(), Error> {
        let mut rest = self.buffer.get(..len).unwrap_or_default();
        loop {
            let Ok(header) = Header::parse(rest) else {
                self.replies.malformed += 1;
                return Ok(());
            };
            let (message, following) = rest.split_at(header.len as usize);
            // A message of a client is a stray one; warm-up messages are not answered.
            if !header.flags.has(Flags::CLIENT) && !header.flags.has(Flags::WARM_UP) {
                match self.flight.receive(header.sequence, self.now_nsec) {
                    Reply::InTime => {
                        self.replies.received += 1;
                        self.last_reply_nsec = self.now_nsec;
                        if self.options.data_integrity && !self.source.is_echo(message) {
                            return Err(Error::Integrity {
                                sequence: header.sequence,
                            });
                        }
                    }
                    Reply::Late => {
                        self.replies.received += 1;
                        self.replies.late += 1;
                    }
                    Reply::Duplicate => self.replies.duplicated += 1,
                    Reply::Unexpected => self.replies.unexpected += 1,
                }
            }
            if following.is_empty() {
                return Ok(());
            }
            rest = following;
        }
    }

    /// Sets the end of a test with a number of packets once its speed is known; returns whether the
    /// test should be given up because the server is silent.
    fn is_packet_test_stuck(&mut self, start_nsec: u64, messages_max: u64) -> bool {
        /// No network is silent for so long and then works.
        const SILENCE_NSEC: u64 = 10_000_000_000;
        let sent = self.flight.sent();
        if self.estimate.is_none() && sent >= WARM_UP_PACKETS {
            let elapsed_nsec = self.now_nsec.saturating_sub(start_nsec);
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

/// The most samples a test can have: what was asked for, or a million a second.
fn samples_max(options: &PingPongOptions) -> u64 {
    match (options.length, options.client.messages_per_second) {
        (TestLength::Packets(packets), _) => u64::from(packets),
        (TestLength::TimeSec(time_sec), rate) => {
            let rate = u64::from(rate.unwrap_or(1_000_000));
            u64::from(time_sec) * rate + u64::from(options.client.burst)
        }
    }
}

fn nsec(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
