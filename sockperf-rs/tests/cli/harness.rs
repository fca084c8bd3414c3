//! Starting programs, and peers that misbehave on purpose.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::eventually;
pub(crate) use testkit::skip as skipped;

/// More than any step takes, on a machine that stands still at times.
const LONGEST: Duration = Duration::from_secs(60);

/// The original, as the distribution installs it.
pub(crate) const ORIGINAL: &str = "/usr/bin/sockperf";

/// Whether the original is there; says so when it is not.
pub(crate) fn has_original() -> bool {
    has("sockperf")
}

/// Whether a program is there; says so when it is not.
pub(crate) fn has(program: &str) -> bool {
    testkit::needs::require(&[program])
        .inspect_err(|skip| skipped(skip))
        .is_ok()
}

/// Does something with each item, all at the same time: most of these programs sleep most of the
/// time. Panics as the first that does.
pub(crate) fn at_the_same_time<T: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) + Sync,
) {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        for result in results {
            result.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        }
    });
}

/// Our program with these arguments, in a fixed environment.
pub(crate) fn ours(arguments: &str) -> Command {
    with_arguments(Command::new(env!("CARGO_BIN_EXE_sockperf-rs")), arguments)
}

/// The original with these arguments.
pub(crate) fn original(arguments: &str) -> Command {
    with_arguments(Command::new(ORIGINAL), arguments)
}

fn with_arguments(mut command: Command, arguments: &str) -> Command {
    command
        .args(arguments.split_whitespace())
        .env_remove("SEED")
        .env_remove("LD_PRELOAD");
    command
}

/// Runs a program to its end, which must come in time.
pub(crate) fn output(mut command: Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = pid(&child);
    let finished = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&finished);
    let watchdog = thread::spawn(move || {
        let start = Instant::now();
        while !watched.load(Ordering::Relaxed) {
            if start.elapsed() > LONGEST {
                kill_process(id, Signal::KILL).ok();
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    let output = child.wait_with_output().unwrap();
    finished.store(true, Ordering::Relaxed);
    watchdog.join().unwrap();
    output
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The text without colours.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

/// The number that follows `label` in `text`.
#[track_caller]
pub(crate) fn number_after(text: &str, label: &str) -> f64 {
    let rest = text
        .split_once(label)
        .unwrap_or_else(|| panic!("no {label:?} in:\n{text}"))
        .1;
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    rest[..end]
        .parse()
        .unwrap_or_else(|_| panic!("no number after {label:?} in:\n{text}"))
}

/// A running server process.
pub(crate) struct Server {
    child: Child,
    lines: Receiver<String>,
    pub(crate) text: String,
    pub(crate) port: u16,
}

impl Server {
    /// Starts our server on a port that the system chooses.
    pub(crate) fn ours(arguments: &str) -> Self {
        Self::start(ours(&format!("sr -i 127.0.0.1 -p 0 {arguments}")))
    }

    /// Starts the original on a port that was free a moment ago.
    pub(crate) fn original(arguments: &str) -> Self {
        let port = free_port();
        Self::start(original(&format!("sr -i 127.0.0.1 -p {port} {arguments}")))
    }

    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let (lines_tx, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if lines_tx.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Self {
            child,
            lines,
            text: String::new(),
            port: 0,
        };
        while !server.text.contains("[tid ") {
            server
                .read_line()
                .unwrap_or_else(|| panic!("not ready:\n{}", server.text));
        }
        // A Unix socket has none.
        if let Some((_, port)) = server.text.split_once("PORT =") {
            let (port, _) = port.trim_start().split_once(' ').unwrap();
            server.port = port.parse().unwrap();
        }
        server
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Sends a signal, waits for the end and returns the exit status and all of the output.
    pub(crate) fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(pid(&self.child), signal).unwrap();
        while self.read_line().is_some() {}
        let mut status = None;
        let has_ended = || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        };
        assert!(eventually(LONGEST, has_ended), "the server did not end");
        let status = status.expect("it has ended");
        (status.code(), plain(&std::mem::take(&mut self.text)))
    }

    /// Adds a line to the text; `None` after the last one, or when none comes for long.
    fn read_line(&mut self) -> Option<()> {
        let line = self.lines.recv_timeout(LONGEST).ok()?;
        self.text += &(line + "\n");
        Some(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // For tests that fail; after end() the process is gone and both calls have no effect.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

pub(crate) fn free_port() -> u16 {
    // Not one of those that the kernel gives to clients, of which tests run beside this one.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let of_process = (std::process::id() % 100) as u16 * 100;
    let is_free = |port: &u16| UdpSocket::bind(("127.0.0.1", *port)).is_ok();
    let mut candidates = (0..1000).map(|_| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % 1000;
        20_000 + (of_process + number) % 10_000
    });
    candidates
        .find(is_free)
        .expect("a thousand ports are not all taken")
}

/// A server in this process that answers each datagram as a function tells it to.
pub(crate) struct FakeServer {
    pub(crate) port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// `answer` gets the number of the test message (from 1, warm-up messages left out) and its
    /// bytes, and returns the datagrams to send back.
    pub(crate) fn start(
        mut answer: impl FnMut(u64, &[u8]) -> Vec<Vec<u8>> + Send + 'static,
    ) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let port = socket.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                let Ok((len, client)) = socket.recv_from(&mut buffer) else {
                    continue;
                };
                if buffer[9] & 4 != 0 {
                    continue;
                }
                number += 1;
                for reply in answer(number, &buffer[..len]) {
                    socket.send_to(&reply, client).unwrap();
                }
            }
        });
        Self {
            port,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || thread::panicking(),
                "the fake server panicked"
            );
        }
    }
}

/// The correct reply to a message.
pub(crate) fn echo(message: &[u8]) -> Vec<u8> {
    let mut reply = message.to_vec();
    reply[9] &= !1;
    reply
}
