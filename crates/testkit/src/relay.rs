//! A cable between two ends, in user space and in real time, that treats packets as [`Link`]s say.
//!
//! Where time stands still while anything runs (User-Mode Linux with `time-travel=inf-cpu`), it is
//! exact at any rate: see [`Relay::in_virtual_time`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::link::{Conditions, Link, LinkCounts};
use crate::sys;
use crate::tun::Tun;

/// One end of a [`Relay`]: a stack that sends and receives IP packets. `now` is the time since the
/// relay was made.
pub trait Port {
    /// The next packet that this end sends, into `buffer`; its length. Does not wait.
    fn receive(&mut self, now: Duration, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Lets `packet` arrive at this end.
    fn send(&mut self, now: Duration, packet: &[u8]) -> io::Result<()>;

    /// When `receive` has to be called though nothing arrived.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// What becomes readable when there is a packet to receive.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Port for Tun {
    fn receive(&mut self, _now: Duration, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.try_receive(buffer)
    }

    fn send(&mut self, _now: Duration, packet: &[u8]) -> io::Result<()> {
        Self::send(self, packet)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

/// Joins `a` and `b`. Runs in the thread that calls it, for as long as it is told.
#[derive(Debug)]
pub struct Relay<A, B> {
    pub a: A,
    pub b: B,
    forward: Link<Vec<u8>>,
    backward: Link<Vec<u8>>,
    start: Instant,
    buffer: Vec<u8>,
    /// In virtual time: what the clock said after the last wait. It says the same until the next
    /// one.
    virtual_now: Option<Duration>,
    /// Which ends may have packets to receive.
    readable: [bool; 2],
}

impl<A: Port, B: Port> Relay<A, B> {
    /// `conditions` hold in both directions.
    pub fn new(a: A, b: B, conditions: Conditions, seed: u64) -> Self {
        Self {
            a,
            b,
            forward: Link::new(conditions, seed),
            backward: Link::new(conditions, !seed),
            start: Instant::now(),
            buffer: vec![0; 1 << 16],
            virtual_now: None,
            readable: [true; 2],
        }
    }

    /// Waits as long as it takes and to the nanosecond, and never by looking again, since that
    /// would not end where time stands still for whoever runs. For the thread that calls it.
    pub fn in_virtual_time(mut self) -> io::Result<Self> {
        sys::wait_exactly()?;
        self.virtual_now = Some(self.start.elapsed());
        Ok(self)
    }

    /// Other conditions for the packets to come, from `a` to `b` and back.
    pub fn set_conditions(&mut self, forward: Conditions, backward: Conditions) {
        self.forward.set_conditions(forward);
        self.backward.set_conditions(backward);
    }

    /// What happened to packets from `a` to `b`, and back.
    pub fn counts(&self) -> [LinkCounts; 2] {
        [self.forward.counts(), self.backward.counts()]
    }

    /// Time since the relay was made.
    pub fn now(&self) -> Duration {
        self.virtual_now.unwrap_or_else(|| self.start.elapsed())
    }

    /// Relays until `is_done`, which is asked at least each millisecond (in virtual time, each 50)
    /// and after whatever happens; false after `limit`.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut is_done: impl FnMut(&mut Self) -> bool,
    ) -> io::Result<bool> {
        let deadline = self.now() + limit;
        loop {
            if is_done(self) {
                return Ok(true);
            }
            let now = self.now();
            if now >= deadline {
                return Ok(false);
            }
            if !self.move_packets(now)? {
                if self.virtual_now.is_some() {
                    self.wait_in_virtual_time(deadline.min(now + LONGEST_VIRTUAL_WAIT))?;
                } else {
                    self.wait(deadline.min(now + LONGEST_WAIT))?;
                }
            }
        }
    }

    /// Relays for `time`.
    pub fn run(&mut self, time: Duration) -> io::Result<()> {
        self.run_until(time, |_| false).map(drop)
    }

    /// A few packets of each kind, so that no direction waits for another; false if there was none.
    fn move_packets(&mut self, now: Duration) -> io::Result<bool> {
        let buffer = &mut self.buffer;
        let mut count = 0;
        if self.readable[0] {
            count += take(&mut self.a, &mut self.forward, now, buffer)?;
        }
        if self.readable[1] {
            count += take(&mut self.b, &mut self.backward, now, buffer)?;
        }
        count += give(&mut self.forward, &mut self.b, now)?;
        count += give(&mut self.backward, &mut self.a, now)?;
        Ok(count > 0)
    }

    /// When something happens without a packet from outside; `deadline` at the latest.
    fn next_at(&self, deadline: Duration) -> Duration {
        let moments = [
            self.forward.next_at(),
            self.backward.next_at(),
            self.a.timeout(),
            self.b.timeout(),
        ];
        moments.into_iter().flatten().fold(deadline, Duration::min)
    }

    /// Until something happens; at most until `deadline`.
    fn wait(&self, deadline: Duration) -> io::Result<()> {
        let left = self.next_at(deadline).saturating_sub(self.now());
        // Waking up takes about as long: what comes sooner is waited for by looking again.
        if left < SHORTEST_SLEEP {
            thread::yield_now();
            return Ok(());
        }
        let descriptors: Vec<_> = [self.a.descriptor(), self.b.descriptor()]
            .into_iter()
            .flatten()
            .collect();
        sys::wait_any_readable(&descriptors, left - SHORTEST_SLEEP / 2).map(drop)
    }

    /// As [`Self::wait`], and notes who has something to receive: a system call takes long in a
    /// User-Mode Linux.
    fn wait_in_virtual_time(&mut self, deadline: Duration) -> io::Result<()> {
        let left = self.next_at(deadline).saturating_sub(self.now());
        let ends = [self.a.descriptor(), self.b.descriptor()];
        let descriptors: Vec<_> = ends.into_iter().flatten().collect();
        let mut readable = sys::wait_any_readable(&descriptors, left)?.into_iter();
        self.readable = ends.map(|end| end.is_none() || readable.next() == Some(true));
        self.virtual_now = Some(self.start.elapsed());
        Ok(())
    }
}

fn take(
    from: &mut impl Port,
    link: &mut Link<Vec<u8>>,
    now: Duration,
    buffer: &mut [u8],
) -> io::Result<usize> {
    for count in 0..BATCH {
        let Some(len) = from.receive(now, buffer)? else {
            return Ok(count);
        };
        link.push(now, len + ETHERNET_OVERHEAD, buffer[..len].to_vec());
    }
    Ok(BATCH)
}

fn give(link: &mut Link<Vec<u8>>, to: &mut impl Port, now: Duration) -> io::Result<usize> {
    for count in 0..BATCH {
        let Some(packet) = link.pop(now) else {
            return Ok(count);
        };
        to.send(now, &packet)?;
    }
    Ok(BATCH)
}

/// What a packet takes of a link's rate beside itself: header, checksum, preamble and gap.
const ETHERNET_OVERHEAD: usize = 14 + 4 + 8 + 12;

const BATCH: usize = 16;

const LONGEST_WAIT: Duration = Duration::from_millis(1);

const LONGEST_VIRTUAL_WAIT: Duration = Duration::from_millis(50);

const SHORTEST_SLEEP: Duration = Duration::from_micros(60);
