//! Listeners whose interface another process has: what they are when that lets go, with children,
//! with several interfaces, and while peers connect.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stats::SocketSnapshot;
use testkit::{
    Accelerated, Namespaces, Pair, SOON, c_program, eventually, or_skip, panic_unless_paused,
    preloaded,
};

const PORT: u16 = 7750;

fn started(command: std::process::Command) -> Accelerated {
    let mut started = Accelerated::start(command).unwrap();
    // A daemon's first process ends before.
    let is_ready = eventually(SOON, || started.process().stdout().contains("ready"));
    assert!(is_ready, "{}", started.process().stderr());
    started
}

/// Has the interface of an address.
fn start_holder(pair: &Pair, address: Ipv4Addr) -> Accelerated {
    let mut command = preloaded(&pair.b, &c_program("echo")).unwrap();
    command.args([address.to_string(), (PORT + 1).to_string()]);
    let holder = started(command);
    assert!(holder.sockets()[0].offloaded, "{:?}", holder.sockets());
    holder
}

/// Sends each octet of every connection back, in the process that says its number.
const SERVER: &str = r"
import ctypes, os, signal, socket, subprocess, sys, threading
address, port, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
# Started programs have it.
s = socket.socket(fileno=ctypes.CDLL(None).socket(socket.AF_INET, socket.SOCK_STREAM, 0))
s.bind((address, port))
s.listen(4096)
def answer(c):
    while data := c.recv(4096):
        c.sendall(data)
    c.close()
def serve():
    while True:
        threading.Thread(target=answer, args=s.accept()[:1], daemon=True).start()
gone, alive = os.pipe()
child = os.fork() if way in ('daemon', 'saver', 'worker') else None
if child == 0 and way == 'saver':
    os.close(alive)
    os.read(gone, 1)
    os._exit(0)
if child and way == 'daemon':
    os._exit(0)
if child == 0 and way == 'worker':
    signal.alarm(200)
    serve()
if way == 'program':
    subprocess.Popen(['cat'], stdin=subprocess.PIPE, close_fds=False)
if way == 'taker':
    take = 'import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.accept()[0].sendall(b\'taken\')'
    subprocess.Popen([sys.executable, '-c', take, str(s.fileno())], close_fds=False).wait()
if way == 'daemon':
    signal.alarm(200)
threading.Thread(target=serve, daemon=True).start()
print('pid', os.getpid(), 'ready', flush=True)
if way == 'daemon':
    signal.pause()
sys.stdin.read()
";

struct Server {
    process: Accelerated,
    pid: u32,
}

impl Server {
    fn start(pair: &Pair, address: Ipv4Addr, way: &str) -> Self {
        let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
        command.args(["-c", SERVER, &address.to_string(), &PORT.to_string(), way]);
        command.env("VMA_TRACELEVEL", "debug");
        let mut process = started(command);
        let output = process.process().stdout();
        let pid = output.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self { process, pid }
    }

    fn listener(&self) -> SocketSnapshot {
        let sockets = self.process.reader_of(self.pid).sockets().unwrap();
        // Its connections have peers.
        let mut listeners = sockets.into_iter().filter(|it| it.peer.is_none());
        listeners.next().unwrap()
    }

    fn reason(&self) -> String {
        let (code, reader) = (self.listener().reason, self.process.reader_of(self.pid));
        let reasons = reader.reasons().unwrap();
        reasons.into_iter().find(|it| it.code == code).unwrap().name
    }

    fn goes_past_the_kernel(&mut self) {
        let offloaded = eventually(SOON, || self.listener().offloaded);
        let log = self.process.process().stderr();
        assert!(offloaded, "{:?}\n{log}", self.listener());
    }

    /// Packets that came past the kernel.
    fn received(&self) -> u64 {
        let rings = self.process.reader_of(self.pid).rings().unwrap();
        rings.iter().map(|it| it.rx_packets).sum()
    }
}

/// A daemon's second process is no child of the test.
impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: kill touches no memory.
        unsafe { libc::kill(self.pid.cast_signed(), libc::SIGKILL) };
    }
}

fn connect(pair: &Pair, address: Ipv4Addr) -> TcpStream {
    let client = pair
        .a
        .enter(|| TcpStream::connect((address, PORT)))
        .unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    client
}

fn echoes(pair: &Pair, address: Ipv4Addr) {
    let mut client = connect(pair, address);
    for number in 0..10_u32 {
        client.write_all(&number.to_be_bytes()).unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, number.to_be_bytes());
    }
}

const HELD: &str = "another process holds the interface";
const B: Ipv4Addr = Pair::ADDRESS_B;

fn goes_over(way: &str) {
    let pair = or_skip!(Namespaces::pair());
    let holder = start_holder(&pair, B);
    let mut server = Server::start(&pair, B, way);
    echoes(&pair, B);
    assert_eq!(server.reason(), HELD);
    drop(holder);
    server.goes_past_the_kernel();
    let before = server.received();
    echoes(&pair, B);
    assert!(server.received() >= before + 10);
}

#[test]
fn a_daemons_listener_goes_over() {
    or_skip!(testkit::needs_xdp(
        "an interface that one process has alone"
    ));
    goes_over("daemon");
}

#[test]
fn a_listener_goes_over_whose_child_does_not_use_it() {
    or_skip!(testkit::needs_xdp(
        "an interface that one process has alone"
    ));
    goes_over("saver");
}

#[test]
fn a_listener_goes_over_whose_program_does_not_use_it() {
    or_skip!(testkit::needs_xdp(
        "an interface that one process has alone"
    ));
    goes_over("program");
}

fn stays_the_kernels(way: &str, reason: &str) {
    let pair = or_skip!(Namespaces::pair());
    let holder = start_holder(&pair, B);
    let mut server = thread::scope(|scope| {
        let taken = scope.spawn(|| {
            if way != "taker" {
                return String::new();
            }
            let has_listener = || pair.a.enter(|| TcpStream::connect((B, PORT))).ok();
            let begin = Instant::now();
            loop {
                if let Some(mut client) = has_listener() {
                    let mut taken = String::new();
                    client.read_to_string(&mut taken).unwrap();
                    return taken;
                }
                assert!(begin.elapsed() < SOON);
                thread::sleep(Duration::from_millis(10));
            }
        });
        let server = Server::start(&pair, B, way);
        let expected = if way == "taker" { "taken" } else { "" };
        assert_eq!(taken.join().unwrap(), expected);
        server
    });
    (0..5).for_each(|_| echoes(&pair, B));
    let is_known = eventually(SOON, || server.reason() == reason);
    assert!(is_known, "{}", server.reason());
    drop(holder);
    // Longer than it takes to see that.
    thread::sleep(Duration::from_secs(1));
    (0..5).for_each(|_| echoes(&pair, B));
    let log = server.process.process().stderr();
    assert_eq!(server.reason(), reason, "{log}");
}

#[test]
fn a_listener_is_the_kernels_that_a_child_uses_meanwhile() {
    stays_the_kernels("worker", "shared with a child since fork");
}

#[test]
fn a_listener_is_the_kernels_that_a_program_uses_meanwhile() {
    stays_the_kernels("taker", "its descriptor was passed to another process");
}

const SECOND_A: &str = "10.79.0.1/24";
const SECOND_B: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);

/// Another link between the two, on which both have addresses.
fn add_link(pair: &Pair) {
    let ip = |namespace: &testkit::Namespace, words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        namespace.ip(&words).unwrap();
    };
    let far = pair.b.name();
    ip(
        &pair.a,
        &format!("link add va2 index 112 type veth peer name vb2 index 123 netns {far}"),
    );
    ip(&pair.a, &format!("addr add {SECOND_A} dev va2"));
    ip(&pair.b, &format!("addr add {SECOND_B}/24 dev vb2"));
    ip(&pair.a, "link set va2 up");
    ip(&pair.b, "link set vb2 up");
    pair.b.wait_until_running("vb2", SOON).unwrap();
}

/// A ring of the interface has received something since.
fn receives_by(server: &Server, name: &str) -> u64 {
    let rings = server.process.reader_of(server.pid).rings().unwrap();
    let of_it = rings.iter().filter(|it| it.ifname == name);
    of_it.map(|it| it.rx_packets).sum()
}

fn gets(pair: &Pair, server: &mut Server, name: &str, address: Ipv4Addr) {
    let comes = || {
        let before = receives_by(server, name);
        echoes(pair, address);
        receives_by(server, name) >= before + 10
    };
    let does_come = eventually(SOON, comes);
    assert!(does_come, "{}", server.process.process().stderr());
    echoes(pair, B);
}

#[test]
fn a_listener_gets_its_second_interface_when_that_is_free() {
    or_skip!(testkit::needs_xdp(
        "an interface that one process has alone"
    ));
    let pair = or_skip!(Namespaces::pair());
    add_link(&pair);
    let holder = start_holder(&pair, SECOND_B);
    let mut server = Server::start(&pair, Ipv4Addr::UNSPECIFIED, "alone");
    assert!(server.listener().offloaded);
    echoes(&pair, B);
    let mut early = connect(&pair, SECOND_B);
    early.write_all(b"early").unwrap();
    assert_eq!(receives_by(&server, "vb2"), 0);
    drop(holder);
    gets(&pair, &mut server, "vb2", SECOND_B);
    let mut answer = [0; 5];
    early.read_exact(&mut answer).unwrap();
    early.write_all(b"later").unwrap();
    early.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"later");
    let exempt = || {
        let queues = server.process.reader().queues().unwrap();
        let of_it = queues.iter().filter(|it| it.ifname == "vb2");
        of_it
            .map(|it| (it.exempt, it.exempt_refused))
            .collect::<Vec<_>>()
    };
    assert!(eventually(SOON, || exempt() == [(1, 0)]), "{:?}", exempt());
    drop(early);
    assert!(eventually(SOON, || exempt() == [(0, 0)]), "{:?}", exempt());
}

#[test]
fn a_listener_gets_an_interface_that_comes_later() {
    or_skip!(testkit::needs_xdp(
        "an interface that one process has alone"
    ));
    let pair = or_skip!(Namespaces::pair());
    let mut server = Server::start(&pair, Ipv4Addr::UNSPECIFIED, "alone");
    assert!(server.listener().offloaded);
    echoes(&pair, B);
    add_link(&pair);
    gets(&pair, &mut server, "vb2", SECOND_B);
    // And again, after it was gone for a while.
    pair.a.ip(&["link", "del", "va2"]).unwrap();
    echoes(&pair, B);
    add_link(&pair);
    gets(&pair, &mut server, "vb2", SECOND_B);
}

/// A SYN or an acknowledgement that is lost is sent again after a second.
const LOST: Duration = Duration::from_millis(900);

/// Peers connect all the time, a thousand or more in each second, while the listener goes over.
#[test]
fn no_peer_waits_while_a_listener_goes_over() {
    or_skip!(testkit::needs_xdp(
        "an interface that one process has alone"
    ));
    panic_unless_paused(go_over_while_peers_connect);
}

fn go_over_while_peers_connect() {
    let pair = or_skip!(Namespaces::pair());
    for _ in 0..5 {
        let holder = start_holder(&pair, B);
        let mut server = Server::start(&pair, B, "alone");
        assert_eq!(server.reason(), HELD);
        let is_over = AtomicBool::new(false);
        let connect_all = || {
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                let mut client = TcpStream::connect((B, PORT)).unwrap();
                client.set_read_timeout(Some(SOON)).unwrap();
                client.write_all(b"x").unwrap();
                client.read_exact(&mut [0]).unwrap();
                times.push(begin.elapsed());
            }
            times
        };
        let times = thread::scope(|scope| {
            let peers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| pair.a.enter(connect_all)))
                .collect();
            thread::sleep(Duration::from_millis(100));
            drop(holder);
            server.goes_past_the_kernel();
            // Longer than its beginning takes.
            thread::sleep(Duration::from_millis(1500));
            is_over.store(true, Ordering::Relaxed);
            let times = peers.into_iter().flat_map(|peer| peer.join().unwrap());
            times.collect::<Vec<_>>()
        });
        let waited = times.iter().filter(|time| **time >= LOST).count();
        assert_eq!(waited, 0, "of {}: {:?}", times.len(), times.iter().max());
    }
}
