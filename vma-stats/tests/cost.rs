//! What the program costs beside a process with a thousand sockets, and how soon it shows
//! something.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stats::{Capacity, Identity, Segment, SocketSlot};

mod support;

use support::Terminal;

const SOCKETS: u32 = 1000;
const CAPACITY: Capacity = Capacity {
    sockets: SOCKETS,
    connections: SOCKETS,
    rings: 1,
    pools: 1,
    reasons: 2,
    settings: 2,
    rules: 2,
};
/// Without optimisation everything takes many times as long.
const FACTOR: u32 = if cfg!(debug_assertions) { 10 } else { 1 };
/// Of a CPU, in thousandths, at one look a second.
const PERMILLE_MAX: u32 = 20 * FACTOR;
const FIRST_SCREEN_MAX: Duration = Duration::from_millis(100 * FACTOR as u64);
const MEASURED: Duration = Duration::from_secs(if cfg!(debug_assertions) { 3 } else { 10 });

/// A thousand sockets, all of them busy.
fn publish(dir: &Path) -> (Segment, Vec<SocketSlot>) {
    let segment = Segment::create(dir, &Identity::of_this_process("0.1.0"), CAPACITY).unwrap();
    let sockets = (0..SOCKETS).map(|number| {
        let socket = segment.claim_socket();
        socket.fd.set(number.cast_signed() + 10);
        socket.protocol.set(stats::PROTOCOL_UDP);
        let port = 10_000 + u16::try_from(number).unwrap();
        socket.local.set(([10, 1, 2, 3], port).into());
        socket.set_offloaded();
        socket
    });
    let sockets = sockets.collect();
    (segment, sockets)
}

/// CPU time of a process so far: its own and that of children that it has waited for.
fn cpu_time(pid: u32) -> Duration {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = line.rsplit_once(')').unwrap();
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    // Clock ticks are hundredths of a second on every Linux that runs this.
    Duration::from_millis(ticks * 10)
}

/// Counts in every socket until the measurement is over.
fn busy<T>(sockets: &[SocketSlot], measure: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for socket in sockets {
                    socket.rx_packets.add(7);
                    socket.rx_bytes.add(700);
                    socket.tx_packets.add(1);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let measured = measure();
        done.store(true, Ordering::Relaxed);
        measured
    })
}

#[allow(clippy::print_stdout, reason = "what was measured")]
fn expect_cheap(what: &str, pid: u32) {
    let (before, begun) = (cpu_time(pid), Instant::now());
    std::thread::sleep(MEASURED);
    let (used, passed) = (cpu_time(pid) - before, begun.elapsed());
    let permille = used.as_secs_f64() / passed.as_secs_f64() * 1000.0;
    println!("{what}: {permille:.1} thousandths of a CPU");
    assert!(
        permille < f64::from(PERMILLE_MAX),
        "{what}: {used:?} in {passed:?}"
    );
}

/// The program on a terminal, with its statistics in `dir`.
fn start(dir: &Path, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
    let program = Path::new(env!("CARGO_BIN_EXE_vma_stats"));
    let dir = dir.to_str().unwrap();
    Terminal::start(program, &[&["-k", dir], arguments].concat(), columns, rows)
}

#[test]
fn screens_of_a_thousand_sockets_cost_little_and_come_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_segment, sockets) = publish(dir.path());
    busy(&sockets, || {
        let mut first_screens = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let mut terminal = start(dir.path(), &["-i", "1"], 200, 60);
            terminal.wait_for(|text| text.contains("10.1.2.3:10000"));
            first_screens.push(begun.elapsed());
            terminal.press("q");
            assert!(terminal.ended());
        }
        first_screens.sort_unstable();
        println_times(&first_screens);
        assert!(first_screens[2] < FIRST_SCREEN_MAX, "{first_screens:?}");
        let mut terminal = start(dir.path(), &["-i", "1"], 200, 60);
        terminal.wait_for(|text| text.contains("10.1.2.3:10000"));
        expect_cheap("screens", terminal.pid());
        terminal.press("q");
        assert!(terminal.ended());
    });
}

#[allow(clippy::print_stdout, reason = "what was measured")]
fn println_times(times: &[Duration]) {
    println!("first screen after {times:?}");
}

#[test]
fn tables_and_json_of_a_thousand_sockets_cost_little() {
    let dir = tempfile::tempdir().unwrap();
    let (_segment, sockets) = publish(dir.path());
    busy(&sockets, || {
        for arguments in [&["-v", "1"][..], &["--json", "-d", "2"]] {
            let mut program = Reaped(
                Command::new(env!("CARGO_BIN_EXE_vma_stats"))
                    .args(["-i", "1", "-k"])
                    .arg(dir.path())
                    .args(arguments)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap(),
            );
            let mut output = program.0.stdout.take().unwrap();
            let reading = std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while output.read(&mut buffer).is_ok_and(|len| len > 0) {}
            });
            std::thread::sleep(Duration::from_millis(1500));
            expect_cheap(&arguments.join(" "), program.0.id());
            drop(program);
            reading.join().unwrap();
        }
    });
}

struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
