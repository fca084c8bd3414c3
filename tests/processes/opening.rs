//! Interfaces are opened beside the program: a call waits no longer than `VMA_OPEN_WAIT_MSEC`, and
//! what has gone on with the kernel meanwhile goes over.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
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

/// Connects, and then once more when it is told to.
const CLIENT: &str = r"
import ctypes, socket, sys
def connection():
    s = socket.socket(fileno=ctypes.CDLL(None).socket(socket.AF_INET, socket.SOCK_STREAM, 0))
    s.connect((sys.argv[1], int(sys.argv[2])))
    s.sendall(b'question')
    assert s.recv(100) == b'question'
    return s
first = connection()
print('ready', flush=True)
sys.stdin.readline()
second = connection()
print('again', flush=True)
sys.stdin.readline()
";

#[test]
fn a_connection_that_did_not_wait_is_the_kernels() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.a, Pair::ADDRESS_A, PORT).unwrap();
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command.args([
        "-c",
        CLIENT,
        &Pair::ADDRESS_A.to_string(),
        &PORT.to_string(),
    ]);
    let mut client = started(command);
    let is_open = eventually(SOON, || !client.reader().rings().unwrap().is_empty());
    assert!(is_open, "{}", client.process().stderr());
    let mut input = client.process().stdin().unwrap();
    input.write_all(b"\n").unwrap();
    assert!(eventually(SOON, || client
        .process()
        .stdout()
        .contains("again")));
    let reasons = client.reader().reasons().unwrap();
    let named = |code| {
        reasons
            .iter()
            .find(|it| it.code == code)
            .unwrap()
            .name
            .as_str()
    };
    let seen: Vec<_> = client
        .sockets()
        .iter()
        .map(|it| named(it.reason).to_owned())
        .collect();
    assert_eq!(seen, ["the interface is being opened", "offloaded"]);
}
