//! System calls by number, through `syscall(2)`, on sockets past the kernel: as on the kernel.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use testkit::{Comparison, Namespace, Pair, THREADED_VARIANTS, echo_streams, or_skip};

const ECHO_PORT: u16 = 7100;
const CALLER_PORT: u16 = 7101;
const SOON: Duration = Duration::from_secs(5);

/// Connects back to whoever connects and says a port and a letter, and says the letter there. Answers `c` as soon as it is connected.
fn call_back(namespace: &Namespace) {
    let serve = |listener: TcpListener| {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut order = String::new();
            BufReader::new(&stream).read_line(&mut order).unwrap();
            let (port, letter) = order.trim().split_once(' ').unwrap();
            let mut peer = stream.peer_addr().unwrap();
            peer.set_port(port.parse().unwrap());
            let called = TcpStream::connect_timeout(&peer, SOON)
                .and_then(|mut called| called.write_all(letter.as_bytes()));
            let answer = if called.is_ok() { b"c" } else { b"r" };
            stream.write_all(answer).unwrap();
        }
    };
    // A thread is in the namespace of the one that starts it.
    namespace.enter(|| {
        let listener = TcpListener::bind((Pair::ADDRESS_A, CALLER_PORT)).unwrap();
        thread::spawn(move || serve(listener));
    });
}

fn compare(case: &str) {
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    call_back(&stage.pair.a);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/by_number.c");
    let program = testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    stage.assert_same(&program, &[case], THREADED_VARIANTS);
}

#[test]
fn a_connection() {
    compare("stream");
}

#[test]
fn a_listener() {
    compare("listener");
}

#[test]
fn a_datagram_socket() {
    compare("datagrams");
}

#[test]
fn a_thread_that_waited_before() {
    compare("early_waiter");
}
