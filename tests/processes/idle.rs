//! A process that makes no use of an interface lets another have it, though it lives, and gets it
//! again when it needs it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

use testkit::{
    Accelerated, Namespaces, Pair, SOON, c_program, eventually, needs, or_skip, preloaded,
};

fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn started(command: Command) -> Accelerated {
    let mut started = Accelerated::start(command).unwrap();
    says(&mut started, "ready");
    started
}

/// Not in what the library says: that has the command line.
fn says(program: &mut Accelerated, text: &str) {
    let has_said = eventually(SOON, || program.process().stdout().contains(text));
    assert!(has_said, "{}", program.process().stderr());
}

fn start_c(pair: &Pair, name: &str, port: u16) -> Accelerated {
    let mut command = preloaded(&pair.b, &c_program(name)).unwrap();
    command.args([Pair::ADDRESS_B.to_string(), port.to_string()]);
    started(command)
}

fn is_offloaded(program: &Accelerated) -> bool {
    program.sockets().iter().any(|socket| socket.offloaded)
}

fn goes_past_the_kernel(program: &mut Accelerated) {
    let offloaded = eventually(SOON, || is_offloaded(program));
    let log = program.process().stderr();
    assert!(offloaded, "{:?}\n{log}", program.sockets());
}

/// A datagram comes back.
fn echoes(pair: &Pair, port: u16) {
    let bind = || UdpSocket::bind((Pair::ADDRESS_A, 0));
    let client = pair.a.enter(bind).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client.send_to(b"ping", (Pair::ADDRESS_B, port)).unwrap();
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 4);
}

/// What is sent by a connection comes back, or an answer.
fn answers(pair: &Pair, port: u16, request: &[u8]) -> Vec<u8> {
    let connect = || TcpStream::connect((Pair::ADDRESS_B, port));
    let mut client = pair.a.enter(connect).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client.write_all(request).unwrap();
    let mut answer = vec![0; 4096];
    let len = client.read(&mut answer).unwrap();
    answer.truncate(len);
    answer
}

#[test]
fn a_master_whose_workers_serve_lets_the_interface_go() {
    let pair = or_skip!(Namespaces::pair());
    let master = start_c(&pair, "idle_master", 7740);
    let mut server = start_c(&pair, "echo", 7741);
    goes_past_the_kernel(&mut server);
    echoes(&pair, 7741);
    assert_eq!(answers(&pair, 7740, b"line\n"), b"line\n");
    assert_eq!(server.sockets()[0].rx_packets, 1);
    assert!(!is_offloaded(&master), "{:?}", master.sockets());
}

/// The configuration is the package's, but for where it writes.
#[test]
fn nginx_as_it_is_shipped_lets_the_interface_go() {
    or_skip!(needs::require(&["nginx"]));
    let pair = or_skip!(Namespaces::pair());
    let own = directory().join(format!("idle-nginx-{}", std::process::id()));
    fs::create_dir_all(&own).unwrap();
    let path = |name: &str| own.join(name).display().to_string();
    let shipped = fs::read_to_string("/etc/nginx/nginx.conf").unwrap();
    let changed = shipped
        .lines()
        .map(|line| match line.split_whitespace().next() {
            Some("pid") => format!("pid {};", path("pid")),
            Some(log @ ("error_log" | "access_log")) => format!("{log} {};", path(log)),
            _ => line.to_owned(),
        });
    let changed: Vec<_> = changed.collect();
    fs::write(own.join("nginx.conf"), changed.join("\n")).unwrap();
    let mut command = preloaded(&pair.b, Path::new("nginx")).unwrap();
    command.args(["-c", &path("nginx.conf"), "-g", "daemon off;"]);
    let mut nginx = Accelerated::start(command).unwrap();
    let listens = || {
        let connect = || TcpStream::connect((Pair::ADDRESS_B, 80));
        pair.a.enter(connect).is_ok()
    };
    assert!(eventually(SOON, listens), "{}", nginx.process().stderr());

    let mut server = start_c(&pair, "echo", 7742);
    goes_past_the_kernel(&mut server);
    echoes(&pair, 7742);
    let page = answers(&pair, 80, b"GET / HTTP/1.0\r\n\r\n");
    assert!(page.starts_with(b"HTTP/1.1 200"), "{page:?}");
    assert!(server.sockets()[0].rx_packets > 0);
    nginx.into_process().stop(libc::SIGTERM, SOON).unwrap();
    fs::remove_dir_all(own).unwrap();
}

/// Sends and expects it back.
fn comes_back(client: &mut TcpStream, text: &[u8]) {
    client.write_all(text).unwrap();
    let mut answer = vec![0; text.len()];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, text);
}

/// A listener that finds the interface with a process that leaves it. Connections of before go on
/// in the kernel.
fn listener_goes_over(port: u16, more: &[&str]) {
    let pair = or_skip!(Namespaces::pair());
    let _master = start_c(&pair, "idle_master", port);
    let mut command = preloaded(&pair.b, &c_program("later")).unwrap();
    command.args([Pair::ADDRESS_B.to_string(), (port + 1).to_string()]);
    command.args(more);
    let mut server = started(command);
    let listener = server.sockets().remove(0);
    assert!(listener.detail.starts_with("vb: process"), "{listener:?}");
    let connect = || TcpStream::connect((Pair::ADDRESS_B, port + 1));
    let mut early: Vec<_> = (0..3).map(|_| pair.a.enter(connect).unwrap()).collect();
    for client in &mut early {
        client.set_read_timeout(Some(SOON)).unwrap();
        comes_back(client, b"early");
    }
    goes_past_the_kernel(&mut server);
    assert_eq!(server.sockets().len(), 1);
    for round in 0..20_u32 {
        let mut late = pair.a.enter(connect).unwrap();
        late.set_read_timeout(Some(SOON)).unwrap();
        comes_back(&mut late, &[7; 5000]);
        let accepted = server.sockets();
        assert!(accepted.iter().all(|it| it.offloaded), "{accepted:?}");
        for client in &mut early {
            for ping in 0..10_u32 {
                comes_back(client, &(round * 10 + ping).to_be_bytes());
            }
        }
    }
    // Those of the kernel reach it on their own.
    let received = server.received_by_rings();
    assert!(
        received < 400,
        "{received} packets of 20 connections, and not of 600 pings"
    );
    drop(early);
    assert_eq!(answers(&pair, port + 1, b"line"), b"line");
}

#[test]
fn a_listener_goes_over_while_a_thread_waits_in_accept() {
    listener_goes_over(7747, &[]);
}

#[test]
fn a_listener_goes_over_while_a_thread_waits_in_epoll() {
    listener_goes_over(7747, &["epoll"]);
}

/// What calls on a listener say, and how long they take.
const CALLS: &str = r"
import os, socket, struct, sys, threading, time
address = sys.argv[1]
def accepts(what):
    begun = time.time()
    try:
        s.accept()
    except OSError as error:
        print(what, error.errno, round(time.time() - begun), flush=True)
def waits(seconds):
    time_val = struct.pack('ll', seconds, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, time_val)
s = socket.create_server((address, 7748))
waits(1)
accepts('time is over')
waits(0)
thread = threading.Timer(1, lambda: s.shutdown(socket.SHUT_RDWR))
thread.start()
accepts('shut down')
thread.join()
accepts('does not listen')
s.listen()
s.setblocking(False)
accepts('not blocking')
s.close()
s = socket.create_server((address, 7749))
child = os.fork()
if child == 0:
    s.accept()
    os._exit(3)
client = socket.create_connection((address, 7749))
print('child', os.waitpid(child, 0)[1] >> 8, flush=True)
";

#[test]
fn a_listener_that_waits_for_its_interface_is_as_the_kernels() {
    let pair = or_skip!(Namespaces::pair());
    let address = Pair::ADDRESS_B.to_string();
    let mut on_kernel = pair.b.command(Path::new("python3"));
    let on_kernel = on_kernel.args(["-c", CALLS, &address]).output().unwrap();
    let _holder = start_c(&pair, "echo", 7746);
    let mut held = preloaded(&pair.b, Path::new("python3")).unwrap();
    let held = held.args(["-c", CALLS, &address]).output().unwrap();
    let log = String::from_utf8_lossy(&held.stderr).into_owned();
    assert!(log.contains("(echo) holds it"), "{log}");
    let said = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said(&held), said(&on_kernel));
    assert!(said(&held).ends_with("child 3\n"), "{}", said(&held));
}

/// Opens a socket and closes it; another one when a line comes, and then sends each datagram back.
const COMES_BACK: &str = r"
import socket, sys
def opened(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((sys.argv[1], port))
    return s
opened(7743).close()
print('ready', flush=True)
sys.stdin.readline()
s = opened(7744)
print('again', flush=True)
while True:
    data, sender = s.recvfrom(64)
    s.sendto(data, sender)
";

#[test]
fn who_needs_it_again_takes_it_when_it_is_free() {
    let pair = or_skip!(Namespaces::pair());
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args(["-c", COMES_BACK, &Pair::ADDRESS_B.to_string()]);
    let mut first = started(command);
    // At this moment it has the interface.
    let mut second = start_c(&pair, "echo", 7745);
    let log = second.process().stderr();
    assert!(log.contains("(python3) holds it"), "{log}");
    goes_past_the_kernel(&mut second);
    echoes(&pair, 7745);
    assert!(second.reader().notes().unwrap().is_empty());

    let mut input = first.process().stdin().unwrap();
    input.write_all(b"\n").unwrap();
    says(&mut first, "again");
    echoes(&pair, 7744);
    assert!(!is_offloaded(&first), "{:?}", first.sockets());
    drop(second);
    goes_past_the_kernel(&mut first);
    echoes(&pair, 7744);
    assert!(first.sockets().iter().any(|it| it.rx_packets == 1));
}

/// Sends now and then, and receives nothing.
const SENDER: &str = r"
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 7746))
print('ready', flush=True)
while True:
    s.send(b'tick')
    time.sleep(2)
";

/// A rule leaves what it receives to the kernel, so nothing is steered; what it sends goes past the
/// kernel.
#[test]
fn who_only_sends_keeps_it() {
    let pair = or_skip!(Namespaces::pair());
    let bind = || UdpSocket::bind((Pair::ADDRESS_A, 7746));
    let receiver = pair.a.enter(bind).unwrap();
    receiver.set_read_timeout(Some(SOON)).unwrap();
    let rules = directory().join(format!("idle-{}.conf", std::process::id()));
    fs::write(&rules, "use os udp_receiver *:*\n").unwrap();
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args(["-c", SENDER, &Pair::ADDRESS_A.to_string()]);
    command.env("VMA_CONFIG_FILE", &rules);
    let sender = started(command);
    for _ in 0..3 {
        receiver.recv(&mut [0; 8]).unwrap();
    }
    let socket = sender.sockets().remove(0);
    // The first one asks for the neighbour.
    assert!(socket.tx_packets >= 2, "{socket:?}");
    fs::remove_file(rules).unwrap();
}
