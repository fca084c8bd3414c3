//! A UDP peer on the kernel's sockets that does what datagrams tell it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::namespace::Namespace;
use crate::pair::Pair;

/// Threads of the test process with sockets in namespace `a`, ports 7000 and 7001.
///
/// * A datagram `S <count> <len> <delay_msec> <from> <port>` asks for `count` datagrams of `len`
///   bytes after
///   `delay_msec`, sent by socket `from` (0: port 7000, 1: port 7001) to the asker's address and `port`, or to the
///   asker's own port if that is 0. Byte `i` of datagram `k` is the letter `'a' + (k + i) % 26`.
/// * A datagram `C <port> <delay_msec>` asks for a TCP connection to the asker's address and `port`
///   after `delay_msec`. What comes through it is sent back, behind a first `c`.
/// * Any other datagram is answered with `got <length> <FNV-1a hash, hexadecimal>`.
#[derive(Debug)]
pub struct ScriptedPeer {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// How long a thread may take to notice that it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// How long a connection may take, and how long nothing may come through it.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

impl ScriptedPeer {
    /// The ports that listen.
    pub const PORTS: [u16; 2] = [7000, 7001];

    /// Starts the peer at [`Pair::ADDRESS_A`] in `namespace`.
    pub fn start(namespace: &Namespace) -> io::Result<Self> {
        Self::start_at(namespace, Pair::ADDRESS_A)
    }

    /// The same at another address.
    pub(crate) fn start_at(namespace: &Namespace, address: impl Into<IpAddr>) -> io::Result<Self> {
        let address: IpAddr = address.into();
        let bind = |port| {
            let socket = UdpSocket::bind((address, port))?;
            socket.set_read_timeout(Some(STOP_INTERVAL))?;
            Ok(Arc::new(socket))
        };
        let sockets: Vec<_> =
            namespace.enter(|| Self::PORTS.into_iter().map(bind).collect::<io::Result<_>>())?;
        let stop = Arc::new(AtomicBool::new(false));
        let serve = |index: usize| {
            let (stop, sockets) = (Arc::clone(&stop), sockets.clone());
            thread::spawn(move || serve(index, &sockets, &stop))
        };
        // Inside, for the connections that they make.
        let threads = namespace.enter(|| (0..sockets.len()).map(serve).collect());
        Ok(Self { stop, threads })
    }
}

impl Drop for ScriptedPeer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of a thread has been printed, and shows as an answer that did not come.
            drop(thread.join());
        }
    }
}

fn serve(index: usize, sockets: &[Arc<UdpSocket>], stop: &AtomicBool) {
    let mut buffer = vec![0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        // Also an ICMP error for what was sent to a program that has ended.
        let Ok((len, from)) = sockets[index].recv_from(&mut buffer) else {
            continue;
        };
        let data = &buffer[..len];
        if let Some((port, delay)) = connection_asked_for(data) {
            let to = SocketAddr::new(from.ip(), port);
            thread::spawn(move || echo_through_connection(to, delay));
        } else if let Some(script) = Script::parse(data) {
            let sender = Arc::clone(&sockets[script.from % sockets.len()]);
            thread::spawn(move || script.run(&sender, from));
        } else {
            let report = format!("got {len} {:08x}", fnv(data));
            drop(sockets[index].send_to(report.as_bytes(), from));
        }
    }
}

/// The port and the delay of a connection that is asked for.
fn connection_asked_for(data: &[u8]) -> Option<(u16, Duration)> {
    let numbers = std::str::from_utf8(data).ok()?.strip_prefix("C ")?;
    let (port, delay_msec) = numbers.split_once(' ')?;
    let delay = Duration::from_millis(delay_msec.parse().ok()?);
    Some((port.parse().ok()?, delay))
}

fn echo_through_connection(to: SocketAddr, delay: Duration) {
    thread::sleep(delay);
    // A program that has ended, or ends meanwhile, has said by then what is compared.
    if let Ok(mut connection) = TcpStream::connect_timeout(&to, CONNECTION_TIMEOUT)
        && connection
            .set_read_timeout(Some(CONNECTION_TIMEOUT))
            .is_ok()
        && connection.write_all(b"c").is_ok()
    {
        let mut buffer = [0; 65_536];
        while let Ok(len @ 1..) = connection.read(&mut buffer) {
            if connection.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Script {
    count: usize,
    len: usize,
    delay: Duration,
    from: usize,
    port: u16,
}

impl Script {
    fn parse(data: &[u8]) -> Option<Self> {
        let numbers = std::str::from_utf8(data).ok()?.strip_prefix("S ")?;
        let numbers: Vec<u16> = numbers
            .split(' ')
            .map(|number| number.parse().ok())
            .collect::<Option<_>>()?;
        let [count, len, delay_msec, from, port] = numbers[..] else {
            return None;
        };
        Some(Self {
            count: count.into(),
            len: len.into(),
            delay: Duration::from_millis(delay_msec.into()),
            from: from.into(),
            port,
        })
    }

    fn run(&self, sender: &UdpSocket, mut to: SocketAddr) {
        if self.port != 0 {
            to.set_port(self.port);
        }
        thread::sleep(self.delay);
        for datagram in 0..self.count {
            let letters: Vec<u8> = (b'a'..=b'z')
                .cycle()
                .skip(datagram % 26)
                .take(self.len)
                .collect();
            if sender.send_to(&letters, to).is_err() {
                // An ICMP error of an earlier datagram; it is not repeated.
                drop(sender.send_to(&letters, to));
            }
        }
    }
}

/// FNV-1a, 32 bits.
fn fnv(data: &[u8]) -> u32 {
    data.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_five_numbers() {
        let script = Script {
            count: 2,
            len: 10,
            delay: Duration::from_millis(50),
            from: 1,
            port: 0,
        };
        assert_eq!(Script::parse(b"S 2 10 50 1 0"), Some(script));
        for other in [&b"S 2 10 50 1"[..], b"S a 1 1 1 1", b"hello", b"", b"\xff"] {
            assert_eq!(Script::parse(other), None);
        }
    }

    #[test]
    fn a_connection_is_a_port_and_a_delay() {
        let asked = Some((7400, Duration::from_millis(100)));
        assert_eq!(connection_asked_for(b"C 7400 100"), asked);
        for other in [
            &b"C 7400"[..],
            b"C 70000 1",
            b"S 2 10 50 1 0",
            b"c",
            b"\xff",
        ] {
            assert_eq!(connection_asked_for(other), None);
        }
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv(b""), 0x811c_9dc5);
        assert_eq!(fnv(b"foobar"), 0xbf9c_f968);
    }
}
