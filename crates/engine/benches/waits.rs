//! What a round of a server costs that waits before it reads: `poll` or `epoll_wait`, `recvfrom`
//! and `sendto` through the socket layer and the null device. `cargo bench -p engine --bench
//! waits`.
//!
//! Prints one line of JSON a case: the median over batches of the time for one round with a
//! datagram of 64 bytes. Each wait finds one. With `--quick` for counting instructions under
//! callgrind, and with the name of a case for that case alone.

#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::net::UdpSocket as KernelSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

use dev_core::null::NullBackend;
use engine::{
    Engine, Message, MuxCall, MuxOutcome, Object, RecvCall, RecvOutcome, SendOutcome, UdpSocket,
};
use libc::{epoll_event, pollfd};

use support::{PEER, accelerate, engine, frame_to, header_of, settings};

const PAYLOAD: [u8; 64] = [0x5a; 64];
const BATCH: u32 = 20_000;
const BATCHES: usize = 20;
const BATCHES_QUICK: usize = 1;
/// Engines that are made one after the other.
const ENGINES: usize = 5;

/// A way to wait.
type Wait = fn(&Server);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let batches = if quick { BATCHES_QUICK } else { BATCHES };
    let cases: [(&str, Wait); 3] = [
        ("recvfrom", |_| ()),
        ("poll", Server::poll),
        ("epoll", Server::epoll),
    ];
    let is_asked_for = |name: &str| {
        let mut names = arguments.iter().filter(|it| !it.starts_with('-'));
        arguments.iter().all(|it| it.starts_with('-')) || names.any(|it| it == name)
    };
    for (name, wait) in cases.into_iter().filter(|(name, _)| is_asked_for(name)) {
        let mut times = Vec::new();
        // Where frames and buffers happen to lie in memory matters by tens of nanoseconds, so each
        // engine is one sample.
        for _ in 0..ENGINES {
            let server = Server::new(name == "epoll");
            let mut buffer = [0u8; 2048];
            let mut batch = || {
                let begun = Instant::now();
                for _ in 0..BATCH {
                    wait(&server);
                    server.answer(black_box(&mut buffer));
                }
                begun.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
            };
            batch();
            times.extend((0..batches).map(|_| batch()));
        }
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!("{{\"name\":\"{name}\",\"nsec\":{median:.1}}}");
    }
}

/// A socket to which somebody sends without end, and an epoll set, in which the engine knows it if
/// it is to be watched.
struct Server {
    engine: &'static Engine<NullBackend>,
    fd: RawFd,
    socket: &'static UdpSocket<NullBackend>,
    epoll: OwnedFd,
}

impl Server {
    fn new(is_watched: bool) -> Self {
        let kernel = KernelSocket::bind("0.0.0.0:0").expect("a UDP socket");
        let kernel: &KernelSocket = Box::leak(Box::new(kernel));
        let device = NullBackend::default();
        device.inject_endlessly(&frame_to(kernel, &PAYLOAD));
        let engine = engine(settings(), &device);
        let (fd, socket) = (kernel.as_raw_fd(), accelerate(engine, kernel));
        // SAFETY: epoll_create1 takes an integer.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0);
        // SAFETY: the descriptor is new and ours alone.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        engine.epoll_created(epoll.as_raw_fd());
        let mut event = epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 1,
        };
        let operation = libc::EPOLL_CTL_ADD;
        // SAFETY: the event is readable.
        let added = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd, &raw mut event) };
        assert_eq!(added, 0);
        if is_watched {
            engine.epoll_changed(epoll.as_raw_fd(), operation, fd, Some(event));
        }
        Self {
            engine,
            fd,
            socket,
            epoll,
        }
    }

    fn poll(&self) {
        let mut fds = [pollfd {
            fd: self.fd,
            events: libc::POLLIN,
            revents: 0,
        }];
        let polled = self.engine.polled_sockets(&fds).expect("it is ours");
        let mut call = MuxCall::begin(self.engine.settings(), None, true);
        match self.engine.poll(&mut call, &mut fds, &polled) {
            MuxOutcome::Done(1) => assert_eq!(black_box(fds)[0].revents, libc::POLLIN),
            other => panic!("{other:?}"),
        }
    }

    fn epoll(&self) {
        let Some(Object::Epoll(set)) = self.engine.look_up(self.epoll.as_raw_fd()) else {
            panic!("a set with accelerated sockets is the engine's")
        };
        let mut events = [epoll_event { events: 0, u64: 0 }];
        let mut call = MuxCall::begin(self.engine.settings(), None, true);
        match self.engine.epoll_wait(set, &mut call, &mut events) {
            MuxOutcome::Done(1) => {
                let data = black_box(events)[0].u64;
                assert_eq!(data, 1);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reads a datagram, and sends it to where it came from.
    fn answer(&self, buffer: &mut [u8; 2048]) {
        let mut name = [0u8; 16];
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut header = header_of(&mut part, &mut name);
        let mut call = RecvCall::begin(self.engine, self.fd, self.socket, 0);
        // SAFETY: the header points at live buffers of the lengths that it says.
        let mut message = unsafe { Message::new(&mut header) };
        match self.socket.receive(self.engine, &mut call, &mut message, 0) {
            RecvOutcome::Done(len) => assert_eq!(len, PAYLOAD.len()),
            other => panic!("{other:?}"),
        }
        assert_eq!(name[4..8], PEER.ip().octets());
        part.iov_len = PAYLOAD.len();
        let mut header = header_of(&mut part, &mut name);
        // SAFETY: as above.
        let message = unsafe { Message::new(&mut header) };
        let follows = engine::Follows::Unknown;
        let sent = self.socket.send(self.engine, self.fd, &message, 0, follows);
        assert_eq!(sent, SendOutcome::Done(PAYLOAD.len()));
    }
}
