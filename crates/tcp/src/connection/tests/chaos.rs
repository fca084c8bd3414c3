//! Segments and calls at random: nothing that a peer, a clock or an application does may break the
//! connection's invariants.

use std::time::Duration;

use super::harness::*;
use crate::{Ecn, Error, IcmpError, Options, SeqNumber, Shutdown, SocketOption, State};
use wire::tcp::{FastOpen, Flags, Options as HeaderOptions, SackBlock, Timestamps};

struct Random(u64);

impl Random {
    fn next(&mut self, below: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 16) % u64::from(below)).unwrap()
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.next(u32::try_from(values.len()).unwrap()) as usize]
    }

    /// A number near `base`, seldom anywhere.
    fn near(&mut self, base: u32) -> u32 {
        match self.next(20) {
            0 => self.next(u32::MAX),
            1..=4 => base.wrapping_add(self.next(5000)).wrapping_sub(2500),
            _ => base.wrapping_add(self.next(3)).wrapping_sub(1),
        }
    }
}

fn segment(random: &mut Random, solo: &Solo) -> Segment {
    let info = solo.connection.info(solo.now);
    let snapshot = solo.connection.numbers();
    let flags = random.pick(&[
        ACK,
        ACK,
        ACK,
        ACK,
        ACK,
        PSH_ACK,
        PSH_ACK,
        FIN_ACK,
        Flags::SYN,
        Flags::SYN | ACK,
        Flags::RST,
        Flags::RST | ACK,
        Flags::NONE,
        Flags::URG | ACK,
        Flags::ECE | ACK,
        Flags::CWR | ACK,
    ]);
    // What would end everything at once is rare.
    let flags = if flags.intersects(Flags::RST | Flags::FIN) && random.next(30) > 0 {
        ACK
    } else {
        flags
    };
    let outstanding = snapshot.snd_nxt.0.wrapping_sub(snapshot.snd_una.0);
    let ack_base = snapshot
        .snd_una
        .0
        .wrapping_add(random.next(outstanding.max(1).wrapping_add(1)));
    let len = random.pick(&[0, 0, 0, 1, 10, 500, 1000, 1460, 9000]);
    let block = |random: &mut Random| {
        let left = random.near(ack_base);
        SackBlock {
            left,
            right: left.wrapping_add(random.next(3000)),
        }
    };
    let sack = (0..random.pick(&[0, 0, 0, 1, 2, 4]))
        .map(|_| block(random))
        .collect();
    Segment {
        seq: random.near(snapshot.rcv_nxt.0).wrapping_sub(IRS),
        ack: random.near(ack_base).wrapping_sub(ISS),
        flags,
        window: Some(random.pick(&[0, 1, 100, 1000, 65_535])),
        urgent: u16::try_from(random.next(2000)).unwrap(),
        options: HeaderOptions {
            timestamps: (info.has_timestamps && random.next(10) > 0).then(|| Timestamps {
                value: 1000 + random.next(50),
                echo: random.next(200_000),
            }),
            sack,
            mss: random.pick(&[None, Some(1), Some(65_535)]),
            window_scale: random.pick(&[None, Some(14)]),
            sack_permitted: false,
            fast_open: random.pick(&[None, Some(FastOpen::request(false))]),
        },
        payload: vec![7; len],
    }
}

fn call(random: &mut Random, solo: &mut Solo) {
    let now = solo.now;
    let connection = &mut solo.connection;
    match random.next(16) {
        0..=4 => {
            let len = random.pick(&[1, 10, 1000, 30_000]);
            let mut data = vec![1; len];
            let _ = match random.next(4) {
                0 => connection.write_more(now, &data),
                1 => connection.write_chunk(now, &mut data, len == 10),
                _ => connection.write(now, &data),
            };
        }
        5..=8 => {
            let len = random.pick(&[1, 100, 100_000]);
            let _ = connection.read(now, &mut vec![0; len]);
        }
        9 => {
            let _ = connection.write_urgent(now, b"!");
            let _ = match random.next(2) {
                0 => connection.peek_urgent(),
                _ => connection.read_urgent(),
            };
        }
        10 => {
            let _ = connection.read_payload(now);
        }
        11 => {
            let option = random.pick(&[
                SocketOption::NoDelay(true),
                SocketOption::Cork(true),
                SocketOption::Cork(false),
                SocketOption::QuickAck(true),
                SocketOption::QuickAck(false),
                SocketOption::KeepAlive(true),
                SocketOption::UserTimeout(Duration::from_secs(600)),
                SocketOption::WindowClamp(3000),
                SocketOption::ReceiveBuffer(5000),
                SocketOption::SendBuffer(10_000),
                SocketOption::MaxPacingRate(1_000_000),
                SocketOption::NotSentLowWater(1),
                SocketOption::OobInline(true),
            ]);
            connection.set_option(now, option).unwrap();
        }
        12 => {
            let seq = SeqNumber(random.near(connection.numbers().snd_una.0));
            let mtu = random.pick(&[0, 68, 576, 1400]);
            let error = random.pick(&[IcmpError::PacketTooBig { mtu }, IcmpError::HostUnreachable]);
            connection.on_icmp(error, seq);
        }
        13 => {
            connection.shrink();
            let _ = connection.peek().count();
        }
        14 if random.next(100) == 0 => {
            connection.shutdown(
                now,
                random.pick(&[Shutdown::Read, Shutdown::Write, Shutdown::Both]),
            );
        }
        15 if random.next(200) == 0 => match random.next(4) {
            0 => connection.abort(),
            1 => connection.destroy(),
            _ => connection.close(now),
        },
        _ => {
            let _ = connection.skip(now, 3);
        }
    }
}

#[test]
fn nothing_breaks_the_invariants() {
    let mut ends = [0; 3];
    for seed in 1..=1000u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut solo = if seed % 2 == 0 {
            Solo::established()
        } else {
            let mut solo = Solo::connecting(crate::Config::default(), Options::default());
            let echo = solo.poll_one().options.timestamps.unwrap().value;
            solo.receive(syn_ack(HeaderOptions {
                mss: Some(1460),
                window_scale: Some(3),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 1000, echo }),
                ..HeaderOptions::default()
            }));
            solo
        };
        for _ in 0..600 {
            match random.next(10) {
                0..=5 => {
                    let segment = segment(&mut random, &solo);
                    let ecn = random.pick(&[Ecn::NotEct, Ecn::Ce]);
                    solo.receive_marked(segment, ecn);
                }
                6..=7 => call(&mut random, &mut solo),
                8 => {
                    solo.now = solo.now + Duration::from_micros(u64::from(random.next(50_000)));
                    solo.connection.on_timeout(solo.now);
                }
                _ => {
                    solo.advance(Duration::from_millis(u64::from(random.next(400))));
                }
            }
            solo.poll();
            solo.connection.check_invariants();
            solo.events();
        }
        let error = solo.connection.take_error();
        ends[match (solo.state(), error) {
            (State::Closed, Some(Error::Reset | Error::TimedOut)) => 0,
            (State::Closed, _) => 1,
            _ => 2,
        }] += 1;
    }
    // The test is worth something if connections live through most of it, and some do not.
    assert!(ends[2] > 50 && ends[0] + ends[1] > 20, "{ends:?}");
}
