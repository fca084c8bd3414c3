//! Nanoseconds per operation of the engine's parts, and how they grow with what there is: `cargo
//! bench -p tcp --bench parts`.

#![allow(clippy::print_stdout, reason = "the report of a benchmark")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "the inputs are constants that fit"
)]

#[path = "support/flows.rs"]
mod flows;

use std::hint::black_box;
use std::time::Duration;

use flows::{Random, local, remote};
use tcp::congestion::{Ack, Congestion, Reduction, Transmission};
use tcp::demux::Demux;
use tcp::pacing::Pacer;
use tcp::recovery::{Acknowledgement, Recovery, Scoreboard, Settings};
use tcp::rtt::RttEstimator;
use tcp::timer_wheel::TimerWheel;
use tcp::{CongestionAlgorithm, Instant, SecretKey, SeqNumber};

const MSS: u32 = 1448;
const RTT: Duration = Duration::from_micros(50);

fn main() {
    for algorithm in [
        CongestionAlgorithm::NewReno,
        CongestionAlgorithm::Cubic,
        CongestionAlgorithm::None,
    ] {
        congestion(algorithm);
    }
    rtt();
    for outstanding in [1, 10, 10_000] {
        scoreboard_in_order(outstanding);
    }
    for outstanding in [10, 10_000] {
        scoreboard_repeated_sack(outstanding);
        scoreboard_new_sack(outstanding);
    }
    for outstanding in [1, 10, 10_000] {
        recovery(outstanding);
    }
    for timers in [10, 1_000_000] {
        timer_wheel(timers);
    }
    for connections in [10, 10_000, 1_000_000] {
        demux(connections);
    }
    pacer();
    secrets();
}

/// Congestion avoidance, every segment acknowledged, the window in use.
fn congestion(algorithm: CongestionAlgorithm) {
    let mut congestion = Congestion::new(algorithm, MSS, 10);
    let mut now = Instant::ZERO;
    let mut una = SeqNumber(0);
    congestion.on_congestion_event(&reduction_at(now, una, una + 1));
    report(&format!("on_ack {}", algorithm.name()), 1, || {
        now = now + Duration::from_micros(1);
        una += MSS;
        let in_flight = congestion.cwnd();
        let nxt = una + in_flight;
        congestion.on_sent(&Transmission {
            now,
            octets: MSS,
            end: nxt,
            is_alone: false,
            in_flight,
            snd_una: una,
            snd_nxt: nxt,
        });
        congestion.on_ack(black_box(&Ack {
            now,
            snd_una: una,
            snd_nxt: nxt,
            acked: MSS,
            delivered: MSS,
            in_flight,
            is_safe: true,
            rtt: Some(RTT),
            newest: Some((now, una)),
        }));
        // As on a path with room for a megabyte.
        if congestion.cwnd() > 1 << 20 {
            congestion.on_congestion_event(&reduction_at(now, una, nxt));
        }
    });
}

fn reduction_at(now: Instant, snd_una: SeqNumber, snd_nxt: SeqNumber) -> Reduction {
    Reduction {
        now,
        snd_una,
        snd_nxt,
        in_flight: snd_nxt - snd_una,
        recover_flight_size: snd_nxt - snd_una,
        is_last_in_doubt: false,
        is_mark: false,
    }
}

fn rtt() {
    let mut estimator = RttEstimator::default();
    let mut now = Instant::ZERO;
    report("rtt sample", 1, || {
        now = now + Duration::from_micros(1);
        estimator.on_sample(now, black_box(RTT), 20 * MSS, MSS);
        black_box(estimator.rto());
    });
}

fn board(outstanding: u32) -> (Scoreboard, SeqNumber) {
    let mut board = Scoreboard::default();
    let mut end = SeqNumber(0);
    for _ in 0..outstanding {
        board.push(end, MSS, Instant::ZERO);
        end += MSS;
    }
    (board, end)
}

fn scoreboard_in_order(outstanding: u32) {
    let (mut board, mut end) = board(outstanding);
    let mut una = SeqNumber(0);
    report(
        "scoreboard: one sent, one acknowledged",
        outstanding,
        || {
            board.push(end, MSS, Instant::ZERO);
            end += MSS;
            una += MSS;
            board.acknowledge(una, |segment| {
                black_box(segment);
            });
        },
    );
}

/// The same large block again and again, as a peer behind a hole reports it.
fn scoreboard_repeated_sack(outstanding: u32) {
    let (mut board, end) = board(outstanding);
    let start = SeqNumber(MSS);
    board.sack(start, end, |_| {});
    report("scoreboard: a block that is known", outstanding, || {
        board.sack(black_box(start), black_box(end), |segment| {
            black_box(segment);
        });
    });
}

/// A block that grows by one segment; the hole stays at the front until the flight is over.
fn scoreboard_new_sack(outstanding: u32) {
    let (mut board, mut end) = board(outstanding);
    let mut first = SeqNumber(0);
    let mut next = 1;
    report("scoreboard: a block grown by one", outstanding, || {
        board.sack(first + MSS, first + MSS * (next + 1), |segment| {
            black_box(segment);
        });
        board.push(end, MSS, Instant::ZERO);
        end += MSS;
        next += 1;
        if next + 1 >= outstanding {
            first += MSS * next;
            board.acknowledge(first, |_| {});
            next = 1;
        }
    });
}

/// Everything that an acknowledgement and the segment it lets out cost the sending side.
fn recovery(outstanding: u32) {
    let settings = Settings {
        algorithm: CongestionAlgorithm::Cubic,
        mss: MSS,
        initial_window_segments: 10,
        sack: true,
        tail_loss_probe: true,
        slow_start_after_idle: true,
        dup_threshold: 3,
    };
    let mut recovery = Recovery::new(settings, RttEstimator::default(), SeqNumber(0));
    let mut now = Instant::ZERO;
    let (mut una, mut nxt) = (SeqNumber(0), SeqNumber(0));
    for _ in 0..outstanding {
        recovery.on_sent(nxt, MSS, false, now);
        nxt += MSS;
    }
    report("recovery: one sent, one acknowledged", outstanding, || {
        now = now + Duration::from_micros(1);
        una += MSS;
        let outcome = recovery.on_ack(black_box(&Acknowledgement {
            now,
            ack: una,
            sack: &[],
            is_plain: true,
            echo: None,
        }));
        black_box(outcome);
        black_box(recovery.next_to_retransmit(true));
        recovery.before_sending(now);
        black_box(recovery.room());
        recovery.on_sent(nxt, MSS, false, now);
        nxt += MSS;
        black_box(recovery.deadline());
    });
}

fn timer_wheel(timers: u32) {
    let mut wheel = TimerWheel::new(Duration::from_millis(1), Instant::ZERO);
    for id in 0..timers {
        wheel.arm(id, Instant::ZERO + Duration::from_micros(u64::from(id) * 7));
    }
    let mut now = Instant::ZERO;
    let mut random = Random(1);
    report("timer: armed for later", timers, || {
        now = now + Duration::from_nanos(100);
        wheel.arm(random.below(timers), now + Duration::from_secs(200));
    });
    report("timer: armed for earlier", timers, || {
        let id = random.below(timers);
        wheel.disarm(id);
        wheel.arm(id, now + Duration::from_millis(u64::from(id & 1023)));
    });
    report("timer: poll without expiry", timers, || {
        black_box(wheel.poll(black_box(Instant::ZERO)));
    });
}

fn demux(connections: u32) {
    let mut demux = Demux::new([0x5a; 16]);
    for index in 0..connections {
        demux.insert(local(), remote(index), index).unwrap();
    }
    let mut random = Random(1);
    report("demux: a connection that is there", connections, || {
        let remote = remote(random.below(connections));
        black_box(demux.connection(local(), remote).unwrap());
    });
    let mut previous = 0;
    report("demux: each after the last is known", connections, || {
        let remote = remote((random.below(connections) + previous) % connections);
        previous = demux.connection(local(), remote).unwrap() & 1;
    });
    report("demux: a connection that is not there", connections, || {
        let remote = remote(connections + random.below(connections));
        black_box(demux.connection(local(), remote));
    });
}

fn pacer() {
    let mut pacer = Pacer::default();
    pacer.set_rate(125_000_000, MSS);
    let mut now = Instant::ZERO;
    report("pacer: one segment", 1, || {
        now = pacer.hold(now).unwrap_or(now);
        pacer.on_sent(black_box(MSS), now);
        black_box(&pacer);
    });
}

fn secrets() {
    let key = SecretKey::new([1; 16]);
    let (local, remote) = (local(), remote(1));
    report("initial sequence number", 1, || {
        black_box(key.initial_sequence_number(black_box(local), remote, Instant::ZERO));
    });
}

/// Prints the fastest of many short runs: the others were disturbed by something else on the
/// machine.
fn report(name: &str, size: u32, mut call: impl FnMut()) {
    const RUNS: u32 = 600;
    const CALLS: u32 = 5_000;
    let fastest = (0..RUNS)
        .map(|_| {
            let start = std::time::Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed()
        })
        .min()
        .unwrap();
    let nanoseconds = fastest.as_secs_f64() * 1e9 / f64::from(CALLS);
    println!("{name:<40} of {size:>9} {nanoseconds:>8.1} ns");
}
