//! Connections that do not come about, or not at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tcp::{Error, Event, State};
use testkit::link::Conditions;
use testkit::{or_skip, panic_unless_paused};

use crate::lab::{KERNEL, Lab, PORT, Setup, kernel_connect};

#[test]
fn the_kernel_refuses() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::new());
        let id = lab.connect();
        lab.reach(id, State::Closed);
        let held = &mut lab.host().connections[id];
        assert_eq!(held.connection.take_error(), Some(Error::Refused));
        assert!(held.events.contains(&Event::Failed));
    });
}

#[test]
fn the_engine_refuses() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::new());
        let connected = lab.wait_for("connect", kernel_connect);
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// One more than the backlog waits in the accept queue; the others get in when there is room.
#[test]
fn an_engine_with_a_full_queue_lets_the_kernel_wait() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::new());
        let now = lab.now();
        lab.host().listen(now, PORT, 1);
        let clients = spawn_clients(&lab);
        let overflows = |lab: &mut Lab| lab.host().listener().map_or(0, |it| it.overflow_count());
        lab.run_until("a full queue", |host, _| {
            let listener = host.listener().expect("it listens");
            listener.accept_count() == 2 && listener.overflow_count() > 0
        });
        lab.run(Duration::from_millis(300));
        assert_eq!(lab.host().listener().unwrap().accept_count(), 2);
        assert!(overflows(&mut lab) > 0);

        serve(&mut lab, clients);
    });
}

#[test]
fn a_kernel_with_a_full_queue_lets_the_engine_wait() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::with(Setup {
            sysctls: &[("tcp_syncookies", "0")],
            ..Setup::default()
        }));
        let listener = lab.namespace.enter(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&SocketAddrV4::new(KERNEL, PORT).into())?;
            socket.listen(1).map(|()| socket)
        });
        let listener = listener.unwrap();
        for _ in 0..2 {
            let id = lab.connect();
            lab.reach(id, State::Established);
        }
        let late = [(); 2].map(|()| lab.connect());
        lab.run(Duration::from_millis(300));
        for id in late {
            let state = lab.host().connections[id].connection.state();
            assert_eq!(state, State::SynSent);
        }
        let accepted = lab.wait_for("accept", move || {
            (0..4)
                .map(|_| listener.accept().map(|(socket, _)| socket))
                .collect::<Result<Vec<_>, _>>()
        });
        assert_eq!(accepted.unwrap().len(), 4);
        for id in late {
            lab.reach(id, State::Established);
        }
    });
}

/// SYNs that come before any handshake is over find the queue of half-open connections full.
#[test]
fn the_kernel_brings_cookies_back() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::with(Setup {
            conditions: Conditions {
                delay: Duration::from_millis(100),
                ..Conditions::default()
            },
            ..Setup::default()
        }));
        let now = lab.now();
        lab.host().listen(now, PORT, 1);
        let clients = spawn_clients(&lab);
        serve(&mut lab, clients);
        assert!(lab.host().cookie_count > 0);
    });
}

/// Clients of the kernel, each of which writes an octet of its own and reads until the end of the
/// stream.
fn spawn_clients(lab: &Lab) -> [JoinHandle<io::Result<usize>>; 4] {
    [0, 1, 2, 3].map(|octet| {
        lab.spawn(move || {
            let mut stream = kernel_connect()?;
            stream.write_all(&[octet])?;
            stream.read(&mut [0])
        })
    })
}

/// Accepts all of the clients, in whatever order they get in.
fn serve(lab: &mut Lab, clients: [JoinHandle<io::Result<usize>>; 4]) {
    let mut octets = clients.each_ref().map(|_| accept_octet_and_close(lab));
    octets.sort_unstable();
    assert_eq!(octets, [0, 1, 2, 3]);
    for client in clients {
        assert_eq!(lab.join("the end", client).unwrap(), 0);
    }
}

/// The first octet of the next connection that is accepted.
fn accept_octet_and_close(lab: &mut Lab) -> u8 {
    let id = lab.accept();
    let mut octet = [0xff];
    lab.run_until("its octet", |host, now| {
        let connection = &mut host.connections[id].connection;
        connection.read(now, &mut octet).is_ok()
    });
    let now = lab.now();
    lab.host().connections[id].connection.close(now);
    octet[0]
}

#[test]
fn syns_into_the_dark_time_out() {
    panic_unless_paused(|| {
        let mut lab = or_skip!(Lab::new());
        lab.host()
            .options
            .set(tcp::SocketOption::SynCount(1))
            .unwrap();
        let now = lab.now();
        // The kernel forwards nothing.
        let nobody = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), PORT);
        let id = lab.host().connect(now, nobody);
        lab.reach(id, State::Closed);
        let error = lab.host().connections[id].connection.take_error();
        assert_eq!(error, Some(Error::TimedOut));
    });
}
