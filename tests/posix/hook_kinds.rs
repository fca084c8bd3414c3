//! Every function of the table of interposed functions, on a descriptor of every kind, on the
//! kernel and with the library.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use testkit::{Comparison, Pair, THREADED_VARIANTS, call_back_streams, echo_streams, or_skip};

#[path = "../../libvma/src/interposed.rs"]
mod table;

macro_rules! names {
    ($($(#[$why:meta])+ fn $name:ident $arguments:tt -> $result:ty => $hook:ident;)*) => {
        const TABLE: &[&str] = &[$(stringify!($name)),*];
    };
}
table::interposed!(names);

const ECHO_PORT: u16 = 7100;
const CALLER_PORT: u16 = 7101;

fn program() -> PathBuf {
    testkit::c_program("hook_kinds")
}

fn kind(name: &str) {
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    call_back_streams(&stage.pair.a, Pair::ADDRESS_A, CALLER_PORT);
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
