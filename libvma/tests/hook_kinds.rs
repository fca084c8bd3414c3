//! Every function of the table of interposed functions, on a descriptor of every kind, on the kernel and with the library.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Comparison, Namespace, Pair, THREADED_VARIANTS, echo_streams, or_skip};

#[path = "../src/interposed.rs"]
mod table;

macro_rules! names {
    ($($(#[$why:meta])+ fn $name:ident $arguments:tt -> $result:ty => $hook:ident;)*) => {
        const TABLE: &[&str] = &[$(stringify!($name)),*];
    };
}
table::interposed!(names);

const ECHO_PORT: u16 = 7100;
const CALLER_PORT: u16 = 7101;
const SOON: Duration = Duration::from_secs(5);

fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/hook_kinds.c");
    testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

/// Connects back to whoever connects and says a port and a letter, says the letter there, and answers `c`; `r` if nobody listens.
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

fn kind(name: &str) {
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    call_back(&stage.pair.a);
    stage.assert_same(&program(), &[name], THREADED_VARIANTS);
}

#[test]
fn each_function_of_the_table_is_called() {
    let said = Command::new(program()).arg("names").output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let said = String::from_utf8(said.stdout).unwrap();
    let called: BTreeSet<_> = said.lines().collect();
    // What the program calls beside them is right without a hook, which is tested as well.
    let missing: Vec<_> = TABLE
        .iter()
        .filter(|name| !called.contains(*name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} are called by no case");
}

#[test]
fn a_datagram_socket() {
    kind("datagram");
}

#[test]
fn a_connected_stream() {
    kind("stream");
}

#[test]
fn a_listener() {
    kind("listening");
}

#[test]
fn a_stream_that_is_not_connected() {
    kind("fresh");
}

#[test]
fn a_connection_that_the_kernel_has() {
    kind("kernels");
}

#[test]
fn an_epoll_set() {
    kind("epoll_set");
}

#[test]
fn a_descriptor_of_the_librarys_own() {
    kind("own");
}
