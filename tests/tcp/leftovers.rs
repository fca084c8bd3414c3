//! A peer connects again from a port whose earlier connection the server's kernel still has: a
//! listener past the kernel accepts it, as the kernel's does.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use testkit::{Namespace, Namespaces, Pair, Running, SOON, or_skip, preloaded};

const PORT: u16 = 7990;
/// The only one that clients get.
const CLIENTS_PORT: u16 = 40_000;

fn program() -> PathBuf {
    testkit::c_program("streams")
}

fn set(namespace: &Namespace, name: &str, value: &str) {
    let file = Path::new("/proc/sys/net/ipv4").join(name);
    namespace.enter(|| fs::write(file, value)).unwrap();
}

fn connect(pair: &Pair) -> TcpStream {
    let stream = pair
        .a
        .enter(|| TcpStream::connect((Pair::ADDRESS_B, PORT)))
        .unwrap();
    assert_eq!(stream.local_addr().unwrap().port(), CLIENTS_PORT);
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn is_in_state(namespace: &Namespace, state: &str) -> bool {
    has_connection(namespace, |columns| columns[3] == state)
}

/// Whether the kernel has one at the server's port whose columns of `/proc/net/tcp` are so.
fn has_connection(namespace: &Namespace, is_so: impl Fn(&[&str]) -> bool) -> bool {
    let table = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    table.lines().any(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        columns[1].ends_with(&format!(":{PORT:04X}")) && is_so(&columns)
    })
}

/// What is left of a connection on the kernel's sockets at both ends.
fn left_behind(
    pair: &Pair,
    leave: impl Fn(&Pair, TcpStream, TcpStream) -> Option<TcpStream>,
) -> Option<TcpStream> {
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    let client = connect(pair);
    leave(pair, client, listener.accept().unwrap().0)
}

/// The server's end waits.
fn leave_time_wait(_: &Pair, mut client: TcpStream, server: TcpStream) -> Option<TcpStream> {
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    None
}

const TIME_WAIT: &str = "06";

/// What `leave` leaves behind of a connection at the server, in that state, is in nobody's way,
/// with or without the library.
fn accepted_again(state: &str, leave: impl Fn(&Pair, TcpStream, TcpStream) -> Option<TcpStream>) {
    for with_library in [false, true] {
        let pair = or_skip!(Namespaces::pair());
        set(&pair.a, "ip_local_port_range", "40000 40000");
        // With timestamps the kernel itself gives the addresses away.
        set(&pair.b, "tcp_timestamps", "0");
        let left = left_behind(&pair, &leave);
        assert!(testkit::eventually(SOON, || is_in_state(&pair.b, state)));
        let mut command = if with_library {
            let mut command = preloaded(&pair.b, &program()).unwrap();
            command.env("VMA_TRACELEVEL", "4");
            command
        } else {
            pair.b.command(program())
        };
        command.args([
            "serve_once",
            &Pair::ADDRESS_B.to_string(),
            &PORT.to_string(),
        ]);
        let mut server = Running::start(command).unwrap();
        assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
        assert!(is_in_state(&pair.b, state));
        let mut text = String::new();
        connect(&pair).read_to_string(&mut text).unwrap();
        let finished = server.wait(SOON).unwrap();
        let log = finished.stderr;
        assert_eq!(
            (text.as_str(), finished.stdout.as_str()),
            ("bye", "ready\nSO_REUSEADDR 1\n"),
            "{log}"
        );
        assert_eq!(log.contains("past the kernel"), with_library, "{log}");
        assert_eq!(
            log.contains("has ended an earlier connection"),
            with_library,
            "{log}"
        );
        // Whoever has it is told that it has ended.
        if let Some(mut left) = left {
            left.set_read_timeout(Some(SOON)).unwrap();
            let error = left.read(&mut [0]).unwrap_err();
            assert!(error.raw_os_error().is_some_and(|it| it != libc::EAGAIN));
        }
    }
}

#[test]
fn time_wait_does_not_keep_a_peer_out() {
    accepted_again(TIME_WAIT, leave_time_wait);
}

/// The kernel is given a connection that nobody has accepted yet, while it has an earlier one of
/// these addresses.
#[test]
fn time_wait_does_not_keep_a_connection_from_a_child_that_accepts() {
    const SCRIPT: &str = "
import os, socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
print('listens', '', flush=True)
sys.stdin.readline()
if os.fork() == 0:
    connection, _ = listener.accept()
    connection.sendall(connection.recv(9))
    os._exit(0)
os.wait()
";
    for with_library in [false, true] {
        let pair = or_skip!(Namespaces::pair());
        set(&pair.a, "ip_local_port_range", "40000 40000");
        set(&pair.b, "tcp_timestamps", "0");
        left_behind(&pair, leave_time_wait);
        assert!(testkit::eventually(SOON, || is_in_state(
            &pair.b, TIME_WAIT
        )));
        let mut command = if with_library {
            let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
            command.env("VMA_TRACELEVEL", "debug");
            command
        } else {
            pair.b.command("python3")
        };
        let address = Pair::ADDRESS_B.to_string();
        command.args(["-c", SCRIPT, &address, &PORT.to_string()]);
        let mut server = Running::start_interactive(command).unwrap();
        assert!(
            server.wait_for_output("listens ", SOON),
            "{}",
            server.stderr()
        );
        assert!(is_in_state(&pair.b, TIME_WAIT));
        let mut client = connect(&pair);
        client.write_all(b"once more").unwrap();
        // The end of its input.
        drop(server.stdin());
        let mut text = String::new();
        let read = client.read_to_string(&mut text);
        let log = server.wait(SOON).unwrap().stderr;
        assert!(read.is_ok(), "{read:?}: {log}");
        assert_eq!(text, "once more", "{log}");
        let returned = log.contains("shared with a child since fork");
        assert_eq!(returned, with_library, "{log}");
    }
}

#[test]
fn a_connection_whose_peer_has_vanished_does_not_keep_it_out() {
    accepted_again("01", |pair, client, mut server| {
        server.write_all(b"never read").unwrap();
        client.peek(&mut [0]).unwrap();
        // Else the server sends it again, and hears that there is no connection.
        let is_acknowledged = |columns: &[&str]| columns[4].starts_with("00000000:");
        assert!(testkit::eventually(SOON, || has_connection(
            &pair.b,
            |columns| columns[3] == "01" && is_acknowledged(columns)
        )));
        // The client's kernel forgets the connection, and its reset gets lost.
        let route = format!("blackhole {}/32", Pair::ADDRESS_B);
        pair.a.ip_batch(&format!("route add {route}\n")).unwrap();
        drop(client);
        pair.a.ip_batch(&format!("route del {route}\n")).unwrap();
        Some(server)
    });
}
