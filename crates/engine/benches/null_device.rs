//! What the socket layer costs a message and direction, without a device: `cargo bench -p engine --bench null_device`.
//!
//! Prints one line of JSON a case: the median over batches of the time for one call with a datagram
//! of 64 bytes, the null device's own copy included.

#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::net::UdpSocket as KernelSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use dev_core::null::NullBackend;
use engine::{Engine, Message, RecvCall, RecvOutcome, SendOutcome, Settings, UdpSocket};

use support::{PEER, accelerate, engine, frame_to, header_of, settings};

const PAYLOAD: [u8; 64] = [0x5a; 64];
const BATCH: u32 = 20_000;
const BATCHES: usize = 20;
/// Batches with `--quick`, for counting instructions under callgrind.
const BATCHES_QUICK: usize = 1;
/// Engines that are made one after the other.
const ENGINES: usize = 5;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let batches = if quick { BATCHES_QUICK } else { BATCHES };
    for mode in [dev_core::ThreadMode::Single, dev_core::ThreadMode::SpinLock] {
        let suffix = if mode == dev_core::ThreadMode::Single {
            ""
        } else {
            "_locked"
        };
        let (mut received, mut sent) = (Vec::new(), Vec::new());
        // Where frames and buffers happen to lie in memory matters by tens of nanoseconds, so each
        // engine is one sample.
        for _ in 0..ENGINES {
            let (engine, fd, socket) = set_up(mode);
            let mut buffer = [0u8; 2048];
            received.extend(measure(batches, || {
                receive(engine, fd, socket, &mut buffer)
            }));
            sent.extend(measure(batches, || send(engine, fd, socket)));
        }
        println!(
            "{{\"name\":\"receive{suffix}\",\"nsec\":{:.1}}}",
            median(received)
        );
        println!("{{\"name\":\"send{suffix}\",\"nsec\":{:.1}}}", median(sent));
    }
}

/// The time of a call in each batch, in nanoseconds, after a batch for warming up.
fn measure(batches: usize, mut call: impl FnMut()) -> Vec<f64> {
    let mut batch = || {
        let begun = Instant::now();
        (0..BATCH).for_each(|_| call());
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(BATCH)
    };
    batch();
    (0..batches).map(|_| batch()).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn set_up(
    thread_mode: dev_core::ThreadMode,
) -> (
    &'static Engine<NullBackend>,
    RawFd,
    &'static UdpSocket<NullBackend>,
) {
    let kernel = KernelSocket::bind("0.0.0.0:0").expect("a UDP socket");
    let kernel: &KernelSocket = Box::leak(Box::new(kernel));
    let device = NullBackend::default();
    device.inject_endlessly(&frame_to(kernel, &PAYLOAD));
    let settings = Settings {
        thread_mode,
        ..settings()
    };
    let engine = engine(settings, &device);
    (engine, kernel.as_raw_fd(), accelerate(engine, kernel))
}

fn receive(
    engine: &Engine<NullBackend>,
    fd: RawFd,
    socket: &'static UdpSocket<NullBackend>,
    buffer: &mut [u8; 2048],
) {
    let mut name = [0u8; 16];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut header = header_of(&mut part, &mut name);
    let mut call = RecvCall::begin(engine, fd, socket, 0);
    // SAFETY: the header points at live buffers of the lengths that it says.
    let mut message = unsafe { Message::new(&mut header) };
    match socket.receive(engine, &mut call, &mut message, 0) {
        RecvOutcome::Done(len) => assert_eq!(black_box(len), PAYLOAD.len()),
        other => panic!("{other:?}"),
    }
}

fn send(engine: &Engine<NullBackend>, fd: RawFd, socket: &'static UdpSocket<NullBackend>) {
    let mut payload = PAYLOAD;
    let mut name = [0u8; 16];
    name[..2].copy_from_slice(&libc::AF_INET.to_ne_bytes()[..2]);
    name[2..4].copy_from_slice(&PEER.port().to_be_bytes());
    name[4..8].copy_from_slice(&PEER.ip().octets());
    let mut part = libc::iovec {
        iov_base: payload.as_mut_ptr().cast(),
        iov_len: payload.len(),
    };
    let mut header = header_of(&mut part, &mut name);
    // SAFETY: the header points at live buffers of the lengths that it says.
    let message = unsafe { Message::new(&mut header) };
    assert_eq!(
        socket.send(engine, fd, &message, 0, engine::Follows::Unknown),
        SendOutcome::Done(PAYLOAD.len())
    );
}
