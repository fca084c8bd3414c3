//! A server that strangers talk to: it neither ends, nor spins, nor says more than it is told.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use sockperf_rs::message::{Flags, Header};

use crate::harness::{Server, echo};

/// Numbers that look random and are the same every time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap() % limit
    }

    /// Bytes of any length: mostly with a header that is nearly right.
    fn bytes(&mut self, longest: usize) -> Vec<u8> {
        let len = self.below(longest);
        let mut bytes: Vec<u8> = (0..len).map(|_| self.next().to_le_bytes()[0]).collect();
        if let (true, 1..) = (len >= 14, self.below(4)) {
            let claimed = match self.below(4) {
                0 => self.below(1 << 32),
                1 => 0,
                _ => len,
            };
            Header {
                sequence: self.next() >> self.below(64),
                flags: Flags(u16::from_le_bytes([self.next().to_le_bytes()[0], 0])),
                len: u32::try_from(claimed).unwrap(),
            }
            .write(&mut bytes);
        }
        for _ in 0..self.below(3) {
            let place = self.below(len.max(1));
            if let Some(byte) = bytes.get_mut(place) {
                *byte = self.next().to_le_bytes()[0];
            }
        }
        bytes
    }
}

/// CPU time of a process in ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let field = |number: usize| {
        fields
            .split(' ')
            .nth(number)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    field(11) + field(12)
}

/// It does nothing while nobody asks.
fn assert_idle(server: &Server) {
    let before = cpu_ticks(server.pid());
    thread::sleep(Duration::from_millis(500));
    let used = cpu_ticks(server.pid()) - before;
    assert!(used <= 10, "{used} ticks of CPU time in half a second");
}

/// Asks again every second: the queue of a server that is behind has no room for the question.
fn assert_answers(socket: &UdpSocket) {
    let mut probe = vec![0x55; 40];
    Header {
        sequence: 0x1234_5678_9abc,
        flags: Flags(3),
        len: 40,
    }
    .write(&mut probe);
    socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let mut buffer = [0; 65_536];
    for _ in 0..30 {
        socket.send(&probe).unwrap();
        while let Ok(len) = socket.recv(&mut buffer) {
            if buffer[..len] == echo(&probe) {
                return;
            }
        }
    }
    panic!("the server does not answer");
}

#[test]
fn datagrams_of_any_bytes() {
    let server = Server::ours("-g");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let (mut told, mut said) = (0, 0);
    let mut buffer = vec![0; 65_536];
    for _ in 0..20_000 {
        let bytes = noise.bytes(200);
        socket.send(&bytes).unwrap();
        told += bytes.len();
        while let Ok(len) = socket.recv(&mut buffer) {
            said += len;
        }
    }
    socket.set_nonblocking(false).unwrap();
    assert_answers(&socket);
    assert!(said > 1000 && said <= told, "{said} bytes for {told}");
    assert_idle(&server);
    let (code, text) = server.end(Signal::INT);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("# malformed datagrams = "), "{text}");
}

#[test]
fn streams_of_any_bytes() {
    let server = Server::ours("--tcp");
    let mut noise = Noise(0x2545_f491_4f6c_dd1d);
    let mut idle = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        let (mut told, mut said) = (0, 0);
        let mut buffer = vec![0; 65_536];
        for _ in 0..noise.below(6) {
            let bytes = noise.bytes(2000);
            // The server may have closed.
            if stream.write_all(&bytes).is_err() {
                break;
            }
            told += bytes.len();
            if let Ok(len) = stream.read(&mut buffer) {
                said += len;
            }
        }
        assert!(said <= told, "{said} bytes for {told}");
        // Some stay, with half a message.
        if number % 10 == 0 {
            idle.push(stream);
        }
    }
    assert_idle(&server);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut probe = vec![1; 50];
    Header {
        sequence: 1,
        flags: Flags(3),
        len: 50,
    }
    .write(&mut probe);
    stream.write_all(&probe).unwrap();
    let mut reply = [0; 50];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..], echo(&probe));
    drop(idle);
    let (code, text) = server.end(Signal::INT);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("# malformed streams = "), "{text}");
}
