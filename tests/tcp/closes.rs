//! Connections that a program has closed and whose peers have not, on the kernel and with the
//! library: their descriptors are the program's again, and they end as any other.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Namespace, Namespaces, Pair, Running, SOON, eventually, or_skip, preloaded};

const PORT: u16 = 7930;
const COUNT: usize = 200;
/// Those that ask for a long answer, and read it late.
const LATE: usize = 3;
/// After what time a closed connection is the kernel's.
const PATIENCE: Duration = Duration::from_millis(1500);

fn program() -> PathBuf {
    testkit::c_program("closes")
}

fn started(mut command: Command, how: &str, address: IpAddr) -> Running {
    if address.is_ipv6() {
        command.env("CASE_OVER_IPV6", "real");
    }
    let place = match address {
        IpAddr::V4(ip) => ip,
        // The program has the addresses of IPv4.
        IpAddr::V6(ip) if ip == Pair::IPV6_ADDRESS_A => Pair::ADDRESS_A,
        IpAddr::V6(_) => Pair::ADDRESS_B,
    };
    command.args([
        how,
        &place.to_string(),
        &PORT.to_string(),
        &COUNT.to_string(),
    ]);
    let mut running = Running::start_interactive(command).unwrap();
    assert!(
        running.wait_for_output("ready", SOON),
        "{}",
        running.stderr()
    );
    running
}

/// What it says in the end, and its log.
fn finished(mut running: Running) -> (String, String) {
    let mut input = running.stdin().unwrap();
    writeln!(input).unwrap();
    let finished = running.wait(SOON).unwrap();
    assert!(
        finished.status.success(),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    (finished.stdout, finished.stderr)
}

/// How many connections of the namespace are in this state of Linux's number.
fn in_state(namespace: &Namespace, number: u8) -> usize {
    let number = format!("{number:02X}");
    let tables = namespace.enter(|| {
        let table = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        [table("tcp"), table("tcp6")].map(Result::unwrap_or_default)
    });
    let lines = tables.iter().flat_map(|table| table.lines());
    let is_in_state = |line: &&str| line.split_whitespace().nth(3) == Some(&number);
    lines.filter(is_in_state).count()
}

const LAST_ACK: u8 = 9;

/// What peers of a server see that closes first.
fn served(pair: &Pair, command: Command, address: IpAddr) -> (String, String) {
    let mut running = started(command, "serve", address);
    let mut streams = Vec::new();
    let mut seen = String::new();
    for number in 0..COUNT {
        let connected = pair.a.enter(|| TcpStream::connect((address, PORT)));
        let Ok(mut stream) = connected else {
            seen += &format!("{number}: not connected\n");
            break;
        };
        stream.set_read_timeout(Some(SOON)).unwrap();
        if number < LATE {
            stream.write_all(b"l").unwrap();
        } else {
            stream.write_all(b"x").unwrap();
            let mut answer = Vec::new();
            let read = stream
                .read_to_end(&mut answer)
                .map_err(|error| error.kind());
            if read != Ok(1) {
                seen += &format!("{number}: {read:?}\n");
                break;
            }
        }
        streams.push(stream);
    }
    assert!(
        running.wait_for_output("files", SOON),
        "{seen}{}",
        running.stderr()
    );
    thread::sleep(PATIENCE);
    for stream in streams.iter_mut().take(LATE) {
        let mut answer = Vec::new();
        let read = stream
            .read_to_end(&mut answer)
            .map_err(|error| error.kind());
        let is_whole = answer.iter().all(|octet| *octet == b'y');
        seen += &format!("late: {read:?} {is_whole}\n");
    }
    // Nobody reads that any more.
    let mut last = streams.pop().unwrap();
    let mut results = (0..2).map(|_| {
        let written = last.write(b"x").map_err(|error| error.kind());
        thread::sleep(Duration::from_millis(100));
        format!("written: {written:?}\n")
    });
    seen += &results.next().unwrap();
    seen += &results.next().unwrap();
    drop(streams);
    let have_ended = eventually(SOON, || in_state(&pair.a, LAST_ACK) == 0);
    seen += &format!("all have ended: {have_ended}\n");
    let (said, log) = finished(running);
    (seen + &said, log)
}

/// What a client does that closes first.
fn connected(pair: &Pair, command: Command, address: IpAddr) -> (String, String) {
    let listener = pair.b.enter(|| TcpListener::bind((address, PORT))).unwrap();
    let peer = thread::spawn(move || {
        let mut streams = Vec::new();
        for _ in 0..COUNT {
            let (mut stream, _) = listener.accept().unwrap();
            let mut octet = [0];
            stream.read_exact(&mut octet).unwrap();
            stream.write_all(b"y").unwrap();
            streams.push(stream);
        }
        let ended = streams.iter().filter(|stream| {
            let mut stream: &TcpStream = stream;
            stream.set_read_timeout(Some(SOON)).unwrap();
            matches!(stream.read(&mut [0]), Ok(0))
        });
        let seen = format!("{} have ended\n", ended.count());
        thread::sleep(PATIENCE);
        (streams, seen)
    });
    let mut running = started(command, "connect", address);
    assert!(
        running.wait_for_output("files", SOON),
        "{}",
        running.stderr()
    );
    let (streams, mut seen) = peer.join().unwrap();
    drop(streams);
    let have_ended = eventually(SOON, || in_state(&pair.b, LAST_ACK) == 0);
    seen += &format!("all have ended: {have_ended}\n");
    let (said, log) = finished(running);
    (seen + &said, log)
}

type Played = fn(&Pair, Command, IpAddr) -> (String, String);

/// `is_server`: the program is at the address.
fn compared(played: Played, is_server: bool, is_ipv6: bool) {
    let plain = Namespaces::new();
    let pair = or_skip!(if is_ipv6 { plain.ipv6() } else { plain }.create());
    let address = match is_ipv6 {
        true => IpAddr::V6(Pair::IPV6_ADDRESS_B),
        false => IpAddr::V4(Pair::ADDRESS_B),
    };
    let namespace = if is_server { &pair.b } else { &pair.a };
    let (expected, _) = played(&pair, namespace.command(program()), address);
    assert!(expected.contains("few descriptors"), "{expected}");
    let mut command = preloaded(namespace, &program()).unwrap();
    command.env("VMA_TRACELEVEL", "4");
    let (seen, log) = played(&pair, command, address);
    assert_eq!(expected, seen, "{log}");
    assert!(log.contains("goes on in the kernel"), "{log}");
}

#[test]
fn a_servers_closed_connections_have_no_descriptors() {
    compared(served, true, false);
}

#[test]
fn a_clients_closed_connections_have_no_descriptors() {
    compared(connected, false, false);
}

#[test]
fn a_servers_closed_connections_have_no_descriptors_over_ipv6() {
    if Path::new("/proc/net/if_inet6").exists() {
        compared(served, true, true);
    }
}

/// So often a client connects from the same port.
const AGAIN: usize = 15;
const TIME_WAIT: u8 = 6;

/// What a client sees that closes first, or last; and whether the side that closes first waits
/// still.
fn again(pair: &Pair, server: Command, client: Command, how: &str, address: IpAddr) -> String {
    let arguments = |command: &mut Command, how: &str| {
        let place = [Pair::ADDRESS_B.to_string(), PORT.to_string()];
        command.arg(how).args(place).arg(AGAIN.to_string());
        if address.is_ipv6() {
            command.env("CASE_OVER_IPV6", "real");
        }
    };
    let (mut server, mut client) = (server, client);
    arguments(&mut server, "answer");
    arguments(&mut client, how);
    let mut server = Running::start(server).unwrap();
    assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
    let client = Running::start(client).unwrap().wait(SOON).unwrap();
    assert!(
        client.status.success(),
        "{}{}",
        client.stdout,
        client.stderr
    );
    if !client.stdout.is_empty() {
        return client.stdout + &client.stderr + &server.stderr();
    }
    let server = server.wait(SOON).unwrap();
    assert!(
        server.status.success(),
        "{}{}",
        server.stdout,
        server.stderr
    );
    // A reset would have come by then.
    thread::sleep(Duration::from_millis(100));
    let waits = if how == "first" { &pair.a } else { &pair.b };
    format!("{} in TIME-WAIT\n", in_state(waits, TIME_WAIT))
}

/// On the kernel and with either side preloaded. They wait less than the old connection is still
/// here.
fn used_again(how: &str, is_ipv6: bool) {
    let address = match is_ipv6 {
        true => IpAddr::V6(Pair::IPV6_ADDRESS_B),
        false => IpAddr::V4(Pair::ADDRESS_B),
    };
    let program = program();
    let command = |namespace: &Namespace, has_library: bool| match has_library {
        true => preloaded(namespace, &program).unwrap(),
        false => namespace.command(&program),
    };
    for (server, client) in [(false, false), (true, false), (false, true)] {
        let played = testkit::retry_if_paused(|| {
            let plain = Namespaces::new();
            let pair = match if is_ipv6 { plain.ipv6() } else { plain }.create() {
                Ok(pair) => pair,
                Err(reason) => {
                    testkit::skip(reason);
                    return Ok(());
                }
            };
            let (server, client) = (command(&pair.b, server), command(&pair.a, client));
            match again(&pair, server, client, how, address) {
                seen if seen == "1 in TIME-WAIT\n" => Ok(()),
                seen => Err(seen),
            }
        });
        played.unwrap_or_else(|seen| panic!("server {server}, client {client}: {seen}"));
    }
}

#[test]
fn a_port_is_used_again_by_who_closes_first() {
    used_again("first", false);
}

#[test]
fn a_port_is_used_again_by_who_closes_last() {
    used_again("last", false);
}

#[test]
fn a_port_is_used_again_over_ipv6() {
    if Path::new("/proc/net/if_inet6").exists() {
        used_again("first", true);
        used_again("last", true);
    }
}
