//! A process ends with its last thread, as if the library had none, and with the status that it has
//! on the kernel.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running, SOON, preloaded};

const PORT: u16 = 7970;

fn program() -> PathBuf {
    testkit::c_program("ends")
}

/// What it says and how it ends, and the library's log.
fn played(pair: &Pair, how: &str, mut command: Command) -> (String, String) {
    command.args([how, &Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    let mut running = Running::start(command).unwrap();
    assert!(
        running.wait_for_output("ready", SOON),
        "{how}: {}",
        running.stderr()
    );
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)).unwrap());
    // Also a receiver that is not accelerated yet gets one of them.
    thread::sleep(Duration::from_millis(50));
    sender
        .send_to(b"a datagram", (Pair::ADDRESS_B, PORT))
        .unwrap();
    let finished = running
        .wait(SOON)
        .unwrap_or_else(|error| panic!("{how}: {error}"));
    let said = format!("{}{:?}", finished.stdout, finished.status);
    (said, finished.stderr)
}

fn compared(how: &str) -> Option<String> {
    let pair = match Namespaces::pair() {
        Ok(pair) => pair,
        Err(reason) => {
            testkit::skip(reason);
            return None;
        }
    };
    let (expected, _) = played(&pair, how, pair.b.command(program()));
    let mut command = preloaded(&pair.b, &program()).unwrap();
    command.env("VMA_TRACELEVEL", "4");
    let (seen, log) = played(&pair, how, command);
    assert_eq!(expected, seen, "{how}: {log}");
    Some(log)
}

fn ends_alike(how: &str) {
    if let Some(log) = compared(how) {
        assert!(log.contains("offloaded"), "{how}: {log}");
    }
}

#[test]
fn the_first_thread_ends_and_is_the_last() {
    ends_alike("pthread_exit");
    ends_alike("exit_of_thread");
}

#[test]
fn the_first_thread_ends_and_others_do_later() {
    ends_alike("thread_last");
    ends_alike("thread_exits");
}

#[test]
fn a_filter_kills() {
    for how in ["killed_thread", "killed_process", "trapped"] {
        ends_alike(how);
    }
}

#[test]
fn a_thread_that_polls_makes_no_call_that_kills_it() {
    ends_alike("killed_while_polling");
}

#[test]
fn nothing_is_left_but_to_read_and_write() {
    ends_alike("strict");
    ends_alike("strict_kill");
}

/// That of a service manager: nobody shows it.
#[test]
fn a_filter_was_there_before_the_program() {
    let Some(log) = compared("inherited") else {
        return;
    };
    assert!(!log.contains(": offloaded"), "{log}");
    assert!(
        log.contains("which was there before the program, forbids bpf"),
        "{log}"
    );
    ends_alike("inherited_optional");
}
