//! Programs that are started with a socket and use it by its number, on the kernel and with the library.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use testkit::{Comparison, Namespace, Pair, THREADED_VARIANTS, echo_streams, or_skip};

const ECHO_PORT: u16 = 7100;
const CALLER_PORT: u16 = 7101;
const SOON: Duration = Duration::from_secs(5);

fn compile(name: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    testkit::compile_c_with(&source, Path::new(env!("CARGO_TARGET_TMPDIR")), options).unwrap()
}

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
    compile("started_alone", &["-static"]);
    let variants = THREADED_VARIANTS.get(..1).unwrap();
    stage.assert_same(&compile("started", &[]), &[case], variants);
}

#[test]
fn a_connection() {
    compare("streams");
}

#[test]
fn a_listener() {
    compare("listeners");
}

#[test]
fn a_datagram_socket() {
    compare("datagrams");
}

#[test]
fn a_connection_that_the_starter_closes() {
    compare("closed_by_parent");
}

/// Nor do they take the acceleration away.
#[test]
fn programs_that_use_nothing() {
    compare("unused");
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    let seen = stage
        .preloaded(&compile("started", &[]), &["unused"], &[])
        .unwrap();
    assert!(seen.status.success(), "{}{}", seen.stdout, seen.stderr);
    let stays = !seen.stderr.contains("passed to another process");
    assert!(stays, "{}", seen.stderr);
}
