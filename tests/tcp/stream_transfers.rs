//! sendfile(2) and splice(2) on streams, on the kernel and with the library, which keeps them.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use testkit::{
    Comparison, Namespace, Namespaces, Pair, Running, SOON, Skip, THREADED_VARIANTS, eventually,
    or_skip, preloaded,
};

const PORT: u16 = 7102;

fn program() -> PathBuf {
    testkit::c_program("stream_transfers")
}

/// A peer that does what the first line says:
///
/// * `sink`: receives to the end and says how many octets there were, with a hash; `count` leaves
///   that out;
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

/// nginx with `sendfile` and `tcp_nopush`: what it serves is whole, and no connection goes to the
/// kernel.
#[test]
fn nginx_keeps_its_connections() {
    const NGINX: &str = "/usr/sbin/nginx";
    const LENS: [usize; 4] = [0, 1000, 100_000, 3_000_000];
    let pair = or_skip!(Namespaces::pair());
    if !Path::new(NGINX).exists() {
        return testkit::skip(Skip::new("nginx is not installed (cargo xtask setup)"));
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stream-transfers-nginx");
    let shown = home.display();
    fs::create_dir_all(home.join("www")).unwrap();
    for len in LENS {
        fs::write(home.join(format!("www/{len}")), octets(len)).unwrap();
    }
    let conf = format!(
        "daemon off; master_process off; pid {shown}/pid; error_log {shown}/errors; user root;
        events {{ }}
        http {{
            access_log off; sendfile on; tcp_nopush on; client_body_temp_path {shown}/b;
            proxy_temp_path {shown}/p; fastcgi_temp_path {shown}/f; uwsgi_temp_path {shown}/u;
            scgi_temp_path {shown}/s; server {{ listen {}:80; root {shown}/www; }}
        }}",
        Pair::ADDRESS_B
    );
    fs::write(home.join("conf"), conf).unwrap();
    let mut command = preloaded(&pair.b, Path::new(NGINX)).unwrap();
    command.arg("-c").arg(home.join("conf"));
    command.arg("-e").arg(home.join("errors"));
    command.env("VMA_TRACELEVEL", "debug");
    let log = home.join("log");
    command.env("VMA_LOG_FILE", &log);
    fs::write(&log, "").unwrap();
    let server = Running::start(command).unwrap();
    let connect = || pair.a.enter(|| TcpStream::connect((Pair::ADDRESS_B, 80)));
    assert!(
        eventually(SOON, || connect().is_ok()),
        "{}",
        server.stderr()
    );
    let stream = connect().unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut input = BufReader::new(&stream);
    for len in [LENS, LENS].concat() {
        (&mut &stream)
            .write_all(format!("GET /{len} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .unwrap();
        let mut line = String::new();
        input.read_line(&mut line).unwrap();
        assert!(line.contains("200 OK"), "{line}");
        while line != "\r\n" {
            line.clear();
            input.read_line(&mut line).unwrap();
        }
        let mut body = vec![0; len];
        input.read_exact(&mut body).unwrap();
        assert!(body == octets(len), "{len} octets");
    }
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains("past the kernel"), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

fn octets(len: usize) -> Vec<u8> {
    (0..len as u64).map(octet).collect()
}

fn octet(at: u64) -> u8 {
    (at * 131 + (at >> 8) * 7 + (at >> 16)).to_le_bytes()[0]
}
