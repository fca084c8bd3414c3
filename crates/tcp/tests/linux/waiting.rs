//! Connections on which nothing happens, or nothing may happen: keepalive and zero windows.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tcp::{Error, Event, SocketOption, State};
use testkit::link::Conditions;
use testkit::{or_skip, panic_unless_paused};

use crate::lab::{DEAD, Lab, OPENERS, Opener};
use crate::pattern::{self, Pump};

const SECOND: Duration = Duration::from_secs(1);

fn cut(lab: &mut Lab) {
    lab.relay.set_conditions(DEAD, DEAD);
}

/// Counts the packets of both directions while nothing is to be sent.
fn packets_of_idleness(lab: &mut Lab, time: Duration) -> [u64; 2] {
    let before = lab.relay.counts();
    lab.run(time);
    let after = lab.relay.counts();
    [0, 1].map(|direction| after[direction].packets - before[direction].packets)
}

#[test]
fn keepalive_of_the_engine_is_answered_or_ends_the_connection() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::new());
        let (id, stream) = lab.open(Opener::Engine);
        let now = lab.now();
        let connection = &mut lab.host().connections[id].connection;
        for option in [
            SocketOption::KeepIdle(SECOND),
            SocketOption::KeepInterval(SECOND),
            SocketOption::KeepCount(2),
            SocketOption::KeepAlive(true),
        ] {
            connection.set_option(now, option).unwrap();
        }
        let [probes, answers] = packets_of_idleness(&mut lab, 5 * SECOND / 2);
        assert!((1..=4).contains(&probes), "{probes}");
        assert_eq!(answers, probes);
        let connection = &mut lab.host().connections[id].connection;
        assert_eq!(connection.state(), State::Established);

        cut(&mut lab);
        lab.reach(id, State::Closed);
        let held = &mut lab.host().connections[id];
        assert_eq!(held.connection.take_error(), Some(Error::TimedOut));
        assert!(held.events.contains(&Event::Failed));
        drop(stream);
    });
}

#[test]
fn keepalive_of_the_kernel_is_answered_or_ends_the_connection() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::new());
        let (id, mut stream) = lab.open(Opener::Kernel);
        let keepalive = TcpKeepalive::new()
            .with_time(SECOND)
            .with_interval(SECOND)
            .with_retries(2);
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&keepalive).unwrap();
        let [answers, probes] = packets_of_idleness(&mut lab, 5 * SECOND / 2);
        assert!((1..=4).contains(&probes), "{probes}");
        assert_eq!(answers, probes);
        let connection = &mut lab.host().connections[id].connection;
        assert_eq!(connection.state(), State::Established);
        assert_eq!(lab.kernel_states(), ["ESTAB"]);

        cut(&mut lab);
        let read = lab.wait_for("an error", move || stream.read(&mut [0]));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

/// A connection with small receive buffers at both ends.
fn open_narrow(lab: &mut Lab, opener: Opener) -> (usize, TcpStream) {
    let options = &mut lab.host().options;
    options.set(SocketOption::ReceiveBuffer(64 << 10)).unwrap();
    let (id, stream) = lab.open(opener);
    let socket = SockRef::from(&stream);
    socket.set_recv_buffer_size(64 << 10).unwrap();
    (id, stream)
}

const MUCH: u64 = 8 << 20;

/// The engine writes until the kernel's window is closed and its own buffer full.
fn fill(lab: &mut Lab, id: usize) -> Pump {
    let mut pump = Pump::default();
    lab.run_until("a closed window", |host, now| {
        let connection = &mut host.connections[id].connection;
        let is_written = pump.write(now, connection, MUCH);
        assert!(!is_written, "nobody reads");
        connection.info(now).snd_wnd == 0
    });
    pump
}

/// The engine writes the rest, the kernel reads all.
fn drain(lab: &mut Lab, id: usize, mut pump: Pump, stream: TcpStream) {
    let reader = lab.spawn(move || pattern::read(stream, 0, MUCH));
    lab.run_until("the rest", |host, now| {
        pump.write(now, &mut host.connections[id].connection, MUCH)
    });
    lab.join("reading", reader).unwrap();
}

#[test]
fn the_engine_waits_for_the_kernels_window() {
    panic_unless_paused(|| {
        for opener in OPENERS {
            let mut lab = or_skip!(Lab::new());
            let (id, stream) = open_narrow(&mut lab, opener);
            let pump = fill(&mut lab, id);
            let [probes, answers] = packets_of_idleness(&mut lab, SECOND);
            assert!(probes > 0 && answers > 0, "{probes} {answers}");
            drain(&mut lab, id, pump, stream);
        }
    });
}

#[test]
fn the_engine_asks_again_when_the_news_of_the_window_is_lost() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::new());
        let (id, stream) = open_narrow(&mut lab, Opener::Engine);
        let pump = fill(&mut lab, id);
        cut(&mut lab);
        // Enough to open the window, and no more.
        let reader = stream.try_clone().unwrap();
        lab.wait_for("reading", move || pattern::read(reader, 0, 32 << 10))
            .unwrap();
        lab.run(SECOND);
        let whole = Conditions::default();
        lab.relay.set_conditions(whole, whole);
        let reader = lab.spawn(move || pattern::read(stream, 32 << 10, MUCH));
        let mut pump = pump;
        lab.run_until("the rest", |host, now| {
            pump.write(now, &mut host.connections[id].connection, MUCH)
        });
        lab.join("reading", reader).unwrap();
    });
}

#[test]
fn the_kernel_waits_for_the_engines_window() {
    panic_unless_paused(|| {
        for opener in OPENERS {
            for is_news_lost in [false, true] {
                let mut lab = or_skip!(Lab::new());
                let (id, stream) = open_narrow(&mut lab, opener);
                let writer = lab.spawn(move || pattern::write(stream, 0, MUCH));
                lab.run_until("a closed window", |host, now| {
                    host.connections[id].connection.info(now).rcv_wnd == 0
                });
                let [answers, probes] = packets_of_idleness(&mut lab, SECOND);
                assert!(probes > 0 && answers > 0, "{probes} {answers}");

                if is_news_lost {
                    cut(&mut lab);
                }
                let mut pump = Pump::default();
                let now = lab.now();
                let connection = &mut lab.host().connections[id].connection;
                assert!(!pump.read(now, connection, MUCH));
                if is_news_lost {
                    lab.run(SECOND);
                    let whole = Conditions::default();
                    lab.relay.set_conditions(whole, whole);
                }
                lab.run_until("the rest", |host, now| {
                    pump.read(now, &mut host.connections[id].connection, MUCH)
                });
                lab.join("writing", writer).unwrap();
            }
        }
    });
}
