//! The echo service (RFC 862) at the peer's end, over UDP and TCP, and one that connects back;
//! without the library.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::namespace::Namespace;

const PORT: u16 = 7;

/// How long the end of the service may take.
const INTERVAL: Duration = Duration::from_millis(5);

/// The service. It ends when this is dropped.
#[derive(Debug)]
pub struct Echo {
    stop: Arc<AtomicBool>,
}

impl Echo {
    /// Starts it on an address of a namespace.
    ///
    /// # Errors
    ///
    /// The sockets cannot be made.
    pub fn start(namespace: &Namespace, address: impl Into<IpAddr>) -> io::Result<Self> {
        let address = address.into();
        let sockets = || -> io::Result<_> {
            Ok((
                UdpSocket::bind((address, PORT))?,
                TcpListener::bind((address, PORT))?,
            ))
        };
        let (udp, tcp) = namespace.enter(sockets)?;
        udp.set_read_timeout(Some(INTERVAL))?;
        tcp.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || serve_datagrams(&udp, &stopped));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || serve_streams(&tcp, &stopped));
        Ok(Self { stop })
    }
}

/// The service over TCP alone, at a port of the caller's, for as long as the test runs.
///
/// # Errors
///
/// The socket cannot be made.
pub fn echo_streams(
    namespace: &Namespace,
    address: impl Into<IpAddr>,
    port: u16,
) -> io::Result<()> {
    let address = address.into();
    let listener = namespace.enter(|| TcpListener::bind((address, port)))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || echo_to_the_end(stream));
        }
    });
    Ok(())
}

fn echo_to_the_end(mut stream: TcpStream) {
    let mut buffer = [0; 30_000];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..len]).is_err() {
            return;
        }
    }
    drop(stream.shutdown(Shutdown::Write));
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn serve_datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = vec![0; 65536];
    while !stop.load(Ordering::Relaxed) {
        // Errors are time-outs, and those of clients that are gone.
        if let Ok((len, client)) = socket.recv_from(&mut buffer) {
            drop(socket.send_to(&buffer[..len], client));
        }
    }
}

fn serve_streams(listener: &TcpListener, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => drop(thread::spawn(move || serve_stream(&stream))),
            Err(_) => thread::sleep(INTERVAL),
        }
    }
}

fn serve_stream(stream: &TcpStream) {
    // The accepted socket does not inherit the mode (accept(2)). Errors are those of clients that
    // are gone.
    let (mut from, mut to) = (stream, stream);
    drop(io::copy(&mut from, &mut to));
}

/// Serves streams at an address of the namespace: connects back to whoever connects and says a port
/// and a letter, and says the letter there. Answers `c` as soon as it is connected, `r` if nobody
/// listens.
///
/// # Panics
///
/// If the address is taken.
pub fn call_back_streams(namespace: &Namespace, address: Ipv4Addr, port: u16) {
    const SOON: Duration = Duration::from_secs(5);
    let serve = |listener: TcpListener| {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut order = String::new();
            BufReader::new(&stream).read_line(&mut order).unwrap();
            let (port, letter) = order.trim().split_once(' ').unwrap();
            let mut peer = stream.peer_addr().unwrap();
            peer.set_port(port.parse().unwrap());
            let called = TcpStream::connect_timeout(&peer, SOON)
                .and_then(|mut called| called.write_all(letter.as_bytes()));
            let answer = if called.is_ok() { b"c" } else { b"r" };
            stream.write_all(answer).unwrap();
        }
    };
    // A thread is in the namespace of the one that starts it.
    namespace.enter(|| {
        let listener = TcpListener::bind((address, port)).unwrap();
        thread::spawn(move || serve(listener));
    });
}
