//! What packets cost that are received without a copy, or shown to a function first:
//! `cargo bench -p engine --bench extra_api`.
//!
//! Prints one line of JSON a case: the time for a datagram of 1472 octets over the null device, in
//! mode 0. With `--case NAME` only that one, a fixed number of times, for callgrind.

#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::net::UdpSocket as KernelSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use dev_core::null::NullBackend;
use engine::{
    Callback, Engine, Message, PacketSink, RecvCall, RecvOutcome, Settings, UdpSocket, Verdict,
};

use support::{accelerate, engine, frame_to, header_of, settings};

const PAYLOAD: [u8; 1472] = [0x5a; 1472];
const BATCH: u32 = 20_000;
const BATCHES: usize = 60;

/// A socket on which datagrams arrive without end.
struct Host {
    engine: &'static Engine<NullBackend>,
    fd: RawFd,
    socket: &'static UdpSocket<NullBackend>,
}

type Case = (&'static str, Option<Verdict>, fn(&Host, Verdict));

/// The second is what a function says that sees the datagrams.
const CASES: [Case; 5] = [
    ("recvfrom", None, |host, _| host.receive(&mut None)),
    ("recvfrom_zcopy", None, |host, _| host.receive_whole()),
    ("callback_receive", Some(Verdict::Receive), Host::call),
    ("callback_drop", Some(Verdict::Drop), Host::show),
    ("callback_hold", Some(Verdict::Hold), Host::show),
];

fn main() {
    let mut arguments = std::env::args().skip_while(|it| it != "--case").skip(1);
    let only = arguments.next();
    for (name, verdict, call) in CASES {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let host = Host::new(verdict.is_some());
        let verdict = verdict.unwrap_or(Verdict::Drop);
        let batch = || {
            let begun = Instant::now();
            (0..BATCH).for_each(|_| call(&host, verdict));
            begun.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
        };
        batch();
        let batches = if only.is_some() { 1 } else { BATCHES };
        let mut times: Vec<_> = (0..batches).map(|_| batch()).collect();
        times.sort_by(f64::total_cmp);
        let nsec = times[times.len() / 2];
        println!("{{\"name\":\"{name}\",\"nsec\":{nsec:.1}}}");
    }
}

/// What a program's function may look like.
#[inline(never)]
fn look(data: *const u8, len: usize) -> bool {
    black_box(data);
    len > 64
}

impl Host {
    fn new(is_shown: bool) -> Self {
        let kernel = KernelSocket::bind("0.0.0.0:0").expect("a UDP socket");
        let kernel: &KernelSocket = Box::leak(Box::new(kernel));
        let device = NullBackend::default();
        device.inject_endlessly(&frame_to(kernel, &PAYLOAD));
        let settings = Settings {
            thread_mode: dev_core::ThreadMode::Single,
            ..settings()
        };
        let engine = engine(settings, &device);
        let socket = accelerate(engine, kernel);
        if is_shown {
            let callback = Callback {
                function: 0,
                context: 0,
            };
            engine
                .show_packets(socket, Some(callback))
                .expect("it is ours");
        }
        let fd = kernel.as_raw_fd();
        Self { engine, fd, socket }
    }

    /// One attempt, as a hook makes it.
    fn attempt(&self, call: &mut RecvCall, sink: &mut Option<PacketSink>) -> bool {
        let mut buffer = std::mem::MaybeUninit::<[u8; 2048]>::uninit();
        let mut name = [0u8; 16];
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: 2048,
        };
        let mut header = header_of(&mut part, &mut name);
        // SAFETY: the header points at live buffers of the lengths that it says.
        let mut message = unsafe { Message::with_sink(&mut header, sink.as_mut()) };
        match self.socket.receive(self.engine, call, &mut message, 0) {
            RecvOutcome::Done(len) => {
                assert_eq!(black_box(len), PAYLOAD.len());
                true
            }
            RecvOutcome::Again => false,
            other => panic!("{other:?}"),
        }
    }

    fn receive(&self, sink: &mut Option<PacketSink>) {
        let mut call = RecvCall::begin(self.engine, self.fd, self.socket, 0);
        while !self.attempt(&mut call, sink) {}
    }

    fn receive_whole(&self) {
        let mut sink = Some(PacketSink::new(1, false));
        self.receive(&mut sink);
        let sink = sink.unwrap_or_else(|| unreachable!());
        for packet in self.engine.hold_packets(self.socket, sink) {
            black_box(packet.data);
            let ids = std::iter::once([packet.id, 0]);
            self.engine
                .free_packets(self.socket, ids)
                .expect("it is held");
        }
    }

    /// Shows what waits for that, as a hook does; says how many there were.
    fn show_some(&self, verdict: Verdict) -> u32 {
        let mut count = 0;
        while let Some(shown) = self.engine.next_unseen() {
            look(shown.data, shown.len);
            self.engine.settle(&shown, verdict);
            count += 1;
            if verdict == Verdict::Hold {
                let ids = std::iter::once([shown.id, 0]);
                self.engine
                    .free_packets(self.socket, ids)
                    .expect("it is held");
            }
        }
        count
    }

    /// A call on a socket whose function wants all of its datagrams received.
    fn call(&self, verdict: Verdict) {
        let mut call = RecvCall::begin(self.engine, self.fd, self.socket, 0);
        while !self.attempt(&mut call, &mut None) {
            self.show_some(verdict);
        }
    }

    /// Until one datagram was shown, or some that came at once: a datagram's time is an average.
    fn show(&self, verdict: Verdict) {
        thread_local! {
            static SHOWN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
        }
        if SHOWN.get() > 0 {
            return SHOWN.set(SHOWN.get() - 1);
        }
        let mut call = RecvCall::begin(self.engine, self.fd, self.socket, 0);
        let mut count = 0;
        while count == 0 {
            assert!(!self.attempt(&mut call, &mut None));
            count = self.show_some(verdict);
        }
        SHOWN.set(count - 1);
    }
}
