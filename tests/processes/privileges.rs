//! Servers that give up their rights after listen(2): nobody is refused, and no octet is lost.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running, SOON, panic_unless_paused, preloaded};

const PORT: u16 = 7960;
/// As in the program.
const ASKED: usize = 3000;
const FIRST: usize = 1000;
const GIVEN: usize = 150_000;
const MORE: usize = 5000;
const HELD: usize = 4;

fn program() -> PathBuf {
    testkit::c_program("privileges")
}

fn octet(index: usize) -> u8 {
    (index * 131 + (index >> 8) * 7 + (index >> 16)).to_le_bytes()[0]
}

/// A connection of the kernel's on the other side.
fn connected() -> TcpStream {
    let address = SocketAddr::from((Pair::ADDRESS_B, PORT));
    let stream = TcpStream::connect_timeout(&address, SOON).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn asks(mut stream: &TcpStream, from: usize, until: usize) {
    let octets: Vec<u8> = (from..until).map(octet).collect();
    stream.write_all(&octets).unwrap();
}

/// What one client has seen, to be compared.
fn receives(mut stream: &TcpStream, expected: usize, pause: Duration) -> String {
    let mut seen = Vec::new();
    let mut part = [0; 7000];
    let end = loop {
        match stream.read(&mut part) {
            Ok(0) => break "the end".to_owned(),
            Ok(len) => seen.extend_from_slice(&part[..len]),
            Err(error) => break error.to_string(),
        }
        thread::sleep(pause);
    };
    let wrong = seen.iter().enumerate().find(|(at, it)| **it != octet(*at));
    let wrong = wrong.map_or(String::new(), |(at, _)| format!(", octet {at} is wrong"));
    let missing = expected.saturating_sub(seen.len());
    format!(
        "{} octets, {missing} are missing{wrong}, then {end}",
        seen.len()
    )
}

/// Plays a server and its clients. What all of them say, and the library's log.
fn played(pair: &Pair, how: &str, mut command: Command) -> (String, String) {
    command.args([how, &Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    let mut server = Running::start(command).unwrap();
    assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
    let asker = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)).unwrap());
    asker.set_read_timeout(Some(SOON)).unwrap();
    let ask_datagram = || {
        asker
            .send_to(b"a datagram", (Pair::ADDRESS_B, PORT))
            .unwrap();
        let mut answer = [0; 100];
        asker
            .recv(&mut answer)
            .map_or_else(|error| error.to_string(), |len| len.to_string())
    };
    let mut said = vec![ask_datagram()];
    let clients: Vec<_> = pair.a.enter(|| (0..HELD).map(|_| connected()).collect());
    clients.iter().for_each(|it| asks(it, 0, FIRST));
    let waiting = pair.a.enter(connected);
    asks(&waiting, 0, ASKED);
    waiting.shutdown(Shutdown::Write).unwrap();
    thread::scope(|scope| {
        let held: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                scope.spawn(move || {
                    // Some of what is given is under way when the rights go, and some waits to be
                    // sent.
                    let pause = Duration::from_millis([0, 2, 5, 0][number]);
                    if number == 0 {
                        thread::sleep(Duration::from_millis(400));
                    }
                    asks(client, FIRST, ASKED);
                    receives(client, GIVEN + MORE, pause)
                })
            })
            .collect();
        let first = scope.spawn(|| receives(&waiting, GIVEN, Duration::ZERO));
        let dropped = server.wait_for_output("users", SOON);
        assert!(dropped, "{}{}", server.stdout(), server.stderr());
        said.push(ask_datagram());
        let late: Vec<_> = pair.a.enter(|| (0..2).map(|_| connected()).collect());
        let late: Vec<_> = late
            .into_iter()
            .map(|client| {
                asks(&client, 0, ASKED);
                scope.spawn(move || receives(&client, GIVEN, Duration::ZERO))
            })
            .collect();
        for client in held.into_iter().chain([first]).chain(late) {
            said.push(client.join().unwrap());
        }
    });
    let finished = server.wait(SOON).unwrap();
    let said = format!(
        "{}{}\n{}",
        finished.stdout,
        said.join("\n"),
        finished.status
    );
    (said, finished.stderr)
}

/// The same on the kernel and with the library. Returns the log of the latter, sleeping and
/// polling.
fn compared(how: &str) -> Option<[String; 2]> {
    let pair = match Namespaces::pair() {
        Ok(pair) => pair,
        Err(reason) => {
            testkit::skip(reason);
            return None;
        }
    };
    let (expected, _) = played(&pair, how, pair.b.command(program()));
    assert!(expected.contains("exit status: 0"), "{expected}");
    assert!(
        !expected.contains("wrong") && expected.matches(" 0 are missing").count() == 7,
        "{expected}"
    );
    Some(
        [[("VMA_RX_POLL", "100000")], [("VMA_RX_POLL", "0")]].map(|environment| {
            let mut command = preloaded(&pair.b, &program()).unwrap();
            command.env("VMA_TRACELEVEL", "4").envs(environment);
            let (seen, log) = played(&pair, how, command);
            assert_eq!(expected, seen, "{log}");
            assert!(log.contains("past the kernel"), "{log}");
            log
        }),
    )
}

/// The listener and the connections return before the call, with the reason that names it.
fn returns_before(how: &str, call: &str) {
    panic_unless_paused(|| {
        for log in compared(how).into_iter().flatten() {
            let text = format!("back to the kernel: the process has given up its rights ({call})");
            // The listener, and four connections.
            assert_eq!(log.matches(&text).count(), 5, "{log}");
            assert!(
                !log.contains("is lost") && !log.contains("is reset"),
                "{log}"
            );
        }
    });
}

#[test]
fn a_server_becomes_another_user() {
    for call in ["setuid", "setreuid", "setresuid"] {
        returns_before(call, call);
    }
}

#[test]
fn a_server_becomes_another_user_by_system_calls() {
    for call in ["setuid", "setreuid", "setresuid"] {
        returns_before(&format!("raw_{call}"), call);
    }
}

#[test]
fn a_server_gives_up_the_capability() {
    returns_before("capset", "capset");
    returns_before("raw_capset", "capset");
}

#[test]
fn a_server_keeps_capabilities_of_one_thread() {
    returns_before("keepcaps", "setresuid");
}

#[test]
fn one_thread_gives_up_its_rights() {
    returns_before("thread", "setresuid");
}

#[test]
fn a_thread_waits_while_the_rights_go() {
    returns_before("asleep", "setuid");
}

/// Rights that are lowered for a while cost nothing, and what needs them meanwhile has them.
#[test]
fn rights_that_are_lowered_cost_no_connection() {
    panic_unless_paused(|| {
        for how in ["lowered", "back", "refused"] {
            for log in compared(how).into_iter().flatten() {
                assert!(!log.contains("given up its rights"), "{how}: {log}");
                assert!(
                    !log.contains("is lost") && !log.contains("is reset"),
                    "{how}: {log}"
                );
                // They were past the kernel until only the kernel could go on.
                let text = "back to the kernel: the C library itself reads it";
                assert_eq!(log.matches(text).count(), 1, "{how}: {log}");
            }
        }
    });
}

/// An instruction of the program's own takes the right from the calling thread. What finds that
/// first is accept(2): the library's thread has the right still, and uses it once more.
#[test]
fn rights_that_go_unseen_cost_no_connection() {
    panic_unless_paused(|| {
        for log in compared("unseen").into_iter().flatten() {
            let text = "given up its rights (by a system call that the library has not seen)";
            assert_eq!(log.matches(text).count(), 5, "{log}");
            assert!(
                !log.contains("is lost") && !log.contains("is reset"),
                "{log}"
            );
        }
    });
}

/// Everything returns, datagrams included, and the library's thread is gone: the kernel makes a
/// user namespace for no others.
#[test]
fn everything_returns_before_a_filter_and_a_user_namespace() {
    panic_unless_paused(|| {
        for (how, reason) in [
            (
                "filter_kills",
                "a filter of system calls forbids what it takes (bpf)",
            ),
            (
                "filter_epoll",
                "a filter of system calls forbids what it takes (bpf)",
            ),
            (
                "filter_refuses",
                "a filter of system calls forbids what it takes (bpf)",
            ),
            (
                "unshare",
                "the process has left its user namespace (unshare)",
            ),
        ] {
            for log in compared(how).into_iter().flatten() {
                let text = format!("back to the kernel: {reason}");
                assert_eq!(log.matches(&text).count(), 6, "{how}: {log}");
                assert!(
                    !log.contains("is lost") && !log.contains("is reset"),
                    "{how}: {log}"
                );
            }
        }
    });
}

/// The library can do without what it forbids.
#[test]
fn a_filter_that_allows_enough_costs_nothing() {
    panic_unless_paused(|| {
        for log in compared("filter_allows").into_iter().flatten() {
            assert!(!log.contains("a filter of system calls"), "{log}");
            assert_eq!(
                log.matches("back to the kernel: the C library itself reads it")
                    .count(),
                1,
                "{log}"
            );
        }
    });
}
