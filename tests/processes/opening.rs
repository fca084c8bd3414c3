//! Interfaces are opened beside the program: a call waits no longer than `VMA_OPEN_WAIT_MSEC`, and
//! what has gone on with the kernel meanwhile goes over.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

use testkit::{
    Accelerated, Namespaces, Pair, SOON, c_program, echo_streams, eventually, or_skip, preloaded,
};

const PORT: u16 = 7700;
/// Of calls that wait for nothing.
const NO_WAIT: (&str, &str) = ("VMA_OPEN_WAIT_MSEC", "0");

fn started(mut command: Command) -> Accelerated {
    command.envs([NO_WAIT]).env("VMA_TRACELEVEL", "debug");
    let mut started = Accelerated::start(command).unwrap();
    let is_ready = eventually(SOON, || started.process().stdout().contains("ready"));
    assert!(is_ready, "{}", started.process().stderr());
    started
}

fn is_offloaded(program: &Accelerated) -> bool {
    program.sockets().iter().any(|socket| socket.offloaded)
}

#[test]
fn a_datagram_socket_that_did_not_wait_goes_over() {
    let pair = or_skip!(Namespaces::pair());
    let mut command = preloaded(&pair.b, &c_program("echo")).unwrap();
    command.args([Pair::ADDRESS_B.to_string(), PORT.to_string()]);
    let server = started(command);
    let client = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    let mut count = 0_u32;
    // None is lost on the way over.
    let is_over = eventually(SOON, || {
        let question = count.to_be_bytes();
        client.send_to(&question, (Pair::ADDRESS_B, PORT)).unwrap();
        let mut answer = [0; 8];
        let len = client.recv(&mut answer).unwrap();
        assert_eq!(answer[..len], question);
        count += 1;
        is_offloaded(&server)
    });
    assert!(is_over, "{:?}", server.sockets());
}

/// Sends each octet of every connection back.
const SERVER: &str = r"
import ctypes, socket, sys, threading
def answer(c):
    while data := c.recv(4096):
        c.sendall(data)
s = socket.socket(fileno=ctypes.CDLL(None).socket(socket.AF_INET, socket.SOCK_STREAM, 0))
s.bind((sys.argv[1], int(sys.argv[2])))
s.listen(64)
print('ready', flush=True)
while True:
    threading.Thread(target=answer, args=s.accept()[:1], daemon=True).start()
";

#[test]
fn a_listener_that_did_not_wait_goes_over() {
    let pair = or_skip!(Namespaces::pair());
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args([
        "-c",
        SERVER,
        &Pair::ADDRESS_B.to_string(),
        &PORT.to_string(),
    ]);
    let server = started(command);
    let mut open = Vec::new();
    let is_over = eventually(SOON, || {
        let connect = || TcpStream::connect((Pair::ADDRESS_B, PORT));
        open.push(pair.a.enter(connect).unwrap());
        open.iter_mut().for_each(|stream| asks(stream, b"now"));
        is_offloaded(&server)
    });
    assert!(is_over, "{:?}", server.sockets());
    // Those that began on the kernel live on.
    open.iter_mut().for_each(|stream| asks(stream, b"later"));
}

fn asks(stream: &mut TcpStream, question: &[u8]) {
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(question).unwrap();
    let mut answer = vec![0; question.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, question);
}

/// Connects, asks until it is told to, and then connects once more.
const CLIENT: &str = r"
import ctypes, select, socket, sys
def connected():
    s = socket.socket(fileno=ctypes.CDLL(None).socket(socket.AF_INET, socket.SOCK_STREAM, 0))
    s.connect((sys.argv[1], int(sys.argv[2])))
    return s
def ask(s, question):
    s.sendall(question)
    assert s.recv(100) == question
first = connected()
ask(first, b'first')
print('ready', flush=True)
count = 0
while not select.select([sys.stdin], [], [], 0.001)[0]:
    ask(first, b'%d' % count)
    count += 1
sys.stdin.readline()
second = connected()
ask(second, b'second')
print('again', flush=True)
sys.stdin.readline()
first.shutdown(socket.SHUT_WR)
assert first.recv(100) == b''
print('whole', flush=True)
sys.stdin.readline()
";

fn client(namespace: &testkit::Namespace, program: &[&str]) -> Accelerated {
    let mut command = preloaded(namespace, Path::new("python3")).unwrap();
    command.args(program);
    command.args([Pair::ADDRESS_A.to_string(), PORT.to_string()]);
    started(command)
}

#[test]
fn a_connection_that_did_not_wait_goes_over() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.a, Pair::ADDRESS_A, PORT).unwrap();
    let mut client = client(&pair.b, &["-c", CLIENT]);
    assert!(
        eventually(SOON, || is_offloaded(&client)),
        "{:?}",
        client.sockets()
    );
    goes_on(&mut client, 2);
}

/// The client's connections are past the kernel, so many in the end, and end as they should.
fn goes_on(client: &mut Accelerated, count: usize) {
    let mut input = client.process().stdin().unwrap();
    for says in ["again", "whole"] {
        input.write_all(b"\n").unwrap();
        let has_said = eventually(SOON, || client.process().stdout().contains(says));
        assert!(has_said, "{}", client.process().stderr());
        let offloaded = client.sockets().iter().filter(|it| it.offloaded).count();
        assert_eq!(offloaded, count, "{:?}", client.sockets());
    }
}

#[test]
fn a_connection_of_a_held_interface_goes_over_when_that_is_free() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.a, Pair::ADDRESS_A, PORT).unwrap();
    let mut command = preloaded(&pair.b, &c_program("echo")).unwrap();
    command.args([Pair::ADDRESS_B.to_string(), PORT.to_string()]);
    let mut holder = started(command);
    assert!(
        eventually(SOON, || is_offloaded(&holder)),
        "{:?}",
        holder.sockets()
    );
    let mut client = client(&pair.b, &["-c", CLIENT]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!is_offloaded(&client), "{:?}", client.sockets());
    holder.process().signal(libc::SIGKILL).unwrap();
    assert!(
        eventually(SOON, || is_offloaded(&client)),
        "{:?}",
        client.sockets()
    );
    goes_on(&mut client, 2);
}

/// What a program of `tests/programs` says in the end, which it waits for.
fn said(pair: &Pair, program: &str, seconds: &[&str]) -> String {
    let program = format!("{}/programs/{program}.py", env!("CARGO_MANIFEST_DIR"));
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args([&program, &Pair::ADDRESS_A.to_string(), &PORT.to_string()]);
    command.args(seconds);
    command.envs([NO_WAIT]).env("VMA_TRACELEVEL", "debug");
    let mut client = Accelerated::start(command).unwrap();
    let is_done = eventually(SOON, || client.process().stdout().ends_with('\n'));
    let log = client.process().stderr();
    assert!(is_done, "{log}");
    assert!(log.contains("connects in the kernel"), "{log}");
    assert!(log.contains("past the kernel by"), "{log}");
    client.process().stdout()
}

#[test]
fn nothing_is_lost_on_the_way_over() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.a, Pair::ADDRESS_A, PORT).unwrap();
    for _ in 0..3 {
        assert_eq!(said(&pair, "going_over", &["1"]), "ok\n");
    }
}

#[test]
fn what_a_child_has_stays_with_the_kernel() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.a, Pair::ADDRESS_A, PORT).unwrap();
    assert_eq!(said(&pair, "going_over_forked", &[]), "ok\n");
}

/// Fills the way to a peer that reads nothing, and waits for its answer.
const STALLED: &str = r"
import os, socket, sys, threading, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.setblocking(False)
try:
    while True:
        s.send(b'x' * 65536)
except BlockingIOError:
    s.setblocking(True)
threading.Thread(target=s.recv, args=(1,), daemon=True).start()
time.sleep(0.5)
before = time.process_time()
time.sleep(1)
print('idle' if time.process_time() - before < 0.2 else 'busy', flush=True)
sys.stdin.readline()
os._exit(0)
";

/// The connection cannot come over while its octets are not acknowledged.
#[test]
fn who_waits_for_a_stalled_peer_does_not_look_all_the_time() {
    let pair = or_skip!(Namespaces::pair());
    let listen = || TcpListener::bind((Pair::ADDRESS_A, PORT)).unwrap();
    let _never_accepts = pair.a.enter(listen);
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args(["-c", STALLED, &Pair::ADDRESS_A.to_string()]);
    command.arg(PORT.to_string()).envs([NO_WAIT]);
    let mut client = Accelerated::start(command).unwrap();
    let is_done = eventually(SOON, || client.process().stdout().ends_with('\n'));
    assert!(is_done, "{}", client.process().stderr());
    assert_eq!(client.process().stdout(), "idle\n");
}

/// Binds, and has a user namespace of its own at once: for processes of one thread.
const ALONE: &str = r"
import ctypes, socket, sys
libc = ctypes.CDLL(None)
s = socket.socket(fileno=libc.socket(socket.AF_INET, socket.SOCK_DGRAM, 0))
s.bind((sys.argv[1], int(sys.argv[2])))
CLONE_NEWUSER = 0x10000000
print('unshared:', libc.unshare(CLONE_NEWUSER), 'ready', flush=True)
sys.stdin.readline()
";

#[test]
fn nobody_opens_any_more_when_the_process_has_to_have_one_thread() {
    let pair = or_skip!(Namespaces::pair());
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args(["-c", ALONE, &Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    let mut alone = started(command);
    let said = alone.process().stdout();
    assert!(said.contains("unshared: 0 "), "{said}");
}
