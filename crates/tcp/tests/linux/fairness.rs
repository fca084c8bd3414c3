//! A connection of the engine and one of Linux through one queue.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tcp::Config;
use testkit::link::Conditions;
use testkit::{Namespace, Port, Relay, Skip, Tun, or_skip, panic_unless_paused};

use crate::goodput::Reader;
use crate::host::{Host, instant};
use crate::lab::{ENGINE, KERNEL, PORT, kernel_listener, open_between_kernels};
use crate::pattern::{self, Pump};

/// Of the Linux sender.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 3);

/// Two hosts at one end of a relay.
struct Both {
    engine: Host,
    linux: Tun,
    /// Who is asked first, by turns.
    is_linux_first: bool,
}

impl Port for Both {
    fn receive(&mut self, now: Duration, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.is_linux_first ^= true;
        let ends: [&mut dyn Port; 2] = if self.is_linux_first {
            [&mut self.linux, &mut self.engine]
        } else {
            [&mut self.engine, &mut self.linux]
        };
        for end in ends {
            if let Some(len) = end.receive(now, buffer)? {
                return Ok(Some(len));
            }
        }
        Ok(None)
    }

    fn send(&mut self, now: Duration, packet: &[u8]) -> io::Result<()> {
        // The destination of an IPv4 header.
        if packet[16..20] == ENGINE.octets() {
            self.engine.send(now, packet)
        } else {
            Port::send(&mut self.linux, now, packet)
        }
    }

    fn timeout(&self) -> Option<Duration> {
        self.engine.timeout()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.linux.descriptor()
    }
}

/// The shares of both, in octets, of the last `time` after `warm_up`.
fn shares(
    conditions: Conditions,
    packet_time: Duration,
    warm_up: Duration,
    time: Duration,
) -> Result<[f64; 2], Skip> {
    let (a, b) = (Namespace::create("sender")?, Namespace::create("receiver")?);
    let a = Arc::new(a);
    let both = Both {
        engine: Host::new(ENGINE, 1500, Config::default(), 1),
        linux: Tun::create(&a, "tun0", OTHER, 1500)?,
        is_linux_first: false,
    };
    let receiver = Tun::create(&b, "tun0", KERNEL, 1500)?;
    let mut relay = Relay::new(both, receiver, conditions, 1);
    // A full queue and exact clocks favour the flow whose packets happen to come just after others
    // leave: "traffic phase effects" (Floyd and Jacobson, 1991). So acknowledgements come up to a
    // packet's time late.
    let jittery = Conditions {
        reorder: 1.0,
        reorder_delay: packet_time,
        ..conditions
    };
    relay.set_conditions(conditions, jittery);
    let limit = Duration::from_secs(60);

    let listener = kernel_listener(&b);
    let now = instant(relay.now());
    let to = SocketAddrV4::new(KERNEL, PORT);
    let id = relay.a.engine.connect(now, to);
    let accepting = thread::spawn(move || {
        let (accepted, _) = listener.accept()?;
        Ok::<_, io::Error>((accepted, listener))
    });
    let is_open = relay.run_until(limit, |_| accepting.is_finished());
    assert!(
        is_open.expect("the relay works"),
        "the engine does not connect"
    );
    let accepted = accepting.join().expect("no panic");
    let (engines, listener) = accepted.expect("the kernel accepts");

    let (sending, linuxs) = open_between_kernels(&mut relay, &a, listener);
    let mut writing = sending.try_clone().expect("a descriptor is left");
    // It ends when the connection does.
    let writer = thread::spawn(move || pattern::write(&mut writing, 0, u64::MAX));

    let readers = [Reader::start(&engines), Reader::start(&linuxs)];
    let mut pump = Pump::default();
    let mut run = |time| {
        let ran = relay.run_until(time, |relay| {
            let now = instant(relay.now());
            let connection = &mut relay.a.engine.connections[id].connection;
            pump.write(now, connection, u64::MAX);
            false
        });
        ran.expect("the relay works");
        readers.each_ref().map(Reader::count)
    };
    let before = run(warm_up);
    let after = run(time);
    // The peer may have ended it.
    let _ = sending.shutdown(Shutdown::Both);
    assert!(
        writer.join().expect("no panic").is_err(),
        "nobody writes so much"
    );
    Ok([0, 1].map(|index| (after[index] - before[index]) as f64))
}

#[test]
fn the_engine_and_linux_share_a_bottleneck() {
    panic_unless_paused(|| {
        const RATE_MEGABITS: u64 = 30;
        let time = Duration::from_secs(15);
        let conditions = Conditions {
            rate_bits_per_second: Some(RATE_MEGABITS * 1_000_000),
            delay: Duration::from_millis(10),
            // As much as is on the way.
            queue_octets: RATE_MEGABITS * 125_000 * 20 / 1000,
            ..Conditions::default()
        };
        let packet_time = Duration::from_nanos(1538 * 8_000 / RATE_MEGABITS);
        // The best of a few: what else the machine does may meet one of the two only.
        let mut seen = Vec::new();
        for _ in 0..3 {
            let warm_up = Duration::from_secs(5);
            let shares = or_skip!(shares(conditions, packet_time, warm_up, time));
            let sum = shares[0] + shares[1];
            let jain = sum * sum / (2.0 * (shares[0] * shares[0] + shares[1] * shares[1]));
            let megabits = shares.map(|share| share * 8.0 / 1e6 / time.as_secs_f64());
            println!(
                "the engine {:.2}, Linux {:.2} Mbit/s, Jain's index {jain:.3}",
                megabits[0], megabits[1]
            );
            let is_used = megabits[0] + megabits[1] > 0.7 * RATE_MEGABITS as f64;
            seen.push((jain >= 0.95 && is_used, jain, megabits));
            if jain >= 0.95 && is_used {
                break;
            }
        }
        let is_shared = seen.last().is_some_and(|(is_good, ..)| *is_good);
        assert!(is_shared, "Jain's index and Mbit/s: {seen:?}");
    });
}
