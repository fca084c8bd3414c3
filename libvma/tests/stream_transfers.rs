//! sendfile(2) and splice(2) on streams, on the kernel and with the library, which keeps them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use testkit::{Comparison, Namespace, Pair, Skip, THREADED_VARIANTS, or_skip};

const PORT: u16 = 7102;

fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/stream_transfers.c");
    testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

/// A peer that does what the first line says:
///
/// * `sink`: receives to the end and says how many octets there were, with a hash; `count` leaves that out;
/// * `slow <msec>`: the same after a while;
/// * `first`: the same, with the length of what came first;
/// * `reset`: resets the connection;
/// * `say <count> <each> <msec>`: sends so many octets, so many at a time with pauses.
fn serve(namespace: &Namespace) {
    namespace.enter(|| {
        let listener = TcpListener::bind((Pair::ADDRESS_A, PORT)).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                // A program that has ended shows as an answer that did not come.
                thread::spawn(move || drop(obey(&stream)));
            }
        });
    });
}

fn obey(stream: &TcpStream) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, stream);
    let mut order = String::new();
    input.read_line(&mut order)?;
    let mut words = order.split_whitespace();
    let what = words.next().unwrap_or_default();
    let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
    match (what, &numbers[..]) {
        ("reset", []) => return reset(stream),
        ("say", &[count, each, msec]) => return say(stream, count, each, msec),
        ("slow", &[msec]) => thread::sleep(Duration::from_millis(msec)),
        _ => {}
    }
    let mut report = Vec::new();
    if what == "first" {
        let first = input.fill_buf()?.len();
        write!(report, "first {first} ")?;
        if first >= 1000 {
            (&mut &*stream).write_all(b".")?;
        }
    }
    let (mut total, mut hash) = (0, 0x811c_9dc5_u32);
    let mut buffer = vec![0; 1 << 16];
    while let count @ 1.. = input.read(&mut buffer)? {
        total += count;
        for octet in &buffer[..count] {
            hash = (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193);
        }
    }
    match what {
        "count" => write!(report, "got {total}")?,
        _ => write!(report, "got {total} {hash:08x}")?,
    }
    (&mut &*stream).write_all(&report)
}

/// The connection is reset when it is closed.
fn reset(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let len = libc::socklen_t::try_from(size_of_val(&linger)).unwrap();
    let (fd, on) = (stream.as_raw_fd(), (&raw const linger).cast());
    // SAFETY: the kernel reads one `struct linger`.
    match unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, on, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn say(mut stream: &TcpStream, count: u64, each: u64, msec: u64) -> io::Result<()> {
    let octet = |at: u64| (at * 131 + (at >> 8) * 7 + (at >> 16)).to_le_bytes()[0];
    let mut at = 0;
    while at < count {
        let end = count.min(at + each);
        let piece: Vec<u8> = (at..end).map(octet).collect();
        stream.write_all(&piece)?;
        thread::sleep(Duration::from_millis(msec));
        at = end;
    }
    Ok(())
}

fn stage() -> Result<Comparison, Skip> {
    let stage = Comparison::new()?;
    serve(&stage.pair.a);
    Ok(stage)
}

fn compared(case: &str) {
    let stage = or_skip!(stage());
    stage.assert_same(&program(), &[case], THREADED_VARIANTS);
}

/// A case after which the streams are still the library's.
fn kept(case: &str) {
    let stage = or_skip!(stage());
    stage.assert_same(&program(), &[case], THREADED_VARIANTS);
    let log = stage.preloaded(&program(), &[case], &[]).unwrap().stderr;
    assert!(log.contains(": past the kernel by "), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

macro_rules! cases {
    ($kind:ident: $($case:ident),*) => {
        $(
            #[test]
            fn $case() {
                $kind(stringify!($case));
            }
        )*
    };
}

cases!(kept: file_position, offset, blocking, nonblocking, edge, timed, interrupted);
cases!(kept: broken, coalesced, truncated, threads);
cases!(kept: pipe_to_stream, pipe_waits, pipe_nonblocking, pipe_broken);
cases!(kept: stream_to_pipe, stream_into_nothing, forwarded, cancelled);
cases!(compared: refused, special, append, file_by_pipe, handed_over);
