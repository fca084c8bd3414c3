//! Connections that are over, or all but over, when another goes on with them: what was not read,
//! the end behind that and the error are there for it as they are on the kernel.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Namespace, Namespaces, Pair, Running, SOON, or_skip, preloaded};

const PORT: u16 = 7920;
const LEN: usize = 50_000;
/// What an act of the peer has to arrive before the next.
const ACT: Duration = Duration::from_millis(50);

fn program() -> PathBuf {
    testkit::c_program("remains")
}

/// How long the peer has its connection at most.
const STAYS: Duration = Duration::from_secs(20);

/// `SO_LINGER` of zero: what is closed is reset.
fn resets(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the kernel reads a `linger`.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap(),
        )
    };
    assert_eq!(set, 0);
}

/// Does what the first line says: D sends data, F ends sending, E waits for the other's end, C
/// closes, R resets.
fn obeys(mut stream: TcpStream) {
    let mut orders = Vec::new();
    let mut octet = [0];
    while stream.read_exact(&mut octet).is_ok() && octet != *b"\n" {
        orders.extend(octet);
    }
    let octets: Vec<u8> = (0..LEN)
        .map(|i| (i * 7 + (i >> 9)).to_le_bytes()[0])
        .collect();
    for order in orders {
        match order {
            b'D' => stream.write_all(&octets).unwrap(),
            b'F' => stream.shutdown(Shutdown::Write).unwrap(),
            b'E' => assert_eq!(stream.read(&mut octet).unwrap(), 0),
            b'R' => return resets(&stream),
            // Both close.
            _ => return,
        }
        thread::sleep(ACT);
    }
    // The client has ended long before.
    thread::sleep(STAYS);
}

fn peer(namespace: &Namespace, address: IpAddr) {
    let listener = namespace.enter(|| TcpListener::bind((address, PORT)));
    let listener = listener.unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(|| obeys(stream));
        }
    });
}

fn finished(mut command: Command, way: &str, address: &str) -> (String, String) {
    command.args([way, address, &PORT.to_string()]);
    let finished = Running::start(command).unwrap().wait(SOON).unwrap();
    let (out, log) = (finished.stdout, finished.stderr);
    assert!(finished.status.success(), "{way}: {out}{log}");
    (out, log)
}

/// With this environment, which chooses the family of the program's sockets.
fn compared_in(pair: &Pair, way: &str, family: &[(&str, &str)]) {
    let address = Pair::ADDRESS_B.to_string();
    let run = |mut command: Command| {
        command.envs(family.iter().copied());
        finished(command, way, &address)
    };
    let (expected, _) = run(pair.a.command(program()));
    let mut preloaded = preloaded(&pair.a, &program()).unwrap();
    preloaded.env("VMA_TRACELEVEL", "4");
    let (seen, log) = run(preloaded);
    assert_eq!(seen, expected, "{way}: {log}");
    // Each connection, and none of them lost.
    let past = log.matches("past the kernel by v").count();
    assert!(past >= expected.matches("events").count(), "{past}: {log}");
    assert!(log.contains("back to the kernel"), "{log}");
    assert!(!log.contains("it is lost"), "{log}");
}

fn compared(way: &str) {
    let pair = or_skip!(Namespaces::pair());
    peer(&pair.b, Pair::ADDRESS_B.into());
    compared_in(&pair, way, &[]);
}

#[test]
fn the_c_library_reads_on() {
    compared("stdio");
}

#[test]
fn the_kernel_reads_on() {
    compared("option");
}

#[test]
fn a_child_reads_on() {
    compared("fork");
}

#[test]
fn another_program_reads_on() {
    compared("exec");
}

#[test]
fn another_process_reads_on() {
    compared("pass");
}

#[test]
fn the_kernel_reads_on_over_ipv6() {
    if !Path::new("/proc/net/if_inet6").exists() {
        return testkit::skip("this kernel has no IPv6");
    }
    let pair = or_skip!(Namespaces::new().ipv6().create());
    peer(&pair.b, Pair::ADDRESS_B.into());
    peer(&pair.b, Pair::IPV6_ADDRESS_B.into());
    for over in ["1", "real"] {
        compared_in(&pair, "option", &[("CASE_OVER_IPV6", over)]);
    }
}
