//! Connections end, in all orders.

use std::io::{ErrorKind, Read, Write};
use std::net::{self, TcpStream};
use std::time::Duration;

use socket2::SockRef;
use tcp::{Error, Event, ReadError, Shutdown, State};
use testkit::link::{Conditions, Loss};
use testkit::or_skip;

use crate::lab::{Lab, OPENERS, Opener, Setup};
use crate::pattern::{self, Pump};
use crate::transfer::exchange;

const SOME: u64 = 100_000;

/// Few packets end a connection: many must be lost for one of those to be.
const FORGETFUL: Conditions = Conditions {
    rate_bits_per_second: None,
    delay: Duration::from_millis(1),
    queue_octets: 1_000_000,
    loss: Loss::Random(0.1),
    reorder: 0.1,
    reorder_delay: Duration::from_millis(2),
    duplicate: 0.1,
};

/// `test` on a connection that has been used, for each opener, and where nothing and where much is
/// lost.
fn for_each(test: impl Fn(&mut Lab, usize, TcpStream)) {
    for conditions in [Conditions::default(), FORGETFUL] {
        for opener in OPENERS {
            let mut lab = or_skip!(Lab::with(Setup {
                conditions,
                ..Setup::default()
            }));
            let (id, stream) = lab.open(opener);
            exchange(&mut lab, id, &stream, SOME);
            test(&mut lab, id, stream);
        }
    }
}

fn shut_down(lab: &mut Lab, id: usize) {
    let now = lab.now();
    let connection = &mut lab.host().connections[id].connection;
    assert!(connection.shutdown(now, Shutdown::Write));
}

fn close(lab: &mut Lab, id: usize) {
    let now = lab.now();
    lab.host().connections[id].connection.close(now);
}

/// The engine reads the end of the stream.
fn read_end(lab: &mut Lab, id: usize) {
    lab.run_until("the end of the stream", |host, now| {
        Pump::default().read_end(now, &mut host.connections[id].connection)
    });
}

/// The kernel reads the end of the stream.
fn kernel_read_end(lab: &mut Lab, stream: &TcpStream) {
    let stream = stream.try_clone().unwrap();
    lab.wait_for("the end of the stream", move || pattern::read_end(stream))
        .unwrap();
}

/// What the kernel's next read says.
fn kernel_read_error(lab: &mut Lab, mut stream: TcpStream) -> ErrorKind {
    let read = lab.wait_for("an error", move || stream.read(&mut [0]));
    read.unwrap_err().kind()
}

#[test]
fn the_engine_closes_first() {
    for_each(|lab, id, stream| {
        shut_down(lab, id);
        kernel_read_end(lab, &stream);
        drop(stream);
        read_end(lab, id);
        lab.reach(id, State::TimeWait);
        lab.reach_kernel(&[]);
    });
}

#[test]
fn the_kernel_closes_first() {
    for_each(|lab, id, stream| {
        stream.shutdown(net::Shutdown::Write).unwrap();
        read_end(lab, id);
        lab.reach(id, State::CloseWait);
        close(lab, id);
        kernel_read_end(lab, &stream);
        lab.reach(id, State::Closed);
        // A second copy of the engine's FIN is acknowledged once more, to nobody: the reset ends
        // TIME-WAIT at once.
        lab.reach_kernel_any(&[&["TIME-WAIT"], &[]]);
        assert!(!lab.host().connections[id].connection.has_error());
    });
}

#[test]
fn both_close_at_once() {
    for_each(|lab, id, stream| {
        // No packet is relayed between these.
        stream.shutdown(net::Shutdown::Write).unwrap();
        shut_down(lab, id);
        kernel_read_end(lab, &stream);
        read_end(lab, id);
        lab.reach(id, State::TimeWait);
        lab.reach_kernel(&["TIME-WAIT"]);
    });
}

#[test]
fn fins_that_cross_lead_through_closing() {
    let mut lab = or_skip!(Lab::with(Setup {
        conditions: Conditions {
            delay: Duration::from_millis(50),
            ..Conditions::default()
        },
        ..Setup::default()
    }));
    let (id, stream) = lab.open(Opener::Engine);
    stream.shutdown(net::Shutdown::Write).unwrap();
    shut_down(&mut lab, id);
    lab.reach(id, State::Closing);
    lab.reach(id, State::TimeWait);
    lab.reach_kernel(&["TIME-WAIT"]);
}

#[test]
fn the_kernel_goes_on_after_the_engine_has_shut_down() {
    for_each(|lab, id, stream| {
        shut_down(lab, id);
        kernel_read_end(lab, &stream);
        lab.reach(id, State::FinWait2);
        let writer = lab.spawn(move || pattern::write(stream, 0, SOME));
        let mut pump = Pump::default();
        lab.run_until("data after the end of the other direction", |host, now| {
            pump.read(now, &mut host.connections[id].connection, SOME)
        });
        lab.join("writing", writer).unwrap();
        read_end(lab, id);
        lab.reach(id, State::TimeWait);
        lab.reach_kernel(&[]);
    });
}

#[test]
fn the_engine_goes_on_after_the_kernel_has_shut_down() {
    for_each(|lab, id, stream| {
        stream.shutdown(net::Shutdown::Write).unwrap();
        read_end(lab, id);
        let mut pump = Pump::default();
        let reader = stream.try_clone().unwrap();
        let reader = lab.spawn(move || pattern::read(reader, 0, SOME));
        lab.run_until("data after the end of the other direction", |host, now| {
            pump.write(now, &mut host.connections[id].connection, SOME)
        });
        lab.join("reading", reader).unwrap();
        close(lab, id);
        kernel_read_end(lab, &stream);
        lab.reach(id, State::Closed);
        // A second copy of the engine's FIN is acknowledged once more, to nobody: the reset ends
        // TIME-WAIT at once.
        lab.reach_kernel_any(&[&["TIME-WAIT"], &[]]);
    });
}

#[test]
fn what_was_written_arrives_after_a_close() {
    for_each(|lab, id, stream| {
        let mut pump = Pump::default();
        let kernel = stream.try_clone().unwrap();
        let reader = lab.spawn(move || {
            pattern::read(&kernel, 0, SOME)?;
            pattern::read_end(&kernel)
        });
        lab.run_until("writing", |host, now| {
            let connection = &mut host.connections[id].connection;
            let is_written = pump.write(now, connection, SOME);
            if is_written {
                connection.close(now);
            }
            is_written
        });
        lab.join("reading", reader).unwrap();
        drop(stream);
        lab.reach(id, State::TimeWait);
        lab.reach_kernel(&[]);
    });
}

#[test]
fn the_engine_resets() {
    for opener in OPENERS {
        let mut lab = or_skip!(Lab::new());
        let (id, stream) = lab.open(opener);
        lab.host().connections[id].connection.abort();
        lab.reach(id, State::Closed);
        let error = kernel_read_error(&mut lab, stream);
        assert_eq!(error, ErrorKind::ConnectionReset);
        lab.reach_kernel(&[]);
    }
}

#[test]
fn the_engine_resets_when_it_has_not_read_all() {
    let mut lab = or_skip!(Lab::new());
    let (id, mut stream) = lab.open(Opener::Kernel);
    stream.write_all(b"not read").unwrap();
    lab.run_until("data", |host, _| {
        host.connections[id].connection.is_readable()
    });
    close(&mut lab, id);
    lab.reach(id, State::Closed);
    let error = kernel_read_error(&mut lab, stream);
    assert_eq!(error, ErrorKind::ConnectionReset);
}

#[test]
fn the_kernel_resets() {
    for opener in OPENERS {
        let mut lab = or_skip!(Lab::new());
        let (id, stream) = lab.open(opener);
        let socket = SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        drop(stream);
        lab.reach(id, State::Closed);
        let now = lab.now();
        let held = &mut lab.host().connections[id];
        assert!(held.connection.is_readable());
        let read = held.connection.read(now, &mut [0]);
        assert_eq!(read, Err(ReadError::Failed(Error::Reset)));
        assert_eq!(held.connection.read(now, &mut [0]), Ok(0));
        assert!(held.events.contains(&Event::Failed));
    }
}

#[test]
fn data_for_an_application_that_is_gone_is_answered_with_a_reset() {
    let mut lab = or_skip!(Lab::new());
    let (id, mut stream) = lab.open(Opener::Kernel);
    close(&mut lab, id);
    kernel_read_end(&mut lab, &stream);
    lab.reach(id, State::FinWait2);
    // The first write finds it out, the second says so.
    stream.write_all(b"hello").unwrap();
    lab.reach(id, State::Closed);
    lab.reach_kernel(&[]);
    let error = stream.write_all(b"hello").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}
