//! Datagrams that leave at a rate (`SO_MAX_PACING_RATE`) or at times of their own (`SO_TXTIME`), as
//! the peer sees them.

use std::net::UdpSocket;
use std::time::Duration;

use testkit::{Comparison, Pair, Running, SOON, c_program_with, or_skip};

const HEADERS: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../packaging/include");
const PORT: u16 = 7701;
const SINK_PORT: u16 = 7090;
/// Bytes of the frames.
const FRAME: u64 = 1514;

/// What came: what short datagrams say, and when each came in nanoseconds.
struct Received {
    letters: String,
    nsec: Vec<u64>,
}

/// Runs the sender with the library, and the receiver on the kernel of its peer. Returns what the
/// sender says, and what came.
fn run(comparison: &Comparison, arguments: &[&str]) -> (String, Received) {
    let program = c_program_with("paced", &[HEADERS]);
    let port = PORT.to_string();
    let mut command = comparison.pair.a.command(&program);
    command.args(["receive", &port]);
    let mut receiver = Running::start(command).unwrap();
    assert!(receiver.wait_for_output("ready", SOON));
    let mut all = vec![arguments[0], &port];
    all.extend(&arguments[1..]);
    let sent = comparison.preloaded(&program, &all, &[]).unwrap();
    assert!(sent.status.success(), "{sent:?}");
    assert!(receiver.wait_for_output("received", SOON));
    let received = receiver.wait(SOON).unwrap().stdout;
    let mut lines = received.lines().skip(1);
    let letters = lines.next().unwrap().to_owned();
    let nsec = lines.filter_map(|line| line.parse().ok()).collect();
    (sent.stdout, Received { letters, nsec })
}

/// The mean rate in millionths of the one that was asked for, and how many bytes a bucket must have
/// held that is filled at that rate.
fn measured(nsec: &[u64], kbps: u64) -> (u64, u64) {
    let bytes_of = |time: u64| time * kbps / 8_000_000;
    let time = nsec.last().unwrap() - nsec[0];
    let count = nsec.len() as u64 - 1;
    let (mut level, mut most, mut last) = (0_u64, 0, nsec[0]);
    for at in nsec {
        level = level.saturating_sub(bytes_of(at - last)) + FRAME;
        most = most.max(level);
        last = *at;
    }
    (count * FRAME * 1_000_000 / bytes_of(time), most)
}

/// Others load the machine: one quiet run of several is enough. The exact figures are in
/// docs/measurements.
const ATTEMPTS: usize = 8;

/// Sends for half a second. `Err`: the rate was not kept.
fn keeps_rate(comparison: &Comparison, (kbps, burst): (u64, u64), how: &str) -> Result<(), String> {
    let (kbps_text, burst_text) = (kbps.to_string(), burst.to_string());
    let (said, received) = run(comparison, &["send", &kbps_text, &burst_text, "500", how]);
    let sent = said["sent ".len()..].split(',').next().unwrap();
    assert_eq!(received.nsec.len().to_string(), sent, "all have come");
    let waits = !said.contains("waited 0");
    assert_eq!(waits, how != "blocking", "{said}");
    let (mean, _) = measured(&received.nsec, kbps);
    // Without a bound, what is late is made up for at twice the rate.
    let most_kbps = if burst == 0 { 2 * kbps } else { kbps };
    let (_, bucket) = measured(&received.nsec, most_kbps);
    // A frame that is on its way when its thread is held up comes close to the next.
    let held_up = 2_000_000 * most_kbps / 8_000_000;
    // The first burst comes on top.
    let mean_max = 1_010_000 + burst * 1_000_000 / (received.nsec.len() as u64 * FRAME);
    let is_kept = (900_000..=mean_max).contains(&mean) && bucket <= burst + 2 * FRAME + held_up;
    match is_kept {
        true => Ok(()),
        false => Err(format!("mean {mean}, bucket {bucket}")),
    }
}

#[test]
fn a_rate_is_kept_whoever_waits_and_however() {
    let comparison = or_skip!(Comparison::new());
    for (rate, how) in [
        ((10_000, 0), "blocking"),
        ((10_000, 30_280), "poll"),
        ((100_000, 0), "epoll"),
        ((100_000, 30_280), "blocking"),
        ((1_000_000, 0), "blocking"),
    ] {
        let mut seen = Vec::new();
        while let Err(other) = keeps_rate(&comparison, rate, how) {
            seen.push(other);
            assert!(seen.len() < ATTEMPTS, "{rate:?} {how}: {seen:?}");
        }
    }
}

/// As from the kernel's queue.
#[test]
fn what_waits_leaves_although_its_sender_has_gone() {
    let comparison = or_skip!(Comparison::new());
    for how in ["exit", "close", "exec"] {
        let (_, received) = run(&comparison, &["leave", how]);
        assert_eq!(received.nsec.len(), 50, "{how}");
        // Held up, perhaps, but not all at once.
        let (mean, _) = measured(&received.nsec, 10_000);
        assert!(mean <= 1_010_000, "{how}: {mean}");
    }
}

#[test]
fn datagrams_leave_at_times_of_their_own() {
    let comparison = or_skip!(Comparison::new());
    let (said, received) = run(&comparison, &["times"]);
    let (begun, said) = said.split_once('\n').unwrap();
    let begun: u64 = begun.parse().unwrap();
    assert_eq!(
        said,
        "without a clock: -1 EINVAL\n\
         a clock: 0\n\
         third: 2\n\
         first: 2\n\
         second: 2\n\
         another clock: 0\n\
         fourth: 2\n\
         too far ahead: 2\n\
         as soon as possible: 2\n"
    );
    assert_eq!(received.letters, "aabcd");
    for (index, msec) in [(2, 30), (3, 60), (4, 90)] {
        let passed = Duration::from_nanos(received.nsec[index] - begun);
        let least = Duration::from_millis(msec);
        assert!(passed >= least && passed < SOON, "{index}: {passed:?}");
    }
}

/// Somebody who takes what is sent, and says nothing.
fn sink(comparison: &Comparison) -> UdpSocket {
    let bind = || UdpSocket::bind((Pair::ADDRESS_A, SINK_PORT)).unwrap();
    comparison.pair.a.enter(bind)
}

/// Without a queueing discipline of the kernel's that knows of rates: that is what differs.
#[test]
fn options_are_the_kernels() {
    let comparison = or_skip!(Comparison::new());
    let _sink = sink(&comparison);
    let program = c_program_with("paced", &[HEADERS]);
    let on_kernel = comparison.on_kernel(&program, &["says"]).unwrap();
    let here = comparison.preloaded(&program, &["says"], &[]).unwrap();
    assert!(on_kernel.status.success(), "{on_kernel:?}");
    assert_eq!(here.stdout, on_kernel.stdout);
}

#[test]
fn a_full_send_buffer_makes_calls_wait() {
    let comparison = or_skip!(Comparison::new());
    let _sink = sink(&comparison);
    let program = c_program_with("paced", &[HEADERS]);
    let finished = comparison.preloaded(&program, &["full"], &[]).unwrap();
    assert_eq!(
        finished.stdout,
        "set: 0\n\
         get: 0\n  2000 1472 1472 in 12\n\
         get: 0\n  250000 in 4\n\
         poll: 1\n\
         epoll: 1\n\
         sent 21\n\
         poll: 0\n\
         epoll: 0\n\
         select: 0\n\
         poll: 1\n\
         poll waited as asked\n\
         epoll: 1\n\
         epoll waited as asked\n\
         send: 1472\n\
         send waited as asked\n\
         soon 1\n\
         send: -1 EAGAIN\n\
         send waited as asked\n\
         send: -1 EINTR\n\
         no rate: 0\n\
         poll: 1\n\
         send: 1472\n"
    );
}
