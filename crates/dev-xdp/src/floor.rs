//! The smallest AF_XDP ping-pong: a program that redirects everything, two rings, no stack. What a
//! stack adds is measured against it.

use std::io;
use std::time::{Duration, Instant};

use dev_core::{Kick, RxRing, TxRing};

use crate::bpf::link::AttachMode;
use crate::bpf::program::Program;
use crate::first_queue::Queue;

/// Bytes of a frame: what a datagram of 64 bytes takes with Ethernet, IPv4 and UDP headers.
pub const FRAME_LEN: usize = 64 + 42;
/// An EtherType for experiments (IEEE Std 802), which the kernel ignores.
const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];
/// Where a ping has its number, which its answer repeats.
const NUMBER: std::ops::Range<usize> = 14..22;
/// A ping without an answer in this time is given up for the next one.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// One end of the ping-pong.
#[derive(Debug)]
pub struct Floor(Queue);

impl Floor {
    /// Takes over queue 0 of an interface: until the value is dropped, the kernel gets none of its
    /// packets.
    ///
    /// # Errors
    /// What the system refused.
    pub fn open(link_index: u32) -> io::Result<Self> {
        Queue::open(link_index, AttachMode::Generic, Program::load_catch_all).map(Self)
    }

    /// Sends every ping back to where it came from, for as long as `duration`. Returns how many.
    pub fn serve(&mut self, duration: Duration) -> u64 {
        let Queue {
            pool, rx, tx, kick, ..
        } = &mut self.0;
        let until = Instant::now() + duration;
        let mut count = 0;
        while Instant::now() < until {
            for _ in 0..1000 {
                let mut pings = 0;
                rx.poll(pool, 1, |mut frame| {
                    if number(pool.data(&frame)).is_none() {
                        return pool.give(frame);
                    }
                    if let Some((destination, rest)) =
                        pool.data_mut(&mut frame).split_first_chunk_mut::<6>()
                        && let Some(source) = rest.first_chunk_mut::<6>()
                    {
                        std::mem::swap(destination, source);
                    }
                    tx.push(pool, frame);
                    pings += 1;
                });
                if pings > 0 {
                    count += pings;
                    kick.kick();
                    if let Some(done) = tx.frame(pool) {
                        pool.give(done);
                    }
                }
            }
        }
        count
    }

    /// Sends pings to `peer` and waits for each to come back, for as long as `duration`. Returns
    /// the round trips in nanoseconds.
    ///
    /// Only the answer to the last ping counts: what the peer's kernel sends by itself would
    /// otherwise be taken for one, and from then on two pings would be under way at once.
    pub fn measure(&mut self, mac: [u8; 6], peer: [u8; 6], duration: Duration) -> Vec<u32> {
        let Queue {
            pool, rx, tx, kick, ..
        } = &mut self.0;
        let mut ping = [0u8; FRAME_LEN];
        ping[..6].copy_from_slice(&peer);
        ping[6..12].copy_from_slice(&mac);
        ping[12..14].copy_from_slice(&ETHER_TYPE);
        let until = Instant::now() + duration;
        let mut round_trips = Vec::with_capacity(4_000_000);
        for ping_number in 0u64.. {
            let Some(mut frame) = tx.frame(pool) else {
                break;
            };
            let sent = Instant::now();
            if sent >= until {
                tx.cancel(frame);
                break;
            }
            ping[NUMBER].copy_from_slice(&ping_number.to_ne_bytes());
            pool.chunk_mut(&mut frame)[..FRAME_LEN].copy_from_slice(&ping);
            pool.set_len(&mut frame, FRAME_LEN);
            tx.push(pool, frame);
            kick.kick();
            let (mut polls, mut answered) = (0u32, false);
            while !answered {
                rx.poll(pool, 1, |frame| {
                    answered = number(pool.data(&frame)) == Some(ping_number);
                    pool.give(frame);
                });
                polls = polls.wrapping_add(1);
                if polls.is_multiple_of(4096) && sent.elapsed() > LOST_AFTER {
                    break;
                }
            }
            if answered {
                let nsec = sent.elapsed().as_nanos();
                round_trips.push(u32::try_from(nsec).unwrap_or(u32::MAX));
            }
        }
        round_trips
    }
}

/// The number of a ping or its answer; `None`: the frame is neither.
fn number(data: &[u8]) -> Option<u64> {
    let number = data.get(NUMBER)?.try_into().ok()?;
    (data.get(12..14) == Some(&ETHER_TYPE)).then(|| u64::from_ne_bytes(number))
}
